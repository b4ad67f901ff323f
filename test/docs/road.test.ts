/** The lists of docs/architecture.md that name what is on the way of a request, and of the files of the tree. */
import { readdirSync, readFileSync } from 'node:fs'
import { Session } from 'node:inspector/promises'
import { basename, dirname, join, relative } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { startGateway, withoutNodes } from '../gateway.js'
import { withoutSqlite } from '../store-location.js'

const page = 'docs/architecture.md'
const dist = fileURLToPath(new URL('../../', import.meta.url))

interface Item {
  readonly names: readonly string[]
  readonly files: readonly string[]
}

/** The items of the list on the way of `what`: the types that each names before its layer, and its files. */
function itemsOf(what: string): readonly Item[] {
  const [, list] = readFileSync(page, 'utf8').split(`\nOn the way of ${what}:\n\n`)
  if (list === undefined) throw new Error(`${page} has no list with the heading ‘On the way of ${what}:’`)
  const [items = ''] = list.split(/\n\n/)
  return items.split(/^- /m).flatMap((item) => {
    const names = quoted(item.slice(0, item.indexOf(' (')))
    const files = quoted(item).filter((name) => name.endsWith('.ts'))
    return item === '' ? [] : [{ names, files: inFolders(files) }]
  })
}

function quoted(text: string): readonly string[] {
  return Array.from(text.matchAll(/`([^`]+)`/g), ([, name = '']) => name)
}

/** A file without a folder is in that of the file before it. */
function inFolders(files: readonly string[]): readonly string[] {
  let folder = ''
  return files.map((file) => {
    if (!file.includes('/')) return join(folder, file)
    folder = dirname(file)
    return file
  })
}

/**
 * Returns a function that resolves to the functions of the product which were called since its last call, as
 * `FILE@OFFSET`, by the precise coverage of V8.
 */
async function countCalls(t: Test): Promise<() => Promise<ReadonlySet<string>>> {
  const session = new Session()
  session.connect()
  t.teardown(() => session.disconnect())
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  return async () => {
    const { result } = await session.post('Profiler.takePreciseCoverage')
    const called = result.flatMap(({ url, functions }) => {
      const file = url.startsWith('file:') ? relative(dist, fileURLToPath(url)) : ''
      if (!/^(?:src|protocols|drivers)\//.test(file)) return []
      const counts = functions.flatMap(({ ranges: [range] }) => range ?? [])
      return counts
        .filter(({ count }) => count > 0)
        .map((range) => `${file.replace(/\.js$/, '.ts')}@${range.startOffset}`)
    })
    return new Set(called)
  }
}

/** The files of the product that run for such requests, and not while nothing is requested. */
async function filesOf(t: Test, request: () => Promise<void>): Promise<ReadonlySet<string>> {
  const take = await countCalls(t)
  // What is loaded, opened or cached at a first use is not on the way of every request.
  for (let count = 0; count < 25; count++) await request()
  await wait(1500)
  await take()
  await wait(1500)
  const idle = await take()
  const counts = new Map<string, number>()
  for (let count = 0; count < 9; count++) {
    await request()
    // Longer than until the audit has moved the event to the database.
    await wait(500)
    for (const one of await take()) counts.set(one, (counts.get(one) ?? 0) + 1)
  }
  // A timer may run beside one of the requests, and a slow disk may take another way for some of them.
  const often = [...counts].filter(([one, count]) => count >= 3 && !idle.has(one))
  return new Set(often.map(([one]) => one.slice(0, one.indexOf('@'))))
}

void t.test('the list of a PUT has the files that run for one', { skip: withoutNodes || withoutSqlite }, async (t) => {
  const { davUrl, adminPassword } = await startGateway(t)
  const authorization = `Basic ${Buffer.from(`admin:${adminPassword}`).toString('base64')}`
  let count = 0
  const ran = await filesOf(t, async () => {
    const sent = { method: 'PUT', headers: { authorization }, body: Buffer.alloc(1024) }
    const { status } = await fetch(`${davUrl}file ${count++}`, sent)
    if (status !== 201) throw new Error(`PUT was answered with ${status}`)
  })
  t.ok(ran.has('src/tree/virtual-fs.ts'), 'the calls were counted')
  const named = itemsOf('a PUT').flatMap(({ files }) => files)
  const missing = [...ran].filter((file) => !named.includes(file)).sort()
  const extra = named.filter((file, index) => !ran.has(file) || named.indexOf(file) < index)
  const edits = [
    ...(missing.length > 0 ? [`add ${missing.join(', ')}`] : []),
    ...(extra.length > 0 ? [`remove ${extra.join(', ')}`] : []),
  ]
  if (edits.length > 0) t.fail(`${page}, list ‘On the way of a PUT’: ${edits.join('; ')}`)
})

void t.test('the lists of the ways name types that exist, and that of a PUT at most 12', (t) => {
  const folders = ['src', 'protocols', 'drivers']
  const files = folders.flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name)),
  )
  const texts = files
    .filter((name) => name.endsWith('.ts'))
    .map((name) => readFileSync(name, 'utf8'))
    .join('\n')
  const ways = ['a PUT', 'a listing', 'an SFTP upload', 'a sign-in', "a visitor's upload", 'a copy that fails']
  for (const way of ways) {
    const items = itemsOf(way)
    for (const name of items.flatMap(({ names }) => names)) {
      t.match(texts, new RegExp(`\\b(?:class|interface|type) ${name}\\b`), name)
    }
    for (const file of items.flatMap((item) => item.files)) t.ok(files.includes(file), `${way}: ${file}`)
  }
  const met = itemsOf('a PUT').flatMap(({ names }) => names)
  t.ok(met.length <= 12, `${met.length} names`)
  t.end()
})

void t.test('the bold names on the way of a PUT are those of the twelve types', (t) => {
  const text = readFileSync(page, 'utf8')
  const twelve = Array.from(text.matchAll(/^\| `(\w+)` +\|/gm), ([, name = '']) => name)
  t.equal(twelve.length, 12)
  const met = itemsOf('a PUT').flatMap(({ names }) => names)
  const bold = Array.from(text.matchAll(/\*\*`(\w+)`\*\*/g), ([, name = '']) => name)
  t.same(
    bold,
    met.filter((name) => twelve.includes(name)),
  )
  t.end()
})

void t.test('the list of the files of the tree has each of them once', (t) => {
  const text = readFileSync(page, 'utf8')
  const [, section = ''] = /\n## In `src\/tree\/`\n([^]*?)\n## /.exec(text) ?? []
  const files = readdirSync('src/tree', { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'))
  const named = quoted(section).filter((name) => name.endsWith('.ts'))
  t.same([...named].sort(), files.map((name) => basename(name)).sort())
  t.end()
})
