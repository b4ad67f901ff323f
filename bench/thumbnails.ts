/** Thumbnails of photos: how fast they are made, and what the requests of another user take meanwhile. */
import { utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { HttpClient, type Exchange } from './http-client.js'
import { makeFolder } from './listings.js'
import { isTidegate, type Tidegate } from './peers/tidegate.js'
import { makePhotos, photoCount, photoFolder, photoName } from './photos.js'
import { once, userWith } from './rights.js'
import { scaled, type Bench, type Row } from './row.js'
import { median } from './samples.js'
import { chromiumPath, secondsUntilTiles } from './tiles.js'

/** As many as the console loads at once. */
const atOnce = 4
/** Milliseconds between two requests of the other user. */
const pause = 5
/** Milliseconds of a turn, with thumbnails being made or without, and the number of turns of both kinds. */
const turnTime = 1500
const turns = 10

const listed = 100
const small = 'beside photos.bin'
/** The share of requests of which the slowest ones are not counted. */
const slow = 0.95

const users = once((peer) => Promise.all([userWith(peer, 'has photos', []), userWith(peer, 'has others', [])]))

interface Photo {
  readonly name: string
  readonly thumb: string
}

async function photosOf(peer: Tidegate, bench: Bench, token: string): Promise<readonly Photo[]> {
  const response = await fetch(`${peer.url}/api/fs/list`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: token },
    body: JSON.stringify({ path: `/${photoFolder}`, page: 1, per_page: photoCount(bench) }),
  })
  const { data } = (await response.json()) as { data: { content: readonly Photo[] } }
  return data.content
}

/** A photo whose time changes has a new thumbnail. */
function forgetThumbnail({ files }: Bench, name: string): Promise<void> {
  const now = new Date()
  return utimes(join(files, photoFolder, name), now, now)
}

/** Milliseconds of each request, one after the other, with pauses, until the signal aborts. */
async function ask(client: HttpClient, exchanges: readonly Exchange[], signal: AbortSignal): Promise<number[][]> {
  const taken = exchanges.map((): number[] => [])
  while (!signal.aborted) {
    for (const [index, exchange] of exchanges.entries()) {
      const { total } = await client.send(exchange)
      taken[index]?.push(total)
      await wait(pause)
    }
  }
  return taken
}

const beside: Row = {
  name: 'thumbnails',
  figures: () => [
    { title: 'thumbnails of photos of 12 megapixels that a user gets, 4 connections', unit: '/s', aims: [] },
    ...[`fs/list of ${listed} by another user`, 'GET of 4 KiB over WebDAV by another user'].flatMap((title) => [
      { title, unit: 'ms' as const, aims: [] },
      {
        title: 'the same while thumbnails are made, against that',
        unit: 'times' as const,
        aims: [{ atMost: 1.1 }],
      },
      { title: 'the slowest twentieth of them, from, against that before', unit: 'times' as const, aims: [] },
    ]),
  ],
  async prepare(bench) {
    await makePhotos(bench)
    await makeFolder(bench, listed)
    await writeFile(join(bench.files, small), Buffer.alloc(4096, 'tide'))
  },
  async measure(peer, bench) {
    if (!isTidegate(peer) || peer.dav === undefined) return undefined
    const [owner, other] = await users(peer, bench)
    const photos = await photosOf(peer, bench, owner.token)
    const { headers, ...list } = peer.exchange('/api/fs/list', { path: `/${listed}`, page: 1, per_page: 0 })
    const exchanges: readonly Exchange[] = [
      { ...list, headers: { ...headers, Authorization: other.token } },
      { method: 'GET', url: peer.dav.url + encodeURIComponent(small), headers: { Authorization: other.basic } },
    ]
    const [client, camera] = [new HttpClient(1), new HttpClient(atOnce)]
    const samples = { idle: exchanges.map((): number[] => []), busy: exchanges.map((): number[] => []) }
    let [made, seconds] = [0, 0]
    const makeThumbnails = async (signal: AbortSignal) => {
      const begin = performance.now()
      const stream = async () => {
        while (!signal.aborted) {
          const photo = photos[made++ % photos.length]
          if (!photo) return
          await forgetThumbnail(bench, photo.name)
          await camera.send({ method: 'GET', url: photo.thumb })
        }
      }
      await Promise.all(Array.from({ length: atOnce }, stream))
      seconds += (performance.now() - begin) / 1000
    }
    try {
      // The first requests start the decoders and compile what runs.
      await Promise.all([makeThumbnails(AbortSignal.timeout(500)), ask(client, exchanges, AbortSignal.timeout(500))])
      ;[made, seconds] = [0, 0]
      for (let turn = 0; turn < 2 * scaled(bench, turns); turn++) {
        const isBusy = turn % 2 === 1
        const signal = AbortSignal.timeout(turnTime)
        const [taken] = await Promise.all([ask(client, exchanges, signal), isBusy && makeThumbnails(signal)])
        const kept = samples[isBusy ? 'busy' : 'idle']
        for (const [index, each] of taken.entries()) kept[index]?.push(...each)
      }
    } finally {
      for (const each of [client, camera]) each.close()
    }
    const figures = exchanges.flatMap((_, index) => {
      const [idle, busy] = [samples.idle[index] ?? [], samples.busy[index] ?? []]
      return [median(idle), median(busy) / median(idle), slowest(busy) / slowest(idle)]
    })
    return [made / seconds, ...figures]
  },
}

function slowest(taken: readonly number[]): number {
  return [...taken].sort((one, other) => one - other)[Math.floor(taken.length * slow)] ?? NaN
}

const tiles: Row = {
  name: 'tiles',
  figures: (bench) => {
    const title = `first tiles of ${photoCount(bench)} photos of 12 megapixels in Chromium, 1280 × 800`
    return [
      { title: `${title}, no thumbnail kept`, unit: 's', aims: [] },
      { title: 'the same, thumbnails kept, none in the browser', unit: 's', aims: [{ atMost: 2 }] },
    ]
  },
  note: async () => ((await chromiumPath()) === undefined ? 'Chromium is not installed.' : undefined),
  prepare: makePhotos,
  async measure(peer, bench) {
    if (!isTidegate(peer) || (await chromiumPath()) === undefined) return undefined
    const [{ username, password }] = await users(peer, bench)
    for (let index = 0; index < photoCount(bench); index++) await forgetThumbnail(bench, photoName(index))
    const open = () => secondsUntilTiles(peer.url, { username, password }, `/${photoFolder}`)
    return [await open(), await open()]
  },
}

export const thumbnailRows: readonly Row[] = [beside, tiles]
