/**
 * Measures the search index of both engines, without a daemon: `node dist/bench/search-engines.js [NAMES]`. PostgreSQL
 * is started for it, with its default memory. Prints a table in Markdown: of each search the fastest of fifteen, alone
 * and while an update runs, and its hits.
 */
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { asPath, type Path } from '../src/base/path.js'
import type { IndexedName } from '../src/database/search/names.js'
import { openPostgresSearchIndex, openSearchIndex, type SearchIndex } from '../src/database/search/search-index.js'
import { findNames } from '../src/tree/search-results.js'
import { startPostgres } from '../test/servers/postgres.js'
import { seconds } from './samples.js'
import { wordAt } from './search.js'

const count = Number(process.argv[2] ?? 1_000_000)
const namesInFolder = 100
/** How many folders are applied at once, as by a walk of a tree. */
const foldersAtOnce = 64
const rounds = 15

const chinese = '天地人山水风火土木金日月星云雨雪花鸟虫鱼书画琴棋'

function nameAt(at: number): string {
  const start = (at * 7) % (chinese.length - 1)
  const title = at % 50 === 0 ? `${chinese.slice(start, start + 2)}报告` : wordAt(at)
  return `${at % 5000 === 7 ? '潮' : ''}${title} ${wordAt(at * 31 + 17)} ${at}.txt`
}

/** Reads all names into the index, as a walk of their tree does. */
async function build({ writer }: SearchIndex, isStopped = () => false): Promise<void> {
  for (let at = 0; at < count && !isStopped(); at += namesInFolder * foldersAtOnce) {
    const folders: Path[] = []
    await writer.beginListing()
    const names: IndexedName[] = []
    for (let each = at; each < Math.min(count, at + namesInFolder * foldersAtOnce); each++) {
      const number = Math.floor(each / namesInFolder)
      const parent = asPath(`/search/shelf ${Math.floor(number / 100)}/box ${number}`)
      if (each % namesInFolder === 0) folders.push(parent)
      names.push({ parent, name: nameAt(each), kind: 'file', size: each })
    }
    for (let from = 0; from < names.length; from += 1000) await writer.stage(names.slice(from, from + 1000))
    await writer.markComplete(folders)
    await writer.applyStaged({ tellNew: false })
  }
}

const searches: readonly [title: string, keywords: string, below?: string][] = [
  ['a word (some hundreds of hits)', wordAt(101)],
  ['two words', `${wordAt(101).slice(1)} ${wordAt(101 * 31 + 17)}`],
  ['a rare Chinese character', '潮'],
  ['a frequent Chinese character', '山'],
  ['two Chinese characters', '报告'],
  ['two letters', 'bu'],
  ['one letter', 'a'],
  ['a word in every name', '.txt'],
  ['two words in most names', 'txt o'],
  ['a word in every name, below a folder of 10,000 names', '.txt', '/search/shelf 7'],
  ['no hit', 'zzyzx'],
]

/** Rules of no folder: every name is visible. */
const visible = {
  isReachable: () => true,
  queryRules: () => ({ closed: [], exact: true }),
  filter: (names: readonly IndexedName[]) => names,
} as never

async function measureSearches(index: SearchIndex): Promise<{ times: string[]; totals: number[] }> {
  const times: string[] = []
  const totals: number[] = []
  for (const [, keywords, below = '/'] of searches) {
    const taken: number[] = []
    let total = 0
    for (let round = 0; round < rounds; round++) {
      const begin = performance.now()
      const options = { keywords, kind: 'any', offset: 0, limit: 100 } as const
      total = (await findNames(index.reader, visible, asPath(below), options)).total
      taken.push(performance.now() - begin)
    }
    times.push(`${Math.min(...taken).toFixed(1)} ms`)
    totals.push(total)
  }
  return { times, totals }
}

/** The cells of one column: those of the index, then those of `searches`. */
async function measure(index: SearchIndex, bytes: () => Promise<number>): Promise<string[]> {
  const cells: string[] = []
  // The second one finds every name unchanged.
  for (const _ of ['build', 'update']) cells.push(`${(await seconds(() => build(index))).toFixed(0)} s`)
  cells.push(`${((await bytes()) / count).toFixed(0)} bytes`)
  const { times, totals } = await measureSearches(index)
  let isOver = false
  const update = async () => {
    while (!isOver) await build(index, () => isOver)
  }
  const updates = update()
  const meanwhile = await measureSearches(index)
  isOver = true
  await updates
  const results = times.map((time, at) => `${time}, ${meanwhile.times[at] ?? ''}, ${totals[at] ?? ''} hits`)
  return [...cells, ...results]
}

async function sqlite(folder: string): Promise<string[]> {
  const file = join(folder, 'search.db')
  const index = await openSearchIndex(file)
  try {
    return await measure(index, async () => (await stat(file)).size)
  } finally {
    await index.close()
  }
}

async function postgres(): Promise<string[]> {
  const server = await startPostgres()
  try {
    const url = await server.createDatabase()
    const index = await openPostgresSearchIndex({ connectionString: url })
    try {
      return await measure(index, async () => {
        const [row] = await server.query('select pg_database_size(current_database()) as size', url)
        return Number(row?.size)
      })
    } finally {
      await index.close()
    }
  } finally {
    await server.stop()
  }
}

const folder = await mkdtemp(join(tmpdir(), 'tidegate-search-'))
const columns = [await sqlite(folder), await postgres()]
await rm(folder, { recursive: true })
const titles = [
  'building the index',
  'an update without changes',
  'each name takes',
  ...searches.map(([title]) => title),
]
console.log(`| ${count} names | SQLite | PostgreSQL |\n| --- | --- | --- |`)
for (const [at, title] of titles.entries()) {
  console.log(`| ${title} | ${columns.map((cells) => cells[at]).join(' | ')} |`)
}
