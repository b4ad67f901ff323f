/** Listings of large folders. */
import { writeFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { HttpClient } from './http-client.js'
import type { HttpProtocol, Peer } from './peers/peer.js'
import { isTidegate } from './peers/tidegate.js'
import { oftenAsked } from './request-rows.js'
import { counted, scaled, type Bench, type Row } from './row.js'
import { median, sampled, type Sample } from './samples.js'

const rounds = 5

/** Creates a folder of `count` empty files, named after their number, unless it exists. */
export async function makeFolder({ files }: Bench, count: number): Promise<void> {
  const folder = join(files, String(count))
  if ((await mkdir(folder, { recursive: true })) === undefined) return
  for (let index = 0; index < count; index++) writeFileSync(join(folder, `a file ${index}.txt`), '')
}

function propfind(amount: number): Row {
  return {
    name: `propfind-${amount}`,
    figures: (bench) => [
      {
        title: `PROPFIND depth 1 of ${counted(scaled(bench, amount))}`,
        unit: 'ms',
        aims: [{ factor: 1, peers: ['apache'] }],
      },
    ],
    prepare: (bench) => makeFolder(bench, scaled(bench, amount)),
    async measure(peer, bench) {
      return peer.dav && [(await askForFolder(peer, peer.dav, scaled(bench, amount))).total]
    },
  }
}

/** Medians of a few PROPFINDs after a warm-up. */
async function askForFolder(peer: Peer, { url, headers }: HttpProtocol, count: number) {
  const client = new HttpClient(1)
  const ask = () => client.send({ method: 'PROPFIND', url: `${url}${count}/`, headers: { ...headers, Depth: '1' } })
  try {
    await ask()
    const firstBytes: number[] = []
    const total = await sampled(peer, async () => {
      const answers = []
      for (let round = 0; round < rounds; round++) answers.push(await ask())
      firstBytes.push(...answers.map((each) => each.firstByte))
      return { value: median(answers.map((each) => each.total)), requests: rounds }
    })
    return { total, firstByte: median(firstBytes) }
  } finally {
    client.close()
  }
}

const hugeCount = 100_000

const propfindHuge: Row = {
  name: 'propfind-100000',
  figures: (bench) => [
    { title: `PROPFIND depth 1 of ${counted(scaled(bench, hugeCount))}`, unit: 'ms', aims: [{ atMost: 600 }] },
    { title: 'its first byte', unit: 'ms', aims: [{ atMost: 500 }] },
  ],
  prepare: (bench) => makeFolder(bench, scaled(bench, hugeCount)),
  async measure(peer, bench) {
    if (!isTidegate(peer) || peer.dav === undefined) return undefined
    const { total, firstByte } = await askForFolder(peer, peer.dav, scaled(bench, hugeCount))
    return [total, firstByte]
  },
}

/** `cold`: the aim of an uncached listing; undefined: none. */
function list(amount: number, aims: { whole: number; page: number; cold?: number }): Row {
  return {
    name: `list-${amount}`,
    figures: (bench) => {
      const title = `fs/list of ${counted(scaled(bench, amount))}`
      return [
        { title: `${title}, read afresh`, unit: 'ms', aims: aims.cold === undefined ? [] : [{ atMost: aims.cold }] },
        { title: `${title}, whole`, unit: 'ms', aims: [{ atMost: aims.whole }] },
        { title: `${title}, a page of 100`, unit: 'ms', aims: [{ atMost: aims.page }] },
      ]
    },
    prepare: (bench) => makeFolder(bench, scaled(bench, amount)),
    async measure(peer, bench) {
      if (!isTidegate(peer)) return undefined
      const client = new HttpClient(1)
      const ask = (fields: object, times: number): Promise<Sample> => {
        const path = `/${scaled(bench, amount)}`
        const exchange = peer.exchange('/api/fs/list', { path, page: 1, per_page: 0, ...fields })
        return sampled(peer, async () => {
          const taken = []
          for (let round = 0; round < times; round++) taken.push((await client.send(exchange)).total)
          return { value: median(taken), requests: times }
        })
      }
      try {
        const cold = await ask({ refresh: true }, 1)
        await ask({}, 1)
        return [cold, await ask({}, rounds), await ask({ per_page: 100 }, rounds)]
      } finally {
        client.close()
      }
    },
  }
}

const pagedCount = 10_000

export const listingRows: readonly Row[] = [
  propfind(1000),
  propfind(10_000),
  propfindHuge,
  list(10_000, { whole: 60, page: 10 }),
  list(hugeCount, { whole: 600, page: 60, cold: 1000 }),
  // Whole folders in the format of each server: our objects, nginx's JSON, rclone's HTML.
  oftenAsked({
    name: 'wrk-list-1000',
    title: (bench) => `listing of ${counted(scaled(bench, 1000))}`,
    aims: [{ factor: 1, peers: ['rclone'] }],
    prepare: (bench) => makeFolder(bench, scaled(bench, 1000)),
    request: ({ listing }, bench) => listing?.(String(scaled(bench, 1000))),
  }),
  oftenAsked({
    name: 'wrk-list-page',
    title: (bench) => `fs/list of ${counted(scaled(bench, pagedCount))}, a page of 100`,
    aims: [],
    prepare: (bench) => makeFolder(bench, scaled(bench, pagedCount)),
    request: (peer, bench) =>
      isTidegate(peer)
        ? {
            url: `${peer.url}/api/fs/list?path=/${scaled(bench, pagedCount)}&page=7&per_page=100`,
            headers: { Authorization: peer.token },
          }
        : undefined,
  }),
]
