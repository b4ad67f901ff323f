/** Which folder may import which: one rule for each folder, read from the import lines of every source file. */
import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import t from 'tap'
import type { Principal } from '../src/accounts/principal.js'
import type { OpenFile } from '../src/contract/capabilities.js'
import type { Driver } from '../src/contract/driver.js'
import type { Path } from '../src/contract/path.js'
import type { Gateway } from '../src/gateway/gateway.js'
import type { ProtocolGateway } from '../src/gateway/protocol-gateway.js'
import type { MountSupervisor } from '../src/storage/mount-supervisor.js'
import type { Mounts } from '../src/storage/mounts.js'
import type { Spool } from '../src/storage/spool.js'
import type { Storage } from '../src/storage/storage.js'
import type { NamesReader } from '../src/store/search/names-reader.js'
import type { Store } from '../src/store/tables.js'
import type { MountedTree } from '../src/storage/mounted-tree.js'

interface Import {
  readonly from: string
  readonly to: string
}

/**
 * What each folder may import besides itself, in the order of docs/architecture.md: only folders that are listed above
 * it.
 */
const rules: Readonly<Record<string, readonly string[]>> = {
  'src/contract': [],
  'src/net': ['src/contract'],
  'src/store': ['src/contract'],
  'src/nodes': ['src/contract', 'src/store'],
  'src/settings': ['src/contract', 'src/net', 'src/store'],
  'src/accounts': ['src/contract', 'src/net', 'src/settings', 'src/store'],
  'src/storage': ['src/contract', 'src/settings', 'src/store'],
  'src/transfer': ['src/contract', 'src/storage', 'src/store'],
  'src/urls': ['src/contract', 'src/accounts', 'src/settings', 'src/storage', 'src/store'],
  'src/search': ['src/contract', 'src/settings', 'src/storage', 'src/store'],
  'src/tree': [
    ...['src/contract', 'src/accounts', 'src/urls', 'src/nodes', 'src/search', 'src/settings', 'src/storage'],
    ...['src/store', 'src/transfer'],
  ],
  'src/tasks': [
    ...['src/contract', 'src/accounts', 'src/settings', 'src/storage', 'src/store', 'src/transfer'],
    'src/tree',
  ],
  'src/downloads': [
    ...['src/contract', 'src/net', 'src/accounts', 'src/settings', 'src/storage', 'src/store', 'src/transfer'],
    ...['src/tree', 'src/tasks'],
  ],
  'src/uploads': ['src/contract', 'src/accounts', 'src/transfer', 'src/tree'],
  'src/gateway': [
    ...['src/contract', 'src/net', 'src/accounts', 'src/settings', 'src/storage', 'src/store', 'src/transfer'],
    ...['src/nodes', 'src/urls', 'src/search', 'src/tree', 'src/tasks', 'src/downloads', 'src/uploads'],
  ],
  'drivers/lib': ['src/contract'],
  'drivers/*': ['src/contract', 'drivers/lib'],
  'protocols/lib': ['src/contract', 'src/net', 'src/accounts', 'src/tree', 'src/gateway'],
  'protocols/*': [
    ...['src/contract', 'src/net', 'src/accounts', 'src/settings', 'src/search', 'src/tree', 'src/tasks'],
    ...['src/downloads', 'src/uploads', 'src/gateway', 'protocols/lib'],
  ],
  'src/process': [
    ...['src/contract', 'src/net', 'src/store', 'src/accounts', 'src/storage', 'src/gateway'],
    ...['drivers/index.ts', 'protocols/lib', 'protocols/index.ts'],
  ],
  'src/cli': [
    ...['src/contract', 'src/net', 'src/store', 'src/nodes', 'src/settings', 'src/accounts', 'src/storage'],
    ...[
      'src/gateway',
      'src/process',
      'drivers/index.ts',
      'protocols/lib',
      'protocols/index.ts',
      'protocols/http',
      'protocols/sftp',
    ],
  ],
  'src/main.ts': ['src/contract', 'src/process', 'src/cli'],
}

const importLine =
  /(?:^|\n)\s*(?:import|export)\s[^'"]*?from\s+'(\.[^']+)'|\bimport\(\s*'(\.[^']+)'\s*\)|(?:^|\n)import\s+'(\.[^']+)'/g

function importsOf(folder: string): Import[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .flatMap((name) => {
      const from = join(folder, name)
      return [...readFileSync(from, 'utf8').matchAll(importLine)].map((match) => ({
        from,
        to: join(dirname(from), match[1] ?? match[2] ?? match[3] ?? '').replace(/\.js$/, '.ts'),
      }))
    })
}

/** `drivers/s3/s3.ts` belongs to `drivers/s3`; a file beside the folders counts as a folder. */
function folderOf(file: string): string {
  return file.split('/').slice(0, 2).join('/')
}

/** The key of `rules` for a folder: its own, or the one with `*` that matches it. */
function ruleOf(folder: string): string {
  return folder in rules ? folder : `${folder.split('/', 1).join('')}/*`
}

/** Why a file must not import the other; undefined if it may. */
function fault({ from, to }: Import): string | undefined {
  const [own, other] = [folderOf(from), folderOf(to)]
  // The lists of all drivers and protocols import every one: that is what they are.
  if (own === other || own === 'drivers/index.ts' || own === 'protocols/index.ts' || other === 'package.json')
    return undefined
  const rule = ruleOf(own)
  const allowed = rules[rule]
  if (!allowed) return `${own} has no rule in test/architecture.test.ts`
  if (allowed.includes(other) || allowed.includes(ruleOf(other))) return undefined
  return `${rule} imports only ${allowed.length === 0 ? 'nothing' : allowed.join(', ')}`
}

void t.test('every import follows the rule of its folder', async (t) => {
  const imports = ['src', 'protocols', 'drivers'].flatMap(importsOf)
  t.ok(imports.length > 100, 'the imports were found')
  for (const each of imports) {
    const reason = fault(each)
    if (reason !== undefined) t.fail(`${each.from} → ${each.to}: ${reason}`)
  }
})

void t.test('every rule is used, and the rules have no cycle', async (t) => {
  const imports = ['src', 'protocols', 'drivers'].flatMap(importsOf)
  const folders = Object.keys(rules)
  for (const [index, [folder, allowed]] of Object.entries(rules).entries()) {
    for (const other of allowed) {
      const isOther = (file: string) => folderOf(file) === other || ruleOf(folderOf(file)) === other
      t.ok(
        imports.some(({ from, to }) => ruleOf(folderOf(from)) === folder && isOther(to)),
        `${folder} imports ${other}`,
      )
      t.ok(folders.indexOf(ruleOf(other)) < index, `${other} is listed above ${folder}`)
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
    'src/accounts/accounts.ts',
    'src/urls/signed-urls.ts',
  ])
  t.same(filesWith(/\.(?:withWholeTree|withDownloadPermissions|respelled)\(/), [
    'src/downloads/offline-downloads.ts',
    'src/gateway/gateway.ts',
    'src/tree/access.ts',
  ])
  // What a role permits is decided by the principal, the policy, the declarations of endpoints and the owner check of tasks.
  // The accounts and the imports compare the stored number.
  t.same(filesWith(/\brole [=!]==? /), [
    'protocols/http/register.ts',
    'src/accounts/accounts.ts',
    'src/accounts/bootstrap.ts',
    'src/accounts/principal.ts',
    'src/accounts/users.ts',
    'src/gateway/import/alist.ts',
    'src/gateway/import/user.ts',
    'src/store/installation.ts',
    'src/tasks/tasks.ts',
    'src/tree/policy.ts',
  ])
})

void t.test('permissions are read, and paths decided on, by the policy only', async (t) => {
  t.same(filesWith(/^(?:import|export) (?!type )[^']* from '[^']*\/policy\.js'/m), ['src/tree/authorizer.ts'])
  const readers = filesWith(/\bhasPermission\b/)
  t.same(
    readers.filter((name) => !name.startsWith('src/accounts/')),
    ['src/tree/policy.ts'],
  )
})

void t.test('the error statuses of WebDAV are in its errors.ts only', async (t) => {
  const literal = filesWith(
    /\b(?:new HttpError|statusLine|send\w+)\((?:[^()]*, )?[45]\d\d\b|\bstatus(?:: | === )[45]\d\d\b/,
  )
  t.same(
    literal.filter((name) => name.startsWith('protocols/webdav/')),
    ['protocols/webdav/errors.ts'],
  )
})

void t.test('SQL is where CONTRIBUTING.md says, and nowhere else', async (t) => {
  const databases = filesWith(/ from '(?:knex|sqlite3|better-sqlite3)'/)
  t.ok(databases.length > 0, 'the imports were found')
  t.same(
    databases.filter((name) => !name.startsWith('src/store/')),
    [],
  )
})

type OptionalOf<T> = { [Key in keyof T]-?: undefined extends T[Key] ? Key : never }[keyof T]
/** Each of these that a driver has, Storage uses; the order is that of the first table in `src/storage/fallbacks.ts`. */
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
  revision: true,
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
/** The same of the handles of a driver, in the order of the second table. */
const abilitiesOfHandles: Readonly<Record<OptionalOf<OpenFile>, true>> = {
  write: true,
  truncate: true,
  sync: true,
  commit: true,
  preferredReadSize: true,
}

void t.test('what a driver lacks is made up for in src/storage/, and two tables say how', async (t) => {
  const table = readFileSync('src/storage/fallbacks.ts', 'utf8')
  t.same(
    [...table.matchAll(/^ \* \| `(\w+)` /gm)].map(([, name]) => name),
    [...Object.keys(abilities), ...Object.keys(abilitiesOfHandles)],
  )
  const users = filesWith(/ from '[./]+\/fallbacks\.js'/)
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
  for (const name of withState) t.ok(page.includes(`\`${name}\``), `${name} is on the page`)
})

void t.test('an import that breaks a rule is reported', async (t) => {
  const wrong = [
    ['drivers/s3/s3.ts', 'src/storage/storage.ts'],
    ['drivers/s3/s3.ts', 'drivers/local/local.ts'],
    ['protocols/http/server.ts', 'drivers/index.ts'],
    ['protocols/http/server.ts', 'protocols/webdav/server.ts'],
    ['protocols/sftp/index.ts', 'src/store/store.ts'],
    ['protocols/sftp/index.ts', 'src/storage/mounted-tree.ts'],
    ['src/gateway/gateway.ts', 'drivers/index.ts'],
    ['src/gateway/config.ts', 'protocols/index.ts'],
    ['src/process/daemon.ts', 'protocols/sftp/server.ts'],
    ['src/storage/mounts.ts', 'src/transfer/intents.ts'],
    ['src/tree/virtual-fs.ts', 'protocols/http/errors.ts'],
    ['src/gateway/gateway.ts', 'src/process/daemon.ts'],
    ['drivers/local/local.ts', 'src/cli/check.ts'],
    ['src/helpers/anything.ts', 'src/contract/path.ts'],
  ] as const
  for (const [from, to] of wrong) t.ok(fault({ from, to }), `${from} → ${to}`)
})
