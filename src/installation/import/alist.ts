/** What AList and OpenList store, as rows of an installation. Nothing is read or written here. */
import { isAbsolute } from 'node:path'
import { maxMembers } from '../../accounts/groups.js'
import { isOtpSecret } from '../../accounts/otp.js'
import { wrapSaltedHash } from '../../accounts/passwords.js'
import { fingerprintOf, parseKeyBlob, parseKeyLine } from '../../accounts/public-keys.js'
import type { AnyDriverType } from '../../contract/driver-type.js'
import { GatewayError, toGatewayError } from '../../base/errors.js'
import { cleanPath } from '../../base/path.js'
import { compileLinear, patternLines } from '../../base/patterns.js'
import { settingFault } from '../../settings/settings.js'
import type { SettingDefinition } from '../../settings/settings-table.js'
import { checkOptions, parseAddition } from '../../mounts/fields.js'
import { storedStatus } from '../../mounts/mounts.js'
import type { AlistDatabase } from '../../database/alist-database.js'
import { textOf, type ForeignRow } from '../../database/foreign-sqlite.js'
import type { ImportedShare, ImportedUser, Installation } from '../../database/installation.js'
import { newStorage } from '../../database/new-storage.js'
import type { KeyRow } from '../../database/tables/accounts.js'
import type { FolderRule } from '../../database/tables/rules.js'
import type { StorageRow } from '../../database/tables/storages.js'
import { hidePatterns } from '../../tree/folder-rules.js'
import { checkConfiguration } from '../../mounts/storage-admin.js'
import { adminRole, rightsByRoles, rolesFrom, type AlistRoles } from './alist-roles.js'
import { ImportedGrants } from './grants.js'
import { passkeysOf } from './passkeys.js'
import type { ImportedKind } from '../../base/imported-kinds.js'
import type { Report } from './report.js'
import { ImportedShares } from './share.js'
import { adminOf, userOf } from './user.js'

export type AlistProgram = 'alist' | 'openlist'

/** The permission bits of each program that mean the same here. */
const commonPermissions: Readonly<Record<AlistProgram, number>> = { alist: 0x3fff, openlist: 0xffff }

/** The largest number of keys of a user. */
const maxKeys = 100

/**
 * Maps the database, and reports everything in it. `known`: what exists here. Rejects with `invalid` if no
 * administrator can be taken. Hashing the passwords takes about 0.2 s for each user.
 */
export async function fromAlist(
  program: AlistProgram,
  database: AlistDatabase,
  known: { readonly driverTypes: readonly AnyDriverType[]; readonly settings: readonly SettingDefinition[] },
  report: Report,
): Promise<Installation> {
  const { rows } = database
  const roles = await rolesFrom(rows.roles, new ImportedGrants(), report)
  const { users, members } = await usersOf(program, database, roles, report)
  const admin = adminOf(users)
  const storages = await allOf(rows.storages, 'mount_path', 'storage', report, (row) =>
    storageOf(row, known.driverTypes),
  )
  const ids = new Set(users.map(({ id }) => id))
  const rules = await allOf(rows.meta, 'path', 'folder rule', report, (row) => ruleOf(row, ids, admin.id))
  return {
    users,
    groups: [...roles].map(([id, { group }]) => ({ ...group, members: members.get(id) ?? [] })),
    storages: distinct(storages, 'mountPath'),
    rules: distinct(rules, 'path'),
    shares: await sharesOf(rows.sharing_dbs, users, report),
    settings: settingsOf(rows.setting_items, known.settings, report),
  }
}

/** A row of an installation, and what is not as it was. */
interface Mapped<Row> {
  readonly row: Row
  readonly changes: readonly string[]
}

/** Maps each row, and reports it by the text of `column`. What cannot be mapped is left out. */
async function allOf<Row>(
  rows: readonly ForeignRow[],
  column: string,
  kind: ImportedKind,
  report: Report,
  map: (row: ForeignRow) => Mapped<Row>,
): Promise<Row[]> {
  const all: Row[] = []
  for (const row of rows) {
    const name = textOf(row[column])
    const mapped = await report.mapped(kind, name, () => map(row))
    if (mapped === undefined) continue
    report.taken(kind, name, mapped.changes)
    all.push(mapped.row)
  }
  return all
}

/** Throws `invalid` if two rows have the same path, of which only one could be stored. */
function distinct<Row>(rows: readonly Row[], field: keyof Row): readonly Row[] {
  const paths = new Set<unknown>()
  for (const row of rows) {
    if (paths.has(row[field]))
      throw new GatewayError('invalid', {
        reason: `two entries have the path ${String(row[field])}: remove one there first`,
      })
    paths.add(row[field])
  }
  return rows
}

/** The users, and their ids by role. */
async function usersOf(
  program: AlistProgram,
  { rows, hasRoles }: AlistDatabase,
  roles: AlistRoles,
  report: Report,
): Promise<{ readonly users: readonly ImportedUser[]; readonly members: ReadonlyMap<number, readonly number[]> }> {
  const users: ImportedUser[] = []
  const members = new Map<number, number[]>()
  const credentialIds = new Set<string>()
  const byId = new Map<number, readonly ForeignRow[]>()
  for (const key of rows.ssh_public_keys) {
    const owner = Number(key.user_id)
    byId.set(owner, [...(byId.get(owner) ?? []), key])
  }
  for (const row of rows.users) {
    const username = textOf(row.username)
    const mapped = await report.mapped('user', username, async () => {
      const ids = rolesOf(row.role)
      const role = ids.includes(adminRole) ? 'admin' : ids.includes(1) ? 'guest' : 'general'
      const byRoles = hasRoles && role !== 'admin' ? rightsByRoles(ids, roles) : undefined
      const isFull = (id: number) => (members.get(id)?.length ?? 0) >= maxMembers
      const full =
        byRoles !== undefined && ids.some(isFull) ? [`one of its roles has ${maxMembers} members already`] : []
      const common = commonPermissions[hasRoles ? 'alist' : program]
      const otpSecret = textOf(row.otp_secret)
      const isUsable = otpSecret === '' || isOtpSecret(otpSecret)
      const draft = {
        id: Number(row.id),
        username,
        passwordHash: role === 'guest' ? undefined : await passwordOf(row),
        basePath: textOf(row.base_path) || '/',
        role,
        permission: byRoles?.permission ?? (Number(row.permission) || 0) & common,
        disabled: isDisabled(row.disabled),
        ssoId: textOf(row.sso_id).slice(0, 255),
        otpSecret: isUsable ? otpSecret : '',
        grantedOnly: byRoles?.grantedOnly ?? false,
        allowFrom: [],
        expires: undefined,
        keys: [],
        grants: [],
      } as const
      const faults = [...(byRoles?.faults ?? []), ...full, ...(isUsable ? [] : ['its two-step secret is not usable'])]
      const { user, changes } = userOf(draft, users, faults)
      return {
        user,
        changes: [...changes, ...(byRoles?.changes ?? [])],
        roles: byRoles === undefined ? [] : ids.filter((id) => !isFull(id)),
      }
    })
    if (mapped === undefined) continue
    const { user, changes } = mapped
    report.taken('user', username, changes)
    const keys = await keysOf(byId.get(user.id) ?? [], username, report)
    // Users of those programs write their own.
    if (user.ssoId !== '')
      report.taken('sso_id', username, ['whoever signs in by this identity first gets the account'])
    const passkeys = user.role === 'guest' ? [] : await passkeysOf(textOf(row.authn), username, credentialIds, report)
    users.push({ ...user, keys, passkeys })
    for (const id of new Set(mapped.roles)) {
      const others = members.get(id)
      if (others) others.push(user.id)
      else members.set(id, [user.id])
    }
  }
  return { users, members }
}

/** The wrapped hash; undefined for an account that has none, as those of single sign-on do. */
async function passwordOf(row: ForeignRow): Promise<string | undefined> {
  const hash = textOf(row.pwd_hash)
  return hash === '' ? undefined : wrapSaltedHash(hash.toLowerCase(), textOf(row.salt))
}

/** A number, or the JSON text of a list of numbers. */
function rolesOf(value: ForeignRow[string]): readonly number[] {
  const parsed = jsonOf(textOf(value) || '0')
  const list: readonly unknown[] = Array.isArray(parsed) ? parsed : [parsed]
  if (list.every((role) => typeof role === 'number')) return list
  throw new GatewayError('invalid', { reason: 'its role is not a number or a list of numbers' })
}

async function keysOf(
  rows: readonly ForeignRow[],
  username: string,
  report: Report,
): Promise<readonly Omit<KeyRow, 'id' | 'userId'>[]> {
  const keys: Omit<KeyRow, 'id' | 'userId'>[] = []
  for (const row of rows) {
    const title = textOf(row.title).slice(0, 64) || `key ${textOf(row.id)}`
    const name = `${username}: ${title}`
    const key = await report.mapped('SSH key', name, () => {
      if (keys.length === maxKeys)
        throw new GatewayError('invalid', { reason: `an account can have at most ${maxKeys} keys` })
      if (keys.some((other) => other.title === title))
        throw new GatewayError('invalid', { reason: 'another key of the user has this title' })
      const bytes = Buffer.isBuffer(row.key_str) ? row.key_str : Buffer.from(textOf(row.key_str))
      // The first byte of a blob is that of a length below 2^24.
      const { type, blob } = bytes[0] === 0 ? parseKeyBlob(bytes) : parseKeyLine(bytes.toString())
      const added = new Date()
      return { title, type, blob, fingerprint: fingerprintOf(blob), added, lastUsed: added }
    })
    if (key === undefined) continue
    report.taken('SSH key', name)
    keys.push(key)
  }
  return keys
}

/** A storage that cannot run as it is, or whose driver is unknown, is taken disabled. */
function storageOf(row: ForeignRow, driverTypes: readonly AnyDriverType[]): Mapped<Omit<StorageRow, 'id'>> {
  const driver = textOf(row.driver)
  const addition = textOf(row.addition)
  const storage: Omit<StorageRow, 'id'> = {
    ...newStorage({ mountPath: cleanPath(textOf(row.mount_path)), driver, addition }),
    order: integerOf(row.order),
    cacheExpiration: Math.max(0, integerOf(row.cache_expiration)),
    customCachePolicies: textOf(row.custom_cache_policies),
    remark: textOf(row.remark),
    disabled: isDisabled(row.disabled),
    disableIndex: isTrue(row.disable_index),
    enableSign: isTrue(row.enable_sign),
    ...orderOf(row),
    webProxy: isTrue(row.web_proxy),
    webdavPolicy: oneOf(row.webdav_policy, ['native_proxy', '302_redirect', 'use_proxy_url']),
    proxyRange: isTrue(row.proxy_range),
    downProxyUrl: textOf(row.down_proxy_url),
    disableProxySign: isTrue(row.disable_proxy_sign),
  }
  try {
    const options = { ...storage, ...checkConfiguration(storage, driverTypes) }
    const given = parseAddition(addition)
    checkOptions(driverTypes.find(({ name }) => name === driver)?.fields ?? {}, given)
    if (driver === 'Local' && !isAbsolute(String(given.root_folder_path))) {
      throw new GatewayError('invalid', {
        reason: 'its folder is relative to that of the other program: give the whole path',
      })
    }
    return {
      row: { ...options, status: options.disabled ? storedStatus.disabled : storedStatus.starting },
      changes: [],
    }
  } catch (error) {
    const disabled = { ...storage, disabled: true, status: storedStatus.disabled }
    return { row: disabled, changes: [`disabled: ${toGatewayError(error).reason}`] }
  }
}

/** A rule that cannot be expressed closes its folder to all but the admin. `ids`: of the users that are taken. */
function ruleOf(row: ForeignRow, ids: ReadonlySet<number>, adminId: number): Mapped<Omit<FolderRule, 'id'>> {
  const path = cleanPath(textOf(row.path))
  try {
    const hide = textOf(row.hide)
    hidePatterns(hide)
    for (const pattern of patternLines(hide)) compileLinear(pattern)
    const rule = {
      path,
      password: textOf(row.password),
      passwordSub: isTrue(row.p_sub),
      write: isTrue(row.write),
      writeSub: isTrue(row.w_sub),
      hide,
      hideSub: isTrue(row.h_sub),
      readme: textOf(row.readme),
      readmeSub: isTrue(row.r_sub),
      header: textOf(row.header),
      headerSub: isTrue(row.header_sub),
      readUsers: userIds(row.read_users, ids),
      readUsersSub: isTrue(row.read_users_sub),
      writeUsers: userIds(row.write_users, ids),
      writeUsersSub: isTrue(row.write_users_sub),
    }
    return { row: rule, changes: [] }
  } catch (error) {
    const closed = {
      path,
      password: '',
      passwordSub: false,
      write: false,
      writeSub: false,
      hide: '',
      hideSub: false,
      readme: '',
      readmeSub: false,
      header: '',
      headerSub: false,
      readUsers: [adminId],
      readUsersSub: true,
      writeUsers: [adminId],
      writeUsersSub: true,
    }
    const reason = `the folder is closed to all but the administrator: ${toGatewayError(error).reason}`
    return { row: closed, changes: [reason] }
  }
}

/** Links of OpenList name a share by its id, as those of here do. */
async function sharesOf(
  rows: readonly ForeignRow[],
  users: readonly ImportedUser[],
  report: Report,
): Promise<readonly ImportedShare[]> {
  const shares = new ImportedShares()
  const creators = new Map(users.map((user) => [user.id, user]))
  for (const row of rows) {
    const id = textOf(row.id)
    const changes = await report.mapped('share', id, () => {
      const expires = timeOf(row.expires)
      const draft = {
        id,
        creator: creators.get(Number(row.creator_id)),
        paths: pathsOf(row.files_raw),
        expires,
        code: textOf(row.pwd),
        visits: Math.max(0, integerOf(row.accessed)),
        maxVisits: integerOf(row.max_accessed),
        disabled: isDisabled(row.disabled),
        remark: textOf(row.remark),
        readme: textOf(row.readme),
        header: textOf(row.header),
        ...orderOf(row),
      } as const
      return shares.add({ ...draft, expires: expires === 'unknown' ? undefined : expires }, [
        ...(expires === 'unknown' ? ['its end is not a time: set one'] : []),
      ])
    })
    if (changes !== undefined) report.taken('share', id, changes)
  }
  return shares.all
}

/** JSON text of a list of paths. */
function pathsOf(value: ForeignRow[string]): readonly string[] {
  const parsed = jsonOf(textOf(value) || '[]')
  const list: readonly unknown[] = Array.isArray(parsed) ? parsed : [parsed]
  if (list.every((path) => typeof path === 'string')) return list.filter((path) => path !== '')
  throw new GatewayError('invalid', { reason: 'its list of files is not a list of paths' })
}

/** A time as programs in Go store it in SQLite, such as `2030-12-31 23:59:59.5+00:00`; undefined for none. */
function timeOf(value: ForeignRow[string]): Date | 'unknown' | undefined {
  const text = textOf(value)
  if (text === '') return undefined
  const [, day, clock, zone = 'Z'] =
    /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.\d+)? ?(Z|UTC|[+-]\d\d:?\d\d)?(?: [\w+-]+)?$/.exec(text) ?? []
  const time = new Date(`${day}T${clock}${zone === 'UTC' ? 'Z' : zone.replace(/^(...)(\d\d)$/, '$1:$2')}`)
  if (Number.isNaN(time.getTime())) return 'unknown'
  // The zero time of Go.
  return time.getUTCFullYear() > 1 ? time : undefined
}

/**
 * JSON text of a list of ids; none means every user. Throws `invalid` if it names nobody who is taken: that would open
 * the folder.
 */
function userIds(value: ForeignRow[string], ids: ReadonlySet<number>): readonly number[] {
  const parsed = jsonOf(textOf(value) || 'null') ?? []
  if (!Array.isArray(parsed)) throw new GatewayError('invalid', { reason: 'its list of users is not a list' })
  const known = (parsed as readonly unknown[]).filter((id): id is number => typeof id === 'number' && ids.has(id))
  if (parsed.length > 0 && known.length === 0) {
    throw new GatewayError('invalid', { reason: 'it names only users who are not taken' })
  }
  return known
}

/** Values that are not stored: they describe the other program. */
const ownValues: ReadonlySet<string> = new Set(['version', 'index_progress'])

/** The settings that exist here, and differ from the default. The others are one line of the report. */
function settingsOf(
  rows: readonly ForeignRow[],
  known: readonly SettingDefinition[],
  report: Report,
): ReadonlyMap<string, string> {
  const values = new Map<string, string>()
  const unknown: string[] = []
  const definitions = new Map(known.map((definition) => [definition.key, definition]))
  for (const row of rows) {
    const key = textOf(row.key)
    const value = textOf(row.value)
    const definition = definitions.get(key)
    if (ownValues.has(key) || value === definition?.default) continue
    if (definition === undefined) {
      if (value !== '') unknown.push(key)
      continue
    }
    const fault = settingFault(definition, value)
    // The default of these programs has a repetition that is refused here. The patterns of this program hide the same.
    if (fault !== undefined && key === 'privacy_regs') report.taken('setting', key, [`those of here stay: ${fault}`])
    else if (fault !== undefined) report.leftOut('setting', key, fault)
    else {
      values.set(key, value)
      report.taken('setting', key)
    }
  }
  if (unknown.length > 0)
    report.leftOut('settings', `${unknown.length} others`, `not here: ${unknown.join(', ').slice(0, 2000)}`)
  return values
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new GatewayError('invalid', { reason: 'a field that must be JSON text is not' })
  }
}

/** Booleans are stored as numbers, or as text by some versions. */
function isTrue(value: ForeignRow[string]): boolean {
  return ['1', 'true'].includes(textOf(value))
}

/** A value that says neither is taken for disabled. */
function isDisabled(value: ForeignRow[string]): boolean {
  return !['', '0', 'false'].includes(textOf(value))
}

function integerOf(value: ForeignRow[string]): number {
  const number = Number(textOf(value))
  return Number.isInteger(number) && Math.abs(number) < 2 ** 31 ? number : 0
}

/** The order of listings, as storages and shares have it. */
function orderOf(row: ForeignRow): Pick<StorageRow, 'orderBy' | 'orderDirection' | 'extractFolder'> {
  return {
    orderBy: oneOf(row.order_by, ['', 'name', 'size', 'modified']),
    orderDirection: oneOf(row.order_direction, ['', 'asc', 'desc']),
    extractFolder: oneOf(row.extract_folder, ['', 'front', 'back']),
  }
}

/** The value, or the first of the choices. */
function oneOf<Choice extends string>(value: ForeignRow[string], choices: readonly [Choice, ...Choice[]]): Choice {
  return choices.find((choice) => choice === textOf(value)) ?? choices[0]
}
