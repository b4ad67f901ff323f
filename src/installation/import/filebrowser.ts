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
  selfAndAncestors,
  under,
  type Path,
} from '../../base/path.js'
import { storedStatus } from '../../mounts/mounts.js'
import type { ImportedUser, Installation } from '../../database/installation.js'
import { newStorage } from '../../database/new-storage.js'
import type { FolderRule } from '../../database/rows.js'
import type { Report } from './report.js'
import { adminOf, userOf } from './user.js'

const rule = z.object({
  regex: z.boolean().default(false),
  allow: z.boolean().default(false),
  path: z.string().max(4096).default(''),
})
/** The length is checked before the items are. */
const listOf = <Item extends z.ZodType>(item: Item, max: number) => z.array(z.unknown()).max(max).pipe(z.array(item))
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

type FileBrowserUser = z.infer<typeof user>
type Rule = z.infer<typeof rule>

/** The texts of the two exports, and the folder to use in place of that of the configuration. */
interface FileBrowserExports {
  readonly users: string
  readonly config: string
  readonly root?: string | undefined
}

/** The largest number of folder rules, multiplied by that of the users whom each names. */
const maxNamed = 1_000_000
/** The largest number of rules with another path, and of names that begin with one. */
const limits = { rules: 10_000, names: 1000 }

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
  const users: ImportedUser[] = []
  const closed: { readonly id: number; readonly paths: ClosedPaths }[] = []
  const names = new PrefixedNames(folder)
  for (const person of people) {
    const mapped = await report.mapped('user', person.username, () => mapUser(person, settings.rules, users, names))
    if (mapped === undefined) continue
    report.taken('user', person.username, mapped.changes)
    users.push(mapped.user)
    closed.push({ id: mapped.user.id, paths: mapped.closed })
  }
  const admin = adminOf(users)
  const folderRules = rulesOf(closed, admin.id)
  for (const { path } of folderRules) {
    const origins = closed.flatMap(({ paths }) => paths.get(path) ?? [])
    const change = origins.includes(path)
      ? 'denies the folder itself and what is in it'
      : `File Browser before 2026 applied the rule for ${origins[0] ?? ''} to it too`
    report.taken('folder rule', path, [change])
  }
  if (settings.authMethod !== 'json')
    report.leftOut('sign-in', settings.authMethod, 'users sign in with their passwords here')
  const values = new Map<string, string>()
  const name = settings.branding?.name ?? ''
  if (name !== '') {
    values.set('site_title', name)
    report.taken('setting', 'site_title')
  }
  const addition = JSON.stringify({ root_folder_path: folder })
  const isMissing = folderRules.length > 0 && !(await exists(folder))
  const change = `there is no folder ${folder} here, so only the paths of rules are denied, and no names that begin with them`
  report.taken('storage', '/', isMissing ? [change] : [])
  return {
    users,
    storages: [{ ...newStorage({ mountPath: root, driver: 'Local', addition }), status: storedStatus.starting }],
    rules: folderRules,
    settings: values,
  }
}

async function exists(folder: string): Promise<boolean> {
  return access(folder).then(
    () => true,
    () => false,
  )
}

function parse<T>(schema: z.ZodType<T>, text: string, what: string): T {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new GatewayError('invalid', { reason: `the export of the ${what} is not JSON`, cause })
  }
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const [issue] = result.error.issues
  const at = issue?.path.slice(0, 4).map(String).join('.') ?? ''
  throw new GatewayError('invalid', {
    reason: `this is no export of the ${what} of File Browser: ${at === '' ? '' : `${at}: `}${issue?.message ?? ''}`,
  })
}

/** The paths of the whole tree that are closed to a user, each with the path of the rule that closes it. */
type ClosedPaths = ReadonlyMap<Path, Path>

interface MappedUser {
  readonly user: ImportedUser
  readonly changes: readonly string[]
  readonly closed: ClosedPaths
}

async function mapUser(
  person: FileBrowserUser,
  global: readonly Rule[],
  taken: readonly ImportedUser[],
  names: PrefixedNames,
): Promise<MappedUser> {
  const { perm } = person
  const basePath = cleanPath(posix.join('/', person.scope))
  const ownRules = [...global, ...person.rules]
  const { closed, fault } = await closedBy(ownRules, basePath, names)
  const faults = [
    ...(fault === undefined ? [] : [fault]),
    ...(perm.download ? [] : ['it may not download, and whoever may list a folder here may also read it']),
    ...(ownRules.every(({ regex, allow }) => !regex && !allow)
      ? []
      : ['one of its rules permits something or is a regular expression, which cannot be imported yet']),
    ...(person.hideDotfiles ? ['hidden files are not shown to it, which cannot be imported yet'] : []),
  ]
  const draft = {
    id: person.id,
    username: person.username,
    passwordHash: isBcrypt(person.password) ? person.password : undefined,
    basePath,
    role: perm.admin ? 'admin' : 'general',
    permission: perm.admin ? allPermissions : permissionOf(perm),
    disabled: false,
    ssoId: '',
    otpSecret: '',
    grantedOnly: false,
    keys: [],
  } as const
  const { user, changes } = userOf(draft, taken, faults)
  const notes = [
    ...((perm.create || perm.rename) && !perm.modify && !perm.admin
      ? ['it may not write or rename: it could replace files, which it may not change']
      : []),
    ...(perm.execute && !perm.admin ? ['commands are not run here'] : []),
    ...(person.lockPassword ? ['it may change its password'] : []),
  ]
  return { user, changes: [...changes, ...notes], closed }
}

/** What the rules close to a user. `fault`: why this may not be all. */
async function closedBy(
  rules: readonly Rule[],
  basePath: Path,
  names: PrefixedNames,
): Promise<{ readonly closed: ClosedPaths; readonly fault: string | undefined }> {
  const closed = new Map<Path, Path>()
  let fault: string | undefined
  for (const { regex, allow, path } of rules) {
    if (regex || allow) continue
    const denied = under(basePath, cleanPath(posix.join('/', path)))
    closed.set(denied, denied)
    // A slash at the end was part of the prefix. Above the base folder is nothing that the user sees.
    if (path.endsWith('/') || denied === basePath) continue
    try {
      for (const other of await names.beside(denied)) if (!closed.has(other)) closed.set(other, denied)
    } catch (error) {
      fault = toGatewayError(error).reason
    }
  }
  return { closed, fault }
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
 * A rule for each path that is closed to someone: it names all others. The nearest rule applies, so a rule also closes
 * its path to those to whom a folder above it is closed. The administrator can change the rules, and is always named.
 * Throws `invalid` if there are too many.
 */
function rulesOf(
  closed: readonly { readonly id: number; readonly paths: ClosedPaths }[],
  adminId: number,
): Omit<FolderRule, 'id'>[] {
  const paths = new Set<Path>()
  for (const each of closed) for (const path of each.paths.keys()) paths.add(path)
  if (paths.size * closed.length > maxNamed) {
    const reason = `its rules are for ${paths.size} paths and ${closed.length} users: this is more than can be imported`
    throw new GatewayError('invalid', { reason })
  }
  return [...paths].map((path) => ({
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
    writeUsers: [],
    writeUsersSub: false,
    readUsers: closed
      .filter(({ id, paths: own }) => id === adminId || ![...selfAndAncestors(path)].some((above) => own.has(above)))
      .map(({ id }) => id),
    readUsersSub: true,
  }))
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
