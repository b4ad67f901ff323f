/** Who may import whom, as docs/architecture.md says: read from the import lines of every source file. */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'

interface Import {
  readonly from: string
  readonly to: string
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

/** `drivers/s3/s3.ts` belongs to `drivers/s3`; a file beside the folders stands for itself. */
function partOf(file: string): string {
  return file.split('/').slice(0, 2).join('/')
}

const contract = ['src/driver.ts', 'src/errors.ts', 'src/path.ts', 'src/aborting.ts']
/** The process, what it runs, and the command line see both sides. */
const seesAll = (file: string): boolean =>
  ['src/main.ts', 'src/daemon.ts'].includes(file) || file.startsWith('src/cli/')

/** What `VirtualFs` is made of: whoever had it would be past the judge. */
const behindTheTree = ['access', 'change-guard', 'copy', 'mounts', 'storage', 'transfers', 'whole-tree', 'writing'].map(
  (name) => `src/${name}.ts`,
)

/** Why this arrow points the wrong way; undefined for one that is allowed. */
function fault({ from, to }: Import): string | undefined {
  if (seesAll(from)) return undefined
  if (seesAll(to)) return 'nothing imports the process or the command line'
  if (from.startsWith('drivers/')) {
    if (from === 'drivers/index.ts' || partOf(from) === partOf(to)) return undefined
    if (contract.includes(to) || to.startsWith('drivers/lib/')) return undefined
    return 'a driver imports src/driver.ts, src/errors.ts, src/path.ts, src/aborting.ts and drivers/lib/ alone'
  }
  if (from.startsWith('protocols/')) {
    if (partOf(from) === partOf(to) || to.startsWith('protocols/lib/')) return undefined
    if (to.startsWith('protocols/')) return 'a protocol does not import another protocol'
    if (to.startsWith('drivers/')) return 'a protocol does not import a driver'
    // Rows are plain types that the core hands out; the database behind them is not for doors.
    if (to.startsWith('src/store/') && to !== 'src/store/rows.ts') return 'a protocol does not import the database'
    if (behindTheTree.includes(to)) return 'a protocol sees the tree through src/virtual-fs.ts alone'
    return undefined
  }
  return to.startsWith('src/') || to === 'package.json' ? undefined : 'the core imports neither protocols nor drivers'
}

void t.test('every import points the way docs/architecture.md says', async (t) => {
  const imports = ['src', 'protocols', 'drivers'].flatMap(importsOf)
  t.ok(imports.length > 100, 'the imports were found')
  for (const arrow of imports) {
    const reason = fault(arrow)
    if (reason !== undefined) t.fail(`${arrow.from} → ${arrow.to}: ${reason}`)
  }
})

/** Source files with a line like this. */
function filesWith(line: RegExp): readonly string[] {
  return ['src', 'protocols', 'drivers']
    .flatMap((folder) => readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name)))
    .filter((name) => name.endsWith('.ts') && line.test(readFileSync(name, 'utf8')))
    .sort()
}

void t.test('judge() and SQL are where CONTRIBUTING.md says, and nowhere else', async (t) => {
  const judges = filesWith(/^import \{[^}]*\bjudge\b[^}]*\} from '[./]+\/policy\.js'/m)
  t.same(judges, ['src/access.ts', 'src/base-folders.ts', 'src/search/visible-names.ts'])
  const databases = filesWith(/ from '(?:knex|sqlite3|better-sqlite3)'/)
  t.ok(databases.length > 0, 'the imports were found')
  t.same(
    databases.filter((name) => !name.startsWith('src/store/')),
    [],
  )
})

void t.test('an arrow that points the wrong way is told', async (t) => {
  const wrong = [
    ['drivers/s3/s3.ts', 'src/storage.ts'],
    ['drivers/s3/s3.ts', 'drivers/local/local.ts'],
    ['protocols/http/server.ts', 'drivers/index.ts'],
    ['protocols/http/server.ts', 'protocols/webdav/door.ts'],
    ['protocols/sftp/index.ts', 'src/store/store.ts'],
    ['protocols/sftp/index.ts', 'src/whole-tree.ts'],
    ['src/gateway.ts', 'drivers/index.ts'],
    ['src/virtual-fs.ts', 'protocols/http/errors.ts'],
    ['src/gateway.ts', 'src/daemon.ts'],
    ['drivers/local/local.ts', 'src/cli/commands.ts'],
  ] as const
  for (const [from, to] of wrong) t.ok(fault({ from, to }), `${from} → ${to}`)
})
