/** The SQLite database of File Browser Quantum, as rows of an installation. Nothing is written here. */
import { isAbsolute } from 'node:path'
import { z } from 'zod'
import { isBcrypt } from '../../accounts/bcrypt.js'
import { isOtpSecret } from '../../accounts/otp.js'
import { allPermissions, permissionBits } from '../../accounts/principal.js'
import { GatewayError, toGatewayError } from '../../base/errors.js'
import { childOf, cleanPath, isWithin, nameOf, root, under, within, type Path } from '../../base/path.js'
import type { Right } from '../../base/rights.js'
import { readForeignTables, textOf, type ForeignRow } from '../../database/foreign-sqlite.js'
import type {
  ImportedGrant,
  ImportedGroup,
  ImportedShare,
  ImportedUser,
  Installation,
} from '../../database/installation.js'
import { newStorage } from '../../database/new-storage.js'
import type { StorageRow } from '../../database/tables/storages.js'
import { storedStatus } from '../../mounts/mounts.js'
import { ImportedGrants } from './grants.js'
import { groupOf } from './group.js'
import { listOf, parseJson } from './json.js'
import { QuantumGroups, SourceRules } from './quantum-rules.js'
import { shareSettingsOf } from './quantum-shares.js'
import type { ImportedKind } from '../../base/imported-kinds.js'
import type { Report } from './report.js'
import { hashedCode, ImportedShares, oldLinksSetting } from './share.js'
import { adminOf, userOf } from './user.js'

/** The tables that are read, with their columns. */
const tables = {
  users: ['user_id', 'username', 'perm_admin', 'user_data'],
  groups: ['name', 'members'],
  access_rules: ['source', 'path', 'rule_data'],
  shares: ['hash', 'user_id', 'source', 'path', 'expire', 'downloads', 'password_hash', 'share_settings'],
  auth_methods: ['type'],
} as const

/** Rows by table; empty for a table that does not exist. */
export type QuantumDatabase = Readonly<Record<keyof typeof tables, readonly ForeignRow[]>>

/** What the database does not say of its sources, by the paths of their folders. */
export interface SourceDefaults {
  /** Folders in which nobody sees what no rule allows. Sources that nothing is said of are taken for such. */
  readonly denied: readonly string[]
  /** Folders in which users see what no rule denies. */
  readonly allowed: readonly string[]
}

/**
 * Reads the database. Rejects as `readForeignTables`, and with `invalid` if it is another one. `file`: if it has a
 * write-ahead log, a copy.
 */
export async function readQuantumDatabase(file: string): Promise<QuantumDatabase> {
  const found = await readForeignTables(file, tables)
  if (found.users === undefined || found.access_rules === undefined || found.groups === undefined) {
    const reason = `${file} has no tables users, groups and access_rules: it is no database of File Browser Quantum 2`
    throw new GatewayError('invalid', { reason })
  }
  const { users, groups, access_rules: rules, shares = [], auth_methods: methods = [] } = found
  return { users, groups, access_rules: rules, shares, auth_methods: methods }
}

const permissions = z.object({
  view: z.boolean().default(false),
  download: z.boolean().default(false),
  modify: z.boolean().default(false),
  delete: z.boolean().default(false),
  create: z.boolean().default(false),
})
/** `path`: the folder of the source, on the disk. `scope`: a path in it. */
const scope = z.object({
  path: z.string().max(4096),
  scope: z.string().max(4096),
  permissions: permissions.optional(),
})
const userData = z.object({
  password: z.string().max(1000).default(''),
  loginMethod: z.string().default(''),
  otpEnabled: z.boolean().default(false),
  totpSecret: z.string().max(1000).default(''),
  totpNonce: z.string().max(1000).default(''),
  lockPassword: z.boolean().default(false),
  permissions: z.object({ share: z.boolean().default(false) }).nullish(),
  backendScopes: listOf(scope, 1000).nullish(),
  tokens: z.unknown().optional(),
  apiKeys: z.unknown().optional(),
})

type Scope = z.infer<typeof scope>
type UserData = z.infer<typeof userData>

/** The largest number of sources. */
const maxSources = 1000

/**
 * Maps the database, and reports everything in it. Rejects with `invalid` if no administrator can be taken, and if
 * there are too many sources.
 */
export async function fromQuantum(
  database: QuantumDatabase,
  defaults: SourceDefaults,
  report: Report,
): Promise<Installation> {
  const named = new QuantumGroups(database.groups)
  const sources = new Sources(database.access_rules, named, defaults)
  const mapping = new UserMapping(sources)
  for (const [index, row] of database.users.entries()) {
    const username = textOf(row.username)
    // Rules and groups name users by their names, and ids are too long for a number.
    const mapped = await report.mapped('user', username, () => mapping.add(index + 1, username, row))
    if (mapped === undefined) continue
    report.taken('user', username, mapped.changes)
    for (const { path } of mapped.user.grants) report.taken('grant', `${username}: ${path}`)
    for (const left of mapped.leftOut) report.leftOut(left, username, `${left} cannot be imported`)
  }
  const { users } = mapping
  adminOf(users)
  sources.assertStatedOnes()
  const groups = await groupsOf(database.groups, named, users, report)
  const shares = await sharesOf(database.shares, sources, mapping.creators, report)
  for (const { type } of database.auth_methods) {
    if (textOf(type) !== 'password') {
      report.leftOut('sign-in', textOf(type), 'users sign in with their passwords here')
    }
  }
  // People have the links of that program.
  const settings = new Map<string, string>()
  if (shares.length > 0) settings.set(oldLinksSetting, 'true')
  return { users, groups, storages: sources.storages(report), rules: [], shares, settings }
}

async function groupsOf(
  rows: readonly ForeignRow[],
  named: QuantumGroups,
  users: readonly ImportedUser[],
  report: Report,
): Promise<readonly ImportedGroup[]> {
  const allGrants = new ImportedGrants()
  const groups: ImportedGroup[] = []
  const ids = new Map(users.map(({ id, username }) => [username, id]))
  for (const row of rows) {
    const name = textOf(row.name)
    const group = await report.mapped('group', name, () => {
      const members = [...named.membersOf(name)].flatMap((username) => ids.get(username) ?? [])
      return groupOf({ name, description: '', permission: 0, members, grants: [] }, groups, allGrants)
    })
    if (group === undefined) continue
    groups.push(group)
    report.taken('group', name, ['what the rules for it allow and deny is granted to each member'])
  }
  return groups
}

async function sharesOf(
  rows: readonly ForeignRow[],
  sources: Sources,
  creators: ReadonlyMap<string, ImportedUser>,
  report: Report,
): Promise<readonly ImportedShare[]> {
  const shares = new ImportedShares()
  for (const row of rows) {
    const [id, path] = [textOf(row.hash), textOf(row.path)]
    const changes = await report.mapped('share', `${id}: ${path}`, () => {
      const mountPath = sources.known(textOf(row.source))?.mountPath
      if (mountPath === undefined) throw new GatewayError('invalid', { reason: 'no user who is taken has its source' })
      const settings = shareSettingsOf(textOf(row.share_settings))
      const draft = {
        id,
        creator: creators.get(textOf(row.user_id)),
        paths: [under(mountPath, cleanPath(path))],
        mode: settings.mode,
        expires: endOf(row.expire),
        visits: countOf(row.downloads),
        maxVisits: settings.maxDownloads,
      }
      const isHashed = textOf(row.password_hash) !== ''
      const added = shares.add(draft, [...settings.faults, ...(isHashed ? [hashedCode] : [])])
      return [...added, ...settings.changes]
    })
    if (changes !== undefined) report.taken('share', `${id}: ${path}`, changes)
  }
  return shares.all
}

/** The end of an account, stored in seconds since 1970; 0: never. Throws `invalid` for anything else. */
function endOf(value: ForeignRow[string]): Date | undefined {
  const seconds = Number(textOf(value) || '0')
  if (!Number.isSafeInteger(seconds)) throw new GatewayError('invalid', { reason: 'its end is not a time' })
  return seconds === 0 ? undefined : new Date(seconds * 1000)
}

function countOf(value: ForeignRow[string]): number {
  const count = Number(textOf(value) || '0')
  return Number.isSafeInteger(count) ? Math.max(0, count) : 0
}

/** A source, as a storage. */
interface Source {
  readonly mountPath: Path
  readonly rules: SourceRules
  /** Nobody sees what no rule allows. */
  readonly isDenied: boolean
  /** Whether nothing says so, nor the opposite. */
  readonly isUnstated: boolean
}

class Sources {
  /** The sources by the path of the folder on the disk, which rules name. */
  readonly #found = new Map<string, Source>()
  readonly #rows = new Map<string, ForeignRow[]>()

  constructor(
    rules: readonly ForeignRow[],
    private readonly groups: QuantumGroups,
    private readonly defaults: SourceDefaults,
  ) {
    for (const row of rules) {
      const source = textOf(row.source)
      const others = this.#rows.get(source)
      if (others) others.push(row)
      else this.#rows.set(source, [row])
    }
  }

  /** Throws `invalid` if there are too many. */
  get(folder: string): Source {
    const known = this.#found.get(folder)
    if (known) return known
    if (this.#found.size === maxSources) {
      throw new GatewayError('invalid', { reason: `there are more than ${maxSources} sources` })
    }
    const rules = new SourceRules(this.#rows.get(folder) ?? [], this.groups)
    const { denied, allowed } = this.defaults
    const isDenied = denied.includes(folder) || !allowed.includes(folder)
    const isUnstated = isDenied && !denied.includes(folder)
    const source = { mountPath: this.#newMountPath(folder), rules, isDenied, isUnstated }
    this.#found.set(folder, source)
    return source
  }

  /** Undefined if no user has it. */
  known(folder: string): Source | undefined {
    return this.#found.get(folder)
  }

  /** Throws `invalid` if something is said of a source that no user has: its name may have been misspelled. */
  assertStatedOnes(): void {
    for (const folder of [...this.defaults.denied, ...this.defaults.allowed]) {
      if (this.#found.has(folder)) continue
      const all = [...this.#found.keys()].join(', ').slice(0, 1000)
      throw new GatewayError('invalid', { reason: `no user has the source ${folder}; there are: ${all}` })
    }
  }

  /** The name of the folder, with a number if another source has it. */
  #newMountPath(folder: string): Path {
    const path = cleanPath(folder)
    const name = path === root ? 'files' : nameOf(path)
    const taken = new Set([...this.#found.values()].map(({ mountPath }) => mountPath))
    for (let number = 1; ; number++) {
      const mountPath = childOf(root, number === 1 ? name : `${name}-${number}`)
      if (!taken.has(mountPath)) return mountPath
    }
  }

  /** One for each source, which are reported. */
  storages(report: Report): readonly Omit<StorageRow, 'id'>[] {
    return [...this.#found].map(([folder, { mountPath, isUnstated }]) => {
      const addition = JSON.stringify({ root_folder_path: folder })
      const isWhole = isAbsolute(folder)
      report.taken('storage', mountPath, [
        ...(isWhole ? [] : ['disabled: its folder is relative to that of the other program: give the whole path']),
        ...(isUnstated ? ['nobody sees there what no rule allows: say so if its denyByDefault is false'] : []),
      ])
      return {
        ...newStorage({ mountPath, driver: 'Local', addition }),
        disabled: !isWhole,
        status: isWhole ? storedStatus.starting : storedStatus.disabled,
      }
    })
  }
}

class UserMapping {
  readonly users: ImportedUser[] = []
  /** The users by their ids in the other program, which shares name. */
  readonly creators = new Map<string, ImportedUser>()
  readonly #allGrants = new ImportedGrants()

  constructor(private readonly sources: Sources) {}

  /** Throws `invalid` for a user who cannot be one here. `leftOut`: what else the user has. */
  add(
    id: number,
    username: string,
    row: ForeignRow,
  ): { readonly user: ImportedUser; readonly changes: readonly string[]; readonly leftOut: readonly ImportedKind[] } {
    const data = parseJson(userData, textOf(row.user_data), 'its data is not JSON', 'its data has another form')
    const isAdmin = Number(row.perm_admin) === 1
    const own = this.#grantsOf(username, data)
    const isSecret = data.totpNonce === '' && isOtpSecret(data.totpSecret)
    const faults = [...own.faults, ...(data.otpEnabled && !isSecret ? ['its two-step secret cannot be read'] : [])]
    const draft = {
      id,
      username,
      // Other accounts have the hash of a text that is no password.
      passwordHash: data.loginMethod === 'password' && isBcrypt(data.password) ? data.password : undefined,
      basePath: '/',
      role: isAdmin ? 'admin' : 'general',
      permission: isAdmin ? allPermissions : permissionOf(own.grants),
      disabled: false,
      ssoId: '',
      otpSecret: data.otpEnabled && isSecret ? data.totpSecret : '',
      grantedOnly: true,
      allowFrom: [],
      expires: undefined,
      keys: [],
      grants: own.grants,
    } as const
    const { user, changes } = userOf(draft, this.users, faults)
    this.users.push(user)
    const ownId = textOf(row.user_id)
    if (ownId !== '') this.creators.set(ownId, user)
    const locked = data.lockPassword ? ['it may change its password'] : []
    const leftOut: readonly ImportedKind[] = hasAny(data.tokens) || hasAny(data.apiKeys) ? ['tokens'] : []
    return { user, changes: [...changes, ...own.changes, ...locked], leftOut }
  }

  /** `faults`: why the rules and scopes cannot be expressed; there are no grants then. */
  #grantsOf(
    username: string,
    { backendScopes, permissions: general }: UserData,
  ): {
    readonly grants: readonly ImportedGrant[]
    readonly changes: readonly string[]
    readonly faults: readonly string[]
  } {
    if (!backendScopes) {
      const fault = 'an earlier version has stored its scopes: start and stop the newest version once'
      return { grants: [], changes: [], faults: [fault] }
    }
    const grants: ImportedGrant[] = []
    const changes: string[] = []
    const seen = new Set<string>()
    try {
      for (const each of backendScopes) {
        // The first scope in a source counts.
        if (seen.has(each.path)) continue
        seen.add(each.path)
        const source = this.sources.get(each.path)
        const fault = source.rules.fault ?? scopeFault(each)
        if (fault !== undefined) throw new GatewayError('invalid', { reason: `${fault}, in the source ${each.path}` })
        const allow = rightsOf(each, general?.share === true)
        changes.push(...changesOf(each).map((change) => `${change}, in the source ${each.path}`))
        if (allow.length > 0) grants.push(...this.#grantsIn(source, cleanPath(each.scope), allow, username))
      }
      return { grants: this.#allGrants.take(grants), changes, faults: [] }
    } catch (error) {
      return { grants: [], changes: [], faults: [toGatewayError(error).reason] }
    }
  }

  /** Grants for what the rules of the source let the user see in its scope. */
  #grantsIn(
    { mountPath, rules, isDenied }: Source,
    scopePath: Path,
    allow: readonly Right[],
    username: string,
  ): readonly ImportedGrant[] {
    const top = under(mountPath, scopePath)
    const paths = rules.paths.map((path) => under(mountPath, path)).filter((path) => isWithin(top, path))
    const changes = this.#allGrants.changesBelow(top, paths, false, (path) =>
      rules.permit(username, within(mountPath, path) ?? root, !isDenied),
    )
    return changes.map(({ path, isAllowed }) =>
      isAllowed ? { path, allow, deny: [] } : { path, allow: [], deny: ['see'] },
    )
  }
}

function scopeFault({ scope: path }: Scope): string | undefined {
  return path.startsWith('/') && !path.split('/').includes('..') ? undefined : 'its scope is not a whole path'
}

/** Creating and modifying are one right here, as are moving, renaming and removing with what they need besides. */
function rightsOf({ permissions: own }: Scope, mayShare: boolean): readonly Right[] {
  if (own?.view !== true) return []
  const writes = own.create && own.modify
  return [
    'see',
    ...(own.download ? (['read'] as const) : []),
    ...(writes ? (['write', 'rename', 'copy'] as const) : []),
    ...(writes && own.delete ? (['move'] as const) : []),
    ...(own.delete ? (['remove'] as const) : []),
    ...(mayShare ? (['share'] as const) : []),
  ]
}

/** What is not as it was. */
function changesOf({ permissions: own }: Scope): readonly string[] {
  if (own?.view !== true) return ['it sees nothing, because nothing says that it may']
  return [
    ...(own.download ? [] : ['it may not look at files, because that is to read them']),
    ...(own.create !== own.modify
      ? ['it may not write: it could replace files that it may not change, or make new ones']
      : []),
  ]
}

/** What the grants allow can be done by WebDAV and SFTP too. */
function permissionOf(grants: readonly ImportedGrant[]): number {
  const rights = new Set(grants.flatMap(({ allow }) => allow))
  const changes = rights.has('write') || rights.has('remove')
  return (
    permissionBits.webdavRead |
    permissionBits.sftpRead |
    permissionBits.readArchives |
    (changes ? permissionBits.webdavManage | permissionBits.sftpManage : 0) |
    (rights.has('share') ? permissionBits.share : 0)
  )
}

function hasAny(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length > 0
}
