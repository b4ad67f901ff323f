/** Folders of many entries. */
import { writeFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { HttpClient } from './http-client.js'
import { wrk } from './programs.js'
import { median, type Bench, type Row } from './row.js'
import { isTidegate } from './transfers.js'

const rounds = 5

/** A folder of that many empty files, named after their number; made once. */
async function makeFolder({ files }: Bench, count: number): Promise<void> {
  const folder = join(files, String(count))
  if ((await mkdir(folder, { recursive: true })) === undefined) return
  for (let index = 0; index < count; index++) writeFileSync(join(folder, `a file ${index}.txt`), '')
}

function propfind(count: number): Row {
  return {
    name: `propfind-${count}`,
    figures: () => [
      {
        title: `PROPFIND depth 1 of ${count.toLocaleString('en')}`,
        unit: 'ms',
        aims: [{ factor: 1, peers: ['apache'] }],
      },
    ],
    prepare: (bench) => makeFolder(bench, count),
    async measure({ dav }) {
      if (dav === undefined) return undefined
      return [(await askForFolder(dav.url, dav.headers, count)).total]
    },
  }
}

/** Medians of a few PROPFINDs after one that does not count. */
async function askForFolder(url: string, headers: Readonly<Record<string, string>>, count: number) {
  const client = new HttpClient(1)
  const ask = () => client.send({ method: 'PROPFIND', url: `${url}${count}/`, headers: { ...headers, Depth: '1' } })
  try {
    await ask()
    const answers = []
    for (let round = 0; round < rounds; round++) answers.push(await ask())
    return {
      total: median(answers.map((each) => each.total)),
      firstByte: median(answers.map((each) => each.firstByte)),
    }
  } finally {
    client.close()
  }
}

const propfindHuge: Row = {
  name: 'propfind-100000',
  figures: () => [
    { title: 'PROPFIND depth 1 of 100,000', unit: 'ms', aims: [{ atMost: 600 }] },
    { title: 'its first byte', unit: 'ms', aims: [{ atMost: 500 }] },
  ],
  prepare: (bench) => makeFolder(bench, 100_000),
  async measure(peer) {
    if (!isTidegate(peer) || peer.dav === undefined) return undefined
    const { total, firstByte } = await askForFolder(peer.dav.url, peer.dav.headers, 100_000)
    return [total, firstByte]
  },
}

/** `cold`: what a listing that is not kept takes; undefined: no aim for that. */
function list(count: number, aims: { whole: number; page: number; cold?: number }): Row {
  const title = `fs/list of ${count.toLocaleString('en')}`
  return {
    name: `list-${count}`,
    figures: () => [
      { title: `${title}, read afresh`, unit: 'ms', aims: aims.cold === undefined ? [] : [{ atMost: aims.cold }] },
      { title: `${title}, whole`, unit: 'ms', aims: [{ atMost: aims.whole }] },
      { title: `${title}, a page of 100`, unit: 'ms', aims: [{ atMost: aims.page }] },
    ],
    prepare: (bench) => makeFolder(bench, count),
    async measure(peer) {
      if (!isTidegate(peer)) return undefined
      const client = new HttpClient(1)
      const ask = async (fields: object, times: number): Promise<number> => {
        const body = Buffer.from(JSON.stringify({ path: `/${count}`, page: 1, per_page: 0, ...fields }))
        const headers = {
          Authorization: peer.token,
          'Content-Type': 'application/json',
          'Content-Length': body.length,
        }
        const taken = []
        for (let round = 0; round < times; round++) {
          taken.push((await client.send({ method: 'POST', url: `${peer.url}/api/fs/list`, headers, body })).total)
        }
        return median(taken)
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

/** Whole folders, in the form that each server has: our objects, nginx's JSON, rclone's page. */
const listOften: Row = {
  name: 'wrk-list-1000',
  figures: () => [
    { title: 'listing of 1,000, 16 connections, wrk', unit: '/s', aims: [{ factor: 1, peers: ['rclone'] }] },
  ],
  prepare: (bench) => makeFolder(bench, 1000),
  async measure({ listing }) {
    if (listing === undefined) return undefined
    const { url, headers } = listing('1000')
    return [await wrk(url, headers)]
  },
}

const listPageOften: Row = {
  name: 'wrk-list-page',
  figures: () => [{ title: 'fs/list of 10,000, a page of 100, 16 connections, wrk', unit: '/s', aims: [] }],
  prepare: (bench) => makeFolder(bench, 10_000),
  async measure(peer) {
    if (!isTidegate(peer)) return undefined
    const url = `${peer.url}/api/fs/list?path=/10000&page=7&per_page=100`
    return [await wrk(url, { Authorization: peer.token })]
  },
}

export const listingRows: readonly Row[] = [
  propfind(1000),
  propfind(10_000),
  propfindHuge,
  list(10_000, { whole: 60, page: 10 }),
  list(100_000, { whole: 600, page: 60, cold: 1000 }),
  listOften,
  listPageOften,
]
