/** Searches while the index is updated and users sign in. */
import { writeFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { HttpClient } from './http-client.js'
import { isTidegate, password, type Tidegate } from './peers/tidegate.js'
import { counted, scaled, type Bench, type Row } from './row.js'
import { median } from './samples.js'

/** Files in the index. */
export const nameCount = 1_000_000
export const namesInFolder = 100
const searchCount = 200
const signInsAtOnce = 2

/** Number of words: each occurs in some hundreds of a million names. */
const vocabulary = 4000

/** A word of three syllables. All have the same length, and seldom match across two adjacent words. */
function word(number: number): string {
  let rest = (number * 2_654_435_761) % 1_000_000
  let text = ''
  for (let syllable = 0; syllable < 3; syllable++) {
    text += 'bcdfghjklmnpqrstvwxz'.charAt(rest % 20) + 'aeiou'.charAt(Math.floor(rest / 20) % 5)
    rest = Math.floor(rest / 100)
  }
  return text
}

export const wordAt = (at: number): string => word((at * 7919) % vocabulary)

/** Makes the files whose names are in the index. */
export async function makeTree(bench: Bench): Promise<void> {
  const names = scaled(bench, nameCount)
  const top = join(bench.files, 'search')
  if ((await mkdir(top, { recursive: true })) === undefined) return
  for (let at = 0; at < names; at += namesInFolder) {
    const number = at / namesInFolder
    const folder = join(top, `shelf ${Math.floor(number / 100)}`, `box ${number}`)
    await mkdir(folder, { recursive: true })
    for (let each = at; each < Math.min(names, at + namesInFolder); each++) {
      writeFileSync(join(folder, `${wordAt(each)} ${wordAt(each * 31 + 17)} ${each}.txt`), '')
    }
  }
}

/** Search terms of at least three letters: words, parts of words, pairs of words, numbers. */
export function keywords(round: number): string {
  const first = wordAt(round * 101)
  const kinds = [
    first,
    first.slice(0, 5),
    `${first.slice(1)} ${String(round)}`,
    String(123_456 + round),
    first.toUpperCase(),
  ]
  return kinds[round % kinds.length] ?? first
}

interface Progress {
  readonly is_done: boolean
  readonly error: string
}

async function progress({ url, token }: Tidegate): Promise<Progress> {
  const response = await fetch(`${url}/api/admin/index/progress`, { headers: { Authorization: token } })
  return ((await response.json()) as { data: Progress }).data
}

async function untilDone(peer: Tidegate): Promise<void> {
  for (let state = await progress(peer); !state.is_done; state = await progress(peer)) {
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

/** The duration of an index build in seconds. */
async function build(peer: Tidegate): Promise<number> {
  await peer.call('/api/admin/setting/save', [{ key: 'search_index', value: 'database' }])
  const begin = performance.now()
  await peer.call('/api/admin/index/build', {})
  await untilDone(peer)
  const { error } = await progress(peer)
  if (error !== '') throw new Error(error)
  return (performance.now() - begin) / 1000
}

async function measureSearches(
  peer: Tidegate,
  searches: number,
): Promise<{ taken: number[]; hits: number[]; signIns: number[]; updates: number }> {
  const client = new HttpClient(1)
  const taken: number[] = []
  const hits: number[] = []
  const signIns: number[] = []
  let updates = 0
  let measuring = true
  const update = async () => {
    while (measuring) {
      if ((await progress(peer)).is_done) {
        await peer.call('/api/admin/index/update', { paths: ['/'], max_depth: -1 })
        updates++
      }
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
  const signIn = async () => {
    while (measuring) {
      const begin = performance.now()
      await peer.call('/api/auth/login', { username: 'admin', password })
      signIns.push(performance.now() - begin)
    }
  }
  const others = Promise.all([update(), ...Array.from({ length: signInsAtOnce }, signIn)])
  try {
    for (let round = 0; round < searches; round++) {
      const fields = { parent: '/', keywords: keywords(round), scope: 0, page: 1, per_page: 100, password: '' }
      taken.push((await client.send(peer.exchange('/api/fs/search', fields))).total)
      if (round % 20 === 0) hits.push(((await peer.call('/api/fs/search', fields)) as { total: number }).total)
    }
  } finally {
    measuring = false
    client.close()
    await others
  }
  await peer.call('/api/admin/index/stop', {}).catch(() => undefined)
  return { taken, hits, signIns, updates }
}

const built = new WeakMap<Tidegate, number>()

/** Builds the index of a peer once. Resolves to the duration in seconds. */
export async function indexed(peer: Tidegate): Promise<number> {
  const seconds = built.get(peer) ?? (await build(peer))
  built.set(peer, seconds)
  return seconds
}

export const searchRows: readonly Row[] = [
  {
    name: 'search',
    figures: (bench) => [
      {
        title: `search over ${counted(scaled(bench, nameCount))} names, while an update runs and users sign in, median`,
        unit: 'ms',
        aims: [{ atMost: 50 }],
      },
      { title: 'the slowest of twenty', unit: 'ms', aims: [] },
      { title: 'hits of those searches, at the most', unit: 'hits', aims: [{ atMost: 1000 }] },
      { title: 'a sign-in meanwhile, median', unit: 'ms', aims: [] },
      { title: 'building that index', unit: 's', aims: [] },
    ],
    prepare: makeTree,
    async measure(peer, bench) {
      if (!isTidegate(peer)) return undefined
      const seconds = await indexed(peer)
      const { taken, hits, signIns, updates } = await measureSearches(peer, scaled(bench, searchCount))
      if (updates === 0) throw new Error('no update ran meanwhile')
      const slowest = [...taken].sort((one, other) => one - other)[Math.floor(taken.length * 0.95)] ?? NaN
      return [median(taken), slowest, Math.max(...hits), median(signIns), seconds]
    },
  },
]
