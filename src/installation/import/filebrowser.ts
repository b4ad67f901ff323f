/** The exports of File Browser, as rows of an installation. Nothing is written here, and only names are read. */
import { access, opendir } from 'node:fs/promises'
import { isAbsolute, join, posix } from 'node:path'
import { z } from 'zod'
import { isBcrypt } from '../../accounts/bcrypt.js'
import { allPermissions, permissionBits } from '../../accounts/principal.js'
import { GatewayError, toGatewayError } from '../../base/errors.js'
import {
  childOf,
  cleanPath,
  isListableName,
  nameOf,
  parentOf,
  root,
  under,
  within,
  type Path,
} from '../../base/path.js'
import { storedStatus } from '../../mounts/mounts.js'
import type { ImportedGrant, ImportedShare, ImportedUser, Installation } from '../../database/installation.js'
import { newStorage } from '../../database/new-storage.js'
import type { FolderRule } from '../../database/tables/rules.js'
import { hidePatterns } from '../../tree/folder-rules.js'
import { dotNames, namePatterns, PathRules, type FileBrowserRule } from './filebrowser-rules.js'
import { ImportedGrants, type DecisionChange } from './grants.js'
import { listOf, parseJson } from './json.js'
import type { Report } from './report.js'
import { hashedCode, ImportedShares, oldLinksSetting } from './share.js'
import { adminOf, userOf } from './user.js'

const rule = z.object({
  regex: z.boolean().default(false),
  allow: z.boolean().default(false),
  path: z.string().max(4096).default(''),
  regexp: z.object({ raw: z.string().max(4096) }).nullish(),
})
const rules = listOf(rule, 1000)
  .nullish()
  .transform((list) => list ?? [])
const permissions = z.object({
  admin: z.boolean(),
  execute: z.boolean().default(false),
  create: z.boolean(),
  rename: z.boolean(),
  modify: z.boolean(),
  delete: z.boolean(),
  share: z.boolean(),
  download: z.boolean(),
})
const user = z.object({
  id: z.number().int(),
  username: z.string(),
  password: z.string().max(1000),
  scope: z.string().max(4096).default('.'),
  lockPassword: z.boolean().default(false),
  hideDotfiles: z.boolean().default(false),
  perm: permissions,
  rules,
})
const usersSchema = listOf(user, 10_000)
const configSchema = z.object({
  server: z.object({ root: z.string().max(4096) }),
  settings: z.object({
    rules,
    authMethod: z.string().default('json'),
    branding: z.object({ name: z.string().max(1000).default('') }).nullish(),
  }),
})

/** `path` is relative to the scope of the user. `expire`: in seconds since 1970; 0 for never. */
const link = z.object({
  hash: z.string().max(1000),
  path: z.string().max(4096),
  userID: z.number().int(),
  expire: z.number().int().default(0),
  hasPassword: z.boolean().default(false),
  // Earlier versions list it instead.
  password_hash: z.string().max(1000).default(''),
})
/** Go writes an empty list as null. */
const linksSchema = listOf(link, 10_000).nullable()

type FileBrowserUser = z.infer<typeof user>

/** The texts of the exports, and the folder to use in place of that of the configuration. */
interface FileBrowserExports {
  readonly users: string
  readonly config: string
  /** What `GET /api/shares` answers to an administrator. */
  readonly shares?: string | undefined
  readonly root?: string | undefined
}

/** The largest number of rules with another path, of names that begin with one, and of patterns. */
const limits = { rules: 10_000, names: 1000, patterns: 100 }

/**
 * Maps the exports, and reports everything in them. Rejects with `invalid` if one has another form, or has no
 * administrator.
 */
export async function fromFileBrowser(exports: FileBrowserExports, report: Report): Promise<Installation> {
  const people = parse(usersSchema, exports.users, 'users')
  const { server, settings } = parse(configSchema, exports.config, 'configuration')
  const folder = exports.root ?? server.root
  if (!isAbsolute(folder)) {
    throw new GatewayError('invalid', { reason: `the folder ${folder} is relative: give the whole path as the root` })
  }
  const mapping = new UserMapping(settings.rules, people, folder)
  for (const person of people) {
    const mapped = await report.mapped('user', person.username, () => mapping.add(person))
    if (mapped === undefined) continue
    report.taken('user', person.username, mapped.changes)
    for (const { path, reason } of mapped.lines) {
      report.taken('grant', `${person.username}: ${path}`, reason === undefined ? [] : [reason])
    }
  }
  const { users, hidden } = mapping
  adminOf(users)
  for (const pattern of hidden.patterns) {
    report.taken('hidden names', pattern, ['hidden from all who have such a rule, in every folder'])
  }
  if (settings.authMethod !== 'json')
    report.leftOut('sign-in', settings.authMethod, 'users sign in with their passwords here')
  const values = new Map<string, string>()
  const shares = await sharesOf(exports.shares, users, report)
  // People have the links of File Browser.
  if (shares.length > 0) values.set(oldLinksSetting, 'true')
  const name = settings.branding?.name ?? ''
  if (name !== '') {
    values.set('site_title', name)
    report.taken('setting', 'site_title')
  }
  const addition = JSON.stringify({ root_folder_path: folder })
  const isMissing = users.some(({ grants }) => grants.length > 0) && !(await exists(folder))
  const change = `there is no folder ${folder} here, so only the paths of rules are denied, and no names that begin with them`
  report.taken('storage', '/', isMissing ? [change] : [])
  return {
    users,
    groups: [],
    storages: [{ ...newStorage({ mountPath: root, driver: 'Local', addition }), status: storedStatus.starting }],
    rules: hidden.patterns.length === 0 ? [] : [hidingRule(hidden.patterns)],
    shares,
    settings: values,
  }
}

async function sharesOf(
  text: string | undefined,
  users: readonly ImportedUser[],
  report: Report,
): Promise<readonly ImportedShare[]> {
  const shares = new ImportedShares()
  const creators = new Map(users.map((user) => [user.id, user]))
  for (const each of (text === undefined ? null : parse(linksSchema, text, 'shares')) ?? []) {
    const { hash: id, path, userID, expire } = each
    const changes = await report.mapped('share', `${id}: ${path}`, () => {
      const creator = creators.get(userID)
      const paths = creator === undefined ? [] : [under(creator.basePath, cleanPath(path))]
      const expires = expire > 0 ? new Date(expire * 1000) : undefined
      const isHashed = each.hasPassword || each.password_hash !== ''
      return shares.add({ id, creator, paths, expires }, isHashed ? [hashedCode] : [])
    })
    if (changes !== undefined) report.taken('share', `${id}: ${path}`, changes)
  }
  return shares.all
}

async function exists(folder: string): Promise<boolean> {
  return access(folder).then(
    () => true,
    () => false,
  )
}

function parse<T>(schema: z.ZodType<T>, text: string, what: string): T {
  return parseJson(
    schema,
    text,
    `the export of the ${what} is not JSON`,
    `this is no export of the ${what} of File Browser`,
  )
}

/** A grant of a user; `reason`: what it denies that the rules do not in all versions. */
interface GrantLine {
  readonly path: Path
  readonly reason: string | undefined
}

interface MappedUser {
  readonly changes: readonly string[]
  readonly lines: readonly GrantLine[]
}

class UserMapping {
  readonly users: ImportedUser[] = []
  readonly hidden: HiddenNames
  readonly #names: PrefixedNames
  readonly #allGrants = new ImportedGrants()

  /** `global`: the rules that apply before those of each user. `folder`: of the disk, which is shown at `/`. */
  constructor(
    private readonly global: readonly FileBrowserRule[],
    people: readonly FileBrowserUser[],
    folder: string,
  ) {
    this.hidden = new HiddenNames(global, people)
    this.#names = new PrefixedNames(folder)
  }

  /** Rejects with `invalid` for a user who cannot be one here. */
  async add(person: FileBrowserUser): Promise<MappedUser> {
    const { perm } = person
    const basePath = cleanPath(posix.join('/', person.scope))
    const rules = [...this.global, ...person.rules]
    const hiding = this.hidden.of(person.hideDotfiles, rules)
    const { grants, lines, fault, changes: ignored } = await this.#grantsOf(rules, basePath, perm)
    const faults = [...(fault === undefined ? [] : [fault]), ...hiding.faults]
    const draft = {
      id: person.id,
      username: person.username,
      passwordHash: isBcrypt(person.password) ? person.password : undefined,
      basePath,
      role: perm.admin ? 'admin' : 'general',
      permission: this.#permissionOf(perm, hiding.isDenied),
      disabled: false,
      ssoId: '',
      otpSecret: '',
      // Whoever enables it opens nothing that a rule closes.
      grantedOnly: faults.length > 0,
      allowFrom: [],
      expires: undefined,
      keys: [],
      grants: faults.length > 0 ? grants.filter(({ allow }) => allow.length === 0) : grants,
    } as const
    const { user, changes } = userOf(draft, this.users, faults)
    this.users.push(user)
    const notes = [
      ...ignored,
      ...((perm.create || perm.rename) && !perm.modify && !perm.admin
        ? ['it may not write or rename: it could replace files, which it may not change']
        : []),
      ...(perm.execute && !perm.admin ? ['commands are not run here'] : []),
      ...(person.lockPassword ? ['it may change its password'] : []),
    ]
    const taken = new Set(user.grants.map(({ path }) => path))
    return { changes: [...changes, ...notes], lines: lines.filter(({ path }) => taken.has(path)) }
  }

  /** There are no other hidden names than those that are imported. `isDenied`: some of these to the user. */
  #permissionOf(perm: FileBrowserUser['perm'], isDenied: boolean): number {
    const { seeHidden } = permissionBits
    if (perm.admin) return isDenied ? allPermissions & ~seeHidden : allPermissions
    return permissionOf(perm) | (isDenied || this.hidden.patterns.length === 0 ? 0 : seeHidden)
  }

  /** `fault`: why the rules cannot be expressed; there are no grants then. */
  async #grantsOf(
    list: readonly FileBrowserRule[],
    basePath: Path,
    perm: FileBrowserUser['perm'],
  ): Promise<{
    readonly grants: readonly ImportedGrant[]
    readonly lines: readonly GrantLine[]
    readonly changes: readonly string[]
    readonly fault: string | undefined
  }> {
    try {
      const rules = new PathRules(list)
      const others = new Map<Path, Path>()
      for (const prefix of rules.prefixes) {
        for (const other of await this.#names.beside(under(basePath, prefix))) others.set(other, prefix)
      }
      const own = new Set(rules.paths.map((path) => under(basePath, path)))
      const changes = this.#allGrants.changesBelow(basePath, [...own, ...others.keys()], true, (path) =>
        rules.allows(within(basePath, path) ?? root),
      )
      const grants = this.#allGrants.take(withDownload(changes.map(grantOf), basePath, perm.download))
      const lines = grants.map(({ path }) => {
        const prefix = own.has(path) ? undefined : others.get(path)
        const reason = prefix && `File Browser before 2026 applied the rule for ${under(basePath, prefix)} to it too`
        return { path, reason }
      })
      const unusable = rules.unusable.map((text) => `its rule for ${text.slice(0, 100)} permits nothing`)
      return { grants, lines, changes: unusable.slice(0, 10), fault: undefined }
    } catch (error) {
      return { grants: [], lines: [], changes: [], fault: toGatewayError(error).reason }
    }
  }
}

/** Where the user sees something again, its permissions say what else it may do. */
function grantOf({ path, isAllowed }: DecisionChange): ImportedGrant {
  return isAllowed ? { path, allow: ['see'], deny: [] } : { path, allow: [], deny: ['see'] }
}

/** The grants of a user: without the permission to download, nothing in its folder can be read. */
function withDownload(
  grants: readonly ImportedGrant[],
  basePath: Path,
  mayDownload: boolean,
): readonly ImportedGrant[] {
  if (mayDownload) return grants
  const isTop = ({ path }: ImportedGrant) => path === basePath
  const top = grants.find(isTop)
  const others = grants.filter((each) => !isTop(each))
  return [{ path: basePath, allow: [], deny: [...(top?.deny ?? []), 'read'] }, ...others]
}

/**
 * The names that rules with a regular expression, or the setting for hidden files, deny. There is one list of them for
 * all users, so that a user to whom some are denied sees none of them.
 */
class HiddenNames {
  readonly patterns: readonly string[] = []
  /** Why the patterns cannot be stored. */
  readonly #fault: string | undefined
  /** The names of each expression; undefined for one that is not only about names. */
  readonly #known = new Map<string, readonly string[] | undefined>()

  constructor(global: readonly FileBrowserRule[], people: readonly FileBrowserUser[]) {
    try {
      for (const each of [global, ...people.map(({ rules }) => rules)].flat()) {
        const expression = expressionOf(each)
        if (!each.regex || each.allow || this.#known.has(expression)) continue
        if (this.#known.size === limits.patterns) {
          throw new GatewayError('invalid', { reason: `the rules have more than ${limits.patterns} expressions` })
        }
        this.#known.set(expression, namePatterns(expression))
      }
      const found = new Set([...this.#known.values()].flatMap((patterns) => patterns ?? []))
      if (people.some(({ hideDotfiles }) => hideDotfiles)) found.add(dotNames)
      hidePatterns([...found].join('\n'))
      this.patterns = [...found]
    } catch (error) {
      this.#fault = toGatewayError(error).reason
    }
  }

  /** `isDenied`: something of this is denied to the user. `faults`: why it cannot be expressed. */
  of(
    hideDotfiles: boolean,
    rules: readonly FileBrowserRule[],
  ): { readonly isDenied: boolean; readonly faults: readonly string[] } {
    const expressions = rules.filter(({ regex }) => regex)
    const isDenied = hideDotfiles || expressions.length > 0
    if (isDenied && this.#fault !== undefined) return { isDenied, faults: [this.#fault] }
    const other = expressions.find((each) => each.allow || this.#known.get(expressionOf(each)) === undefined)
    if (other === undefined) return { isDenied, faults: [] }
    const why = other.allow ? 'permits something' : 'is not only about single names'
    return { isDenied, faults: [`its rule with the regular expression ${expressionOf(other).slice(0, 100)} ${why}`] }
  }
}

function expressionOf({ regexp }: FileBrowserRule): string {
  return regexp?.raw ?? ''
}

/** Hides names in the whole tree. */
function hidingRule(patterns: readonly string[]): Omit<FolderRule, 'id'> {
  return {
    path: root,
    password: '',
    passwordSub: false,
    write: false,
    writeSub: false,
    hide: patterns.join('\n'),
    hideSub: true,
    readme: '',
    readmeSub: false,
    header: '',
    headerSub: false,
    writeUsers: [],
    writeUsersSub: false,
    readUsers: [],
    readUsersSub: false,
  }
}

/** Every user reads over WebDAV and SFTP too: the same files as in the browser. */
function permissionOf({ create, modify, rename, delete: remove, share }: FileBrowserUser['perm']): number {
  const granted = [
    permissionBits.webdavRead | permissionBits.sftpRead | permissionBits.readArchives,
    create && modify ? permissionBits.write | permissionBits.copy : 0,
    rename && modify ? permissionBits.rename : 0,
    rename && modify && create ? permissionBits.move : 0,
    remove ? permissionBits.remove : 0,
    share ? permissionBits.share : 0,
    (create && modify) || (rename && modify) || remove ? permissionBits.webdavManage | permissionBits.sftpManage : 0,
  ]
  return granted.reduce((sum, bits) => sum | bits, 0)
}

/**
 * What the rules of old versions also denied: paths that begin with the path of a rule. Each folder is read once for
 * each path.
 */
class PrefixedNames {
  readonly #found = new Map<Path, Promise<readonly Path[]>>()

  /** `folder`: of the disk, which is shown at `/`. */
  constructor(private readonly folder: string) {}

  /**
   * The paths of the entries in the same folder whose names begin with the name of this path and have more characters.
   * Empty if the folder does not exist. Rejects with `invalid` if it cannot be read or has too many of them.
   */
  async beside(path: Path): Promise<readonly Path[]> {
    if (path === root) return []
    const known = this.#found.get(path)
    if (known) return known
    if (this.#found.size === limits.rules) {
      throw new GatewayError('invalid', { reason: `there are rules for more than ${limits.rules} paths` })
    }
    const reading = this.#read(parentOf(path), nameOf(path))
    this.#found.set(path, reading)
    return reading
  }

  async #read(parent: Path, prefix: string): Promise<readonly Path[]> {
    const found: Path[] = []
    try {
      for await (const { name } of await opendir(join(this.folder, parent))) {
        if (name === prefix || !name.startsWith(prefix) || !isListableName(name)) continue
        if (found.push(childOf(parent, name)) > limits.names) {
          throw new GatewayError('invalid', {
            reason: `more than ${limits.names} names in ${parent} begin with ${prefix}, which old versions denied too`,
          })
        }
      }
    } catch (error) {
      if (error instanceof GatewayError) throw error
      const { code, message } = error as NodeJS.ErrnoException
      if (code === 'ENOENT' || code === 'ENOTDIR') return []
      const reason = `the folder ${parent} cannot be read, in which old versions also denied names: ${message}`
      throw new GatewayError('invalid', { reason, cause: error })
    }
    return found
  }
}
