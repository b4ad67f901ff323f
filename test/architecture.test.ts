/** Which folder may import which: one rule for each folder, read from the import lines of every source file. */
import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { Principal } from '../src/accounts/principal.js'
import type { OpenFile } from '../src/contract/capabilities.js'
import type { Driver } from '../src/contract/driver.js'
import type { Path } from '../src/base/path.js'
import type { Gateway } from '../src/gateway/gateway.js'
import type { ProtocolGateway } from '../src/gateway/protocol-gateway.js'
import type { MountSupervisor } from '../src/mounts/mount-supervisor.js'
import type { Mounts } from '../src/mounts/mounts.js'
import type { Spool } from '../src/storage/fallbacks/spool.js'
import type { Storage } from '../src/storage/storage.js'
import type { NamesReader } from '../src/database/search/names-reader.js'
import type { Store } from '../src/database/tables.js'
import type { MountedTree } from '../src/mounts/mounted-tree.js'
import { importsOf } from './imports.js'
import t from 'tap'

interface Import {
  readonly from: string
  readonly to: string
}

/**
 * What each folder may import besides itself: one line for each folder, of folders that have a line above it. A folder
 * without a path is one of `src/`. `drivers/*` and `protocols/*` are the folders there without a line of their own. The
 * lists of all drivers and of all protocols, and the pages of the console, import every one: that is what they are.
 */
const ruleLines = `
base
contract                  base
net                       base contract
database                  base
settings                  base contract net database
audit                     base contract net database settings
accounts                  base net database settings audit
sign-in                   base contract net database settings audit accounts
storage                   base contract database settings
locks                     base database accounts
cluster                   base contract database settings accounts storage locks
mounts                    base contract database storage locks cluster
transfer                  base contract database storage locks mounts
download-urls             base contract net database settings accounts storage
search                    base contract database settings storage mounts
tree                      base contract database settings audit accounts storage cluster locks mounts transfer download-urls search
tasks                     base contract database settings audit accounts storage mounts transfer tree
offline-downloads         base contract net database settings accounts storage mounts transfer tree tasks
uploads                   base contract accounts transfer tree
shares                    base contract net database audit accounts storage tree
webhooks                  base contract net database audit
installation              base contract net database settings accounts mounts tree offline-downloads shares
gateway                   base contract net database settings audit accounts storage cluster locks mounts transfer download-urls search tree tasks offline-downloads uploads shares webhooks sign-in installation
drivers/lib               base contract
drivers/lib/streams       base contract
drivers/lib/http          base contract drivers/lib drivers/lib/streams
drivers/lib/staged-files  base contract drivers/lib/streams
drivers/lib/json-api      base contract drivers/lib drivers/lib/http
drivers/lib/cloud         base contract drivers/lib drivers/lib/streams drivers/lib/http drivers/lib/staged-files drivers/lib/json-api
drivers/*                 base contract drivers/lib drivers/lib/streams drivers/lib/http drivers/lib/staged-files drivers/lib/json-api drivers/lib/cloud
drivers/index.ts          contract drivers/*
protocols/lib             base contract net settings accounts tree installation gateway
protocols/http/api        base contract settings audit accounts tree shares gateway protocols/lib
protocols/http/compat     base contract settings accounts sign-in mounts tree tasks shares gateway protocols/http/api
protocols/http/site       base contract installation gateway protocols/lib protocols/http/api
protocols/http/files      base contract tree shares protocols/lib protocols/http/api protocols/http/compat protocols/http/site
protocols/http/routes     base contract net audit accounts locks mounts search tree tasks offline-downloads uploads shares webhooks sign-in gateway protocols/lib protocols/http/api protocols/http/compat protocols/http/site protocols/http/files
protocols/http            gateway protocols/lib protocols/http/api protocols/http/compat protocols/http/site protocols/http/files protocols/http/routes
protocols/*               base contract net settings accounts locks tree shares gateway protocols/lib
protocols/index.ts        protocols/lib protocols/http protocols/*
process                   base contract net database accounts locks installation gateway drivers/index.ts protocols/lib protocols/index.ts
cli                       base contract net database settings audit accounts cluster locks mounts installation tree shares webhooks sign-in drivers/index.ts protocols/lib protocols/http/site protocols/* protocols/index.ts process
main.ts                   base process cli
web/api
web/texts                 web/api
web/styles
web/components            web/texts web/api
web/session               web/texts web/api web/components
web/entries               web/api web/components web/session
web/uploads               web/texts web/api web/components web/session web/entries
web/shares                web/texts web/api web/components web/session
web/preview               web/styles
web/viewers               web/texts web/api web/components web/session web/entries web/shares web/preview
web/files                 web/texts web/api web/components web/session web/entries web/uploads web/shares web/viewers
web/visit                 web/texts web/api web/components web/session web/entries web/uploads web/viewers web/files
web/search                web/texts web/api web/components web/session web/entries
web/navigation            web/texts web/api web/components web/session web/entries web/files
web/tasks                 web/texts web/api web/components web/session web/files
web/profile               web/texts web/api web/components web/session web/files
web/audit                 web/texts web/api web/components
web/webhooks              web/texts web/api web/components
web/admin                 web/texts web/api web/components web/session web/files web/profile web/audit web/webhooks
web/manual                web/texts web/api web/components web/viewers
web                       web/texts web/api web/styles web/components web/session web/entries web/uploads web/shares web/viewers web/files web/visit web/navigation web/search web/tasks web/profile web/admin web/manual
bench                     base database tree test/servers
tools                     installation protocols/index.ts cli
`
  .trim()
  .split('\n')
  .map((line) => line.split(/ +/).map(pathOf))
  .map(([folder = '', ...allowed]) => [folder, allowed] as const)
const rules = new Map(ruleLines)

/** `base` is `src/base`. */
function pathOf(name: string): string {
  return /^(?:drivers|protocols|web|bench|tools|test)\b/.test(name) ? name : `src/${name}`
}

function importsBelow(root: string): Import[] {
  return readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((name) => /(?<!\.d)\.tsx?$/.test(name))
    .map((name) => join(root, name))
    .flatMap((from) =>
      importsOf(from)
        .filter(({ isFile }) => isFile)
        .map(({ to }) => ({ from, to })),
    )
}

const roots = ['src', 'protocols', 'drivers', 'web', 'bench', 'tools']
const allImports = roots.flatMap(importsBelow)

/** The folder, or file, whose rule is that of a file; its own two folders if there is none. */
function folderOf(file: string): string {
  const parts = file.split('/')
  for (let length = parts.length; length > 0; length--) {
    const path = parts.slice(0, length).join('/')
    if (rules.has(path)) return path
  }
  const [root = '', folder = ''] = parts
  return root === 'drivers' || root === 'protocols' ? `${root}/*` : `${root}/${folder}`
}

/** Why a file must not import the other; undefined if it may. */
function fault({ from, to }: Import): string | undefined {
  const [own, other] = [folderOf(from), folderOf(to)]
  if (to === 'package.json' || (own === other && (!own.endsWith('*') || folderBelow(from) === folderBelow(to))))
    return undefined
  const allowed = rules.get(own)
  if (!allowed) return `${own} has no rule in test/architecture.test.ts`
  if (allowed.includes(other) && own !== other) return undefined
  return allowed.length === 0 ? `${own} imports nothing` : `${own} imports only ${allowed.join(', ')}`
}

/** The driver or protocol of a file. */
function folderBelow(file: string): string {
  return file.split('/').slice(0, 2).join('/')
}

void t.test('every import follows the rule of its folder', async (t) => {
  t.ok(allImports.length > 100, 'the imports were found')
  for (const each of allImports) {
    const reason = fault(each)
    if (reason !== undefined) t.fail(`${each.from} → ${each.to}: ${reason}`)
  }
})

void t.test('each folder has one rule, and one line on the page', async (t) => {
  const page = readFileSync('docs/architecture.md', 'utf8')
  const described = Array.from(page.matchAll(/^\| `([\w/-]+\/)`/gm), ([, folder]) => folder)
  t.ok(described.length > 20, 'the lines were found')
  for (const folders of [ruleLines.map(([folder]) => folder), described]) t.same([...new Set(folders)], folders)
})

void t.test('every rule is used, and the rules have no cycle', async (t) => {
  const folders = [...rules.keys()]
  for (const [index, [folder, allowed]] of [...rules].entries()) {
    for (const other of allowed) {
      t.ok(
        allImports.some(({ from, to }) => folderOf(from) === folder && folderOf(to) === other),
        `${folder} imports ${other}`,
      )
      t.ok(folders.indexOf(other) < index, `${other} is listed above ${folder}`)
    }
  }
})

function sourceFiles(): readonly string[] {
  return ['src', 'protocols', 'drivers']
    .flatMap((folder) => readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name)))
    .filter((name) => name.endsWith('.ts'))
    .sort()
}

/** Source files with a line that matches. */
function filesWith(line: RegExp): readonly string[] {
  return sourceFiles().filter((name) => line.test(readFileSync(name, 'utf8')))
}

void t.test('no two files export a type or a class of the same name', async (t) => {
  const filesOf = new Map<string, string[]>()
  for (const file of sourceFiles()) {
    for (const [, name = ''] of readFileSync(file, 'utf8').matchAll(
      /^export (?:declare )?(?:abstract )?(?:class|interface|type) (\w+)/gm,
    ))
      filesOf.set(name, [...(filesOf.get(name) ?? []), file])
  }
  t.ok(filesOf.size > 500, 'the types were found')
  const shared = [...filesOf].filter(([, files]) => files.length > 1)
  t.same(shared, [])
})

/** Types that read or change storages, the search index or the database without authorization. */
type Unguarded = Mounts | MountSupervisor | Store | Spool | Storage | Driver | NamesReader | MountedTree
/** What a property is, or what its method resolves to. Nothing is known of an `any`, such as what a stream yields. */
type Yield<T> = 0 extends 1 & T
  ? never
  : T extends (...parameters: never) => infer Result
    ? Settled<Awaited<Result>>
    : T
type Settled<T> = 0 extends 1 & T ? never : T
/** `Key` and the keys after it, if its type or that of a key of it, down to three levels, is unguarded. */
type WaysOf<T, Type, Depth extends 0[] = [0, 0]> = T extends string | number | boolean | symbol
  ? never
  : T extends readonly (infer Item)[]
    ? `[].${WaysOf<{ readonly item: Item }, Type, Depth>}`
    : {
        [Key in keyof T & string]-?: [Extract<NonNullable<Yield<T[Key]>>, Type>] extends [never]
          ? Depth extends [0, ...infer Rest extends 0[]]
            ? WaysOf<NonNullable<Yield<T[Key]>>, Type, Rest> extends infer Further
              ? [Further] extends [never]
                ? never
                : `${Key}.${Further & string}`
              : never
            : never
          : Key
      }[keyof T & string]
type Ways = WaysOf<ProtocolGateway, Unguarded>
// This does not compile if a protocol can get one of these; the error names the properties on the way to it.
const ways: [Ways] extends [never] ? 'none' : Ways = 'none'

void t.test('protocols can access the tree only as a principal', async (t) => {
  t.equal(ways, 'none')
  const whole = filesWith(/ from '[./]+\/gateway\/gateway\.js'/)
  t.ok(whole.length > 0, 'the imports were found')
  t.same(
    whole.filter((name) => name.startsWith('protocols/')),
    [],
  )
})

void t.test('a way round the authorization is found: properties, results of methods, and what they have', async (t) => {
  const found: WaysOf<Gateway, Unguarded>[] = ['mounts', 'supervisor', 'store', 'spool', 'search.reader']
  // @ts-expect-error Protocols may have the accounts.
  found.push('accounts')
  const deep: WaysOf<{ readonly a: { b(): Promise<{ readonly c: Store | undefined }> } }, Unguarded> = 'a.b.c'
  const inList: WaysOf<{ readonly list: readonly { open(): Promise<Driver> }[] }, Unguarded> = 'list.[].item.open'
  t.same([found.length, deep, inList], [6, 'a.b.c', 'list.[].item.open'])
})

type IsPrincipal<Type> = [Type] extends [Principal] ? true : false
type Widened = Omit<Principal, 'base'> & { readonly base: Path }
type Copy = { readonly [Key in keyof Principal]: Principal[Key] }
// These do not compile if a copy of a principal, with other properties or the same, is one.
const isWidened: IsPrincipal<Widened> = false
const isCopied: IsPrincipal<Copy> = false
const isItself: IsPrincipal<Principal> = true

void t.test('principals are made and widened by the accounts and by signed URLs only', async (t) => {
  t.same([isWidened, isCopied, isItself], [false, false, true])
  t.same(filesWith(/^import (?:\* as|\{[^}]*(?<!type )\bPrincipal\b)[^']* from '[^']*\/principal\.js'/m), [
    'src/accounts/principals.ts',
    'src/download-urls/signed-urls.ts',
  ])
  t.same(filesWith(/\.(?:withWholeTree|withDownloadPermissions|respelled)\(/), [
    'src/gateway/gateway.ts',
    'src/offline-downloads/offline-downloads.ts',
    'src/tree/access.ts',
  ])
  // What a role permits is decided by the principal, the policy, the declarations of endpoints and the owner checks of
  // tasks, shares and uploads. The accounts and the imports compare the role of an account.
  t.same(filesWith(/[rR]ole [=!]==? /), [
    'protocols/http/api/register.ts',
    'src/accounts/accounts.ts',
    'src/accounts/admission.ts',
    'src/accounts/bootstrap.ts',
    'src/accounts/groups.ts',
    'src/accounts/principal.ts',
    'src/accounts/users.ts',
    'src/database/installation.ts',
    'src/installation/import/alist.ts',
    'src/installation/import/share.ts',
    'src/installation/import/user.ts',
    'src/shares/shares.ts',
    'src/tasks/tasks.ts',
    'src/tree/policy/names.ts',
    'src/tree/policy/one-path.ts',
    'src/tree/policy/whole-folders.ts',
    'src/uploads/upload-sessions.ts',
  ])
})

void t.test('permissions are read, and paths decided on, by the policy only', async (t) => {
  t.same(filesWith(/^(?:import|export) (?!type )[^']* from '[^']*\/policy\/[^']*'/m), ['src/tree/decisions.ts'])
  const readers = filesWith(/\bhasPermission\b/)
  t.same(
    readers.filter((name) => !name.startsWith('src/accounts/')),
    ['explanation', 'names', 'one-path', 'whole-folders'].map((name) => `src/tree/policy/${name}.ts`),
  )
})

void t.test('the error statuses of WebDAV are in its errors.ts only', async (t) => {
  const literal = filesWith(
    /\b(?:new WebdavError|statusLine|send\w+)\((?:[^()]*, )?[45]\d\d\b|\bstatus(?:: | === )[45]\d\d\b/,
  )
  t.same(
    literal.filter((name) => name.startsWith('protocols/webdav/')),
    ['protocols/webdav/errors.ts'],
  )
})

void t.test('SQL is where CONTRIBUTING.md says, and nowhere else', async (t) => {
  const databases = filesWith(/(?: from |\bimport\()'(?:knex|sqlite3|better-sqlite3|pg|pg-[a-z-]+)'/)
  t.ok(databases.length > 0, 'the imports were found')
  t.same(
    databases.filter((name) => !name.startsWith('src/database/')),
    [],
  )
})

void t.test('a value of the database is imported from the file that has it', async (t) => {
  const again = sourceFiles().flatMap((file) => {
    const exports = readFileSync(file, 'utf8').matchAll(/^export (\{[^}]*\}|\*)[^'{}]* from '([^']+)'/gm)
    return Array.from(exports, ([, names = '', from = '']) => ({ file, names, from }))
  })
  t.ok(again.length > 0, 'the exports were found')
  const values = again.filter(
    ({ file, names, from }) =>
      from.includes('/database/') && !file.startsWith('src/database/') && /^\*|[{,]\s*(?!type\b)\w/.test(names),
  )
  t.same(values, [], 'protocols would import it from there')
})

type OptionalOf<T> = { [Key in keyof T]-?: undefined extends T[Key] ? Key : never }[keyof T]
/**
 * Each of these that a driver has, Storage uses; the order is that of the first table in
 * `src/storage/fallbacks/fallbacks.ts`.
 */
const abilities: Readonly<Record<OptionalOf<Driver>, true>> = {
  traits: true,
  write: true,
  mkdir: true,
  remove: true,
  move: true,
  copy: true,
  removeTree: true,
  open: true,
  setAttributes: true,
  setSymlinkTime: true,
  readSymlink: true,
  symlink: true,
  hardLink: true,
  realPath: true,
  look: true,
  identities: true,
  folderRevision: true,
  directUrl: true,
  thumbnail: true,
  usage: true,
  upload: true,
  dropUpload: true,
  addDownload: true,
  findDownload: true,
  removeDownload: true,
  copyFiles: true,
  removeOrphans: true,
  close: true,
}
/** As `abilities`, of the handles of a driver, in the order of the second table. */
const abilitiesOfHandles: Readonly<Record<OptionalOf<OpenFile>, true>> = {
  write: true,
  truncate: true,
  sync: true,
  commit: true,
  preferredReadSize: true,
}

void t.test('what a driver lacks is made up for in src/storage/, and two tables say how', async (t) => {
  const table = readFileSync('src/storage/fallbacks/fallbacks.ts', 'utf8')
  t.same(
    [...table.matchAll(/^ \* \| `(\w+)` /gm)].map(([, name]) => name),
    [...Object.keys(abilities), ...Object.keys(abilitiesOfHandles)],
  )
  const users = filesWith(/ from '[./a-z]+\/fallbacks\.js'/)
  t.ok(users.length > 1, 'the imports were found')
  t.same(
    users.filter((name) => !name.startsWith('src/storage/')),
    [],
  )
})

void t.test('the caches are those that docs/decisions/0028-caches.md lists', async (t) => {
  const page = readFileSync('docs/decisions/0028-caches.md', 'utf8')
  const listed = [...page.matchAll(/^\| `([^`]*cache[^`/]*\.ts)`/gm)].map(([, name]) => name)
  t.ok(listed.length > 0, 'the table was found')
  t.same(
    listed.sort(),
    sourceFiles().filter((name) => basename(name).includes('cache')),
  )
  const withState = filesWith(/^let |^const \w+(?:: [^=]+)? = new (?:Weak)?(?:Map|Set)(?:<.*>)?\(\)$|= memoized\(/m)
  t.ok(withState.length > 0, 'variables of modules were found')
  const remembering = filesWith(/\bnew (?:LRUCache|WeakMap|WeakSet)\b/)
  t.ok(remembering.length > 10, 'the caches of classes were found')
  for (const name of [...withState, ...remembering]) t.ok(page.includes(`\`${name}\``), `${name} is on the page`)
  const rows = page.split('\n').filter((line) => line.startsWith('| `'))
  for (const row of rows) t.equal(row.split('|').filter((cell) => cell.trim() !== '').length, 5, row)
})

/** Words and numbers that have a meaning only in the API of AList and OpenList. */
const wordsOfTheApi: readonly RegExp[] = [
  /\balist|\bopenlist(?!ing)/i,
  /(?<![.<])\bmetas?\b/i,
  /\b(?:driver_name|raw_url|hash_info|hashinfo|mount_details|is_dir|creator_role|in_force)\b/,
  /\b115_/,
  /\bsign=/,
  /\brole(?: [=!]==?|:) [012]\b/i,
  /\bstate(?: [=!]==?|:) \d/,
  /\]\(\$\{/,
  /\b(?:s3_|ftp_|transmission_)\w/,
  /\b(?:pagination_type|allow_indexed|ocr_api|webauthn_login_enabled|handle_hook_\w+|filename_char_mapping)\b/,
]

/** Where they may be besides `compat/` and `routes/`: files, or folders with a slash, and why. */
const placesOfTheApi: Readonly<Record<string, string>> = {
  'protocols/http/compat/': 'what is so only because the API is that of AList and OpenList',
  'protocols/http/routes/': 'the endpoints',
  'protocols/http/endpoints.ts': 'lists the endpoints by the names of their files',
  'protocols/http/api/endpoint.ts': 'the document says how clients call folder rules',
  'protocols/http/api/openapi.ts': 'the document says whose API it is',
  'protocols/http/files/download.ts': 'names the source of a rule about signatures',
  'protocols/http/site/web-build.ts': 'describes the builds of their web clients',
  'src/accounts/passwords.ts': 'clients may send this hash, and the hash of it is stored',
  'src/cli/': 'the command that imports from them, and the JSON that commands print',
  'src/database/alist-database.ts': 'reads their database',
  'src/download-urls/download-routing.ts': 'proxies of storages check the signature under this name',
  'src/installation/import/': 'imports from them',
  'drivers/index.ts': 'lists the driver of their servers',
  'drivers/openlist/': 'is the driver of their servers',
  'drivers/115/': 'names the settings of its tools',
  'drivers/aliyundrive/': 'the default address of tokens is of a server that they run',
  'drivers/s3/': 'keeps folders by files of the name that their buckets have',
}

void t.test('words of the API are in compat/, in routes/ and in places that say why', async (t) => {
  const found = sourceFiles().filter((name) => {
    const text = readFileSync(name, 'utf8')
    return wordsOfTheApi.some((word) => word.test(text))
  })
  const places = Object.keys(placesOfTheApi)
  const isOf = (place: string) => (name: string) => (place.endsWith('/') ? name.startsWith(place) : name === place)
  for (const name of found)
    t.ok(
      places.some((place) => isOf(place)(name)),
      name,
    )
  for (const place of places) t.ok(found.some(isOf(place)), `${place} has such a word`)
})

void t.test('an import that breaks a rule is reported', async (t) => {
  const wrong = [
    ['drivers/s3/s3.ts', 'src/storage/storage.ts'],
    ['drivers/s3/s3.ts', 'drivers/local/local.ts'],
    ['protocols/http/server.ts', 'drivers/index.ts'],
    ['protocols/http/server.ts', 'protocols/webdav/server.ts'],
    ['protocols/http/api/http-api.ts', 'protocols/http/files/zip-downloads.ts'],
    ['protocols/http/files/download.ts', 'protocols/http/routes/zip.ts'],
    ['protocols/sftp/index.ts', 'src/database/store.ts'],
    ['protocols/sftp/index.ts', 'src/mounts/mounted-tree.ts'],
    ['src/gateway/gateway.ts', 'drivers/index.ts'],
    ['src/installation/config.ts', 'protocols/index.ts'],
    ['src/process/daemon.ts', 'protocols/sftp/server.ts'],
    ['src/mounts/mounts.ts', 'src/transfer/intents.ts'],
    ['src/tree/virtual-fs.ts', 'protocols/http/api/errors.ts'],
    ['src/gateway/gateway.ts', 'src/process/daemon.ts'],
    ['drivers/local/local.ts', 'src/cli/check.ts'],
    ['src/helpers/anything.ts', 'src/base/path.ts'],
  ] as const
  for (const [from, to] of wrong) t.ok(fault({ from, to }), `${from} → ${to}`)
})
