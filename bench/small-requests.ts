/** Small requests over HTTP and WebDAV: writes, reads and renames of files of a few KiB, and single API calls. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newName, smallContent } from './content.js'
import { makeFolder } from './listings.js'
import { isTidegate } from './peers/tidegate.js'
import { oftenAsked, requests } from './request-rows.js'
import { counted, type Aim, type Bench, type Row } from './row.js'

const makeSmallFile = ({ files }: Bench) => writeFile(join(files, 'small.bin'), Buffer.alloc(4096, 'tide'))

/** Aims relative to the speed of rclone. */
const ofRclone = (...factors: readonly number[]): readonly Aim[] =>
  factors.map((factor) => ({ factor, peers: ['rclone'] }))

const putSmall = requests({
  name: 'put-small',
  title: (count) => `${counted(count)} × 1 KiB PUT over WebDAV, 8 connections`,
  unit: 's',
  aims: [
    { factor: 1, peers: ['rclone'] },
    { factor: 1.17, peers: ['apache'] }, // SFTPGo
  ],
  count: 2000,
  connections: 8,
  async begin({ dav }, send) {
    if (dav === undefined) return undefined
    const { headers } = dav
    const folder = `${dav.url}${newName()}/`
    const put = (name: string) => ({ method: 'PUT', url: folder + name, headers, body: smallContent })
    await send({ method: 'MKCOL', url: folder, headers })
    await send(put('warm'))
    return (index) => put(String(index))
  },
})

const move = requests({
  name: 'move',
  title: (count) => `MOVE of a file over WebDAV, each of ${count}`,
  unit: 'ms',
  aims: ofRclone(0.5, 1),
  count: 100,
  connections: 1,
  async begin({ dav }, send, count) {
    if (dav === undefined) return undefined
    const { headers } = dav
    const folder = `${dav.url}${newName()}/`
    await send({ method: 'MKCOL', url: folder, headers })
    for (let index = 0; index < count; index++) {
      await send({ method: 'PUT', url: `${folder}${index}`, headers, body: smallContent })
    }
    return (index) => {
      const target = { Destination: `${folder}moved-${index}`, Overwrite: 'T' }
      return { method: 'MOVE', url: `${folder}${index}`, headers: { ...headers, ...target } }
    }
  },
})

const ping = requests({
  name: 'ping',
  title: () => '/ping, one connection',
  unit: 'ms',
  aims: [],
  count: 2000,
  connections: 1,
  begin: async ({ ping: url }) => (url === undefined ? undefined : () => ({ method: 'GET', url })),
})

/** A call of Tidegate's API, without peers to compare. */
function apiCall(
  name: string,
  title: string,
  path: string,
  body: object,
  prepare: (bench: Bench) => Promise<unknown>,
): Row {
  return requests({
    name,
    title: () => `${title}, one connection`,
    unit: 'ms',
    aims: [],
    count: 1000,
    connections: 1,
    prepare,
    async begin(peer) {
      if (!isTidegate(peer)) return undefined
      await peer.call(path, body) // rejects on an API error, which the measuring client ignores
      const exchange = peer.exchange(path, body)
      return () => exchange
    },
  })
}

export const smallRequestRows: readonly Row[] = [
  putSmall,
  oftenAsked({
    name: 'get-small',
    title: () => '4 KiB GET over HTTP',
    aims: ofRclone(2.2, 3),
    prepare: makeSmallFile,
    request: async ({ download }) => download && { url: await download('small.bin'), headers: {} },
  }),
  oftenAsked({
    name: 'get-small-webdav',
    title: () => '4 KiB GET over WebDAV',
    aims: ofRclone(1.6, 2.4),
    prepare: makeSmallFile,
    request: ({ dav }) => dav && { url: `${dav.url}small.bin`, headers: dav.headers },
  }),
  move,
  ping,
  apiCall('fs-get', 'fs/get', '/api/fs/get', { path: '/small.bin', password: '' }, makeSmallFile),
  apiCall('fs-list', 'fs/list of 10', '/api/fs/list', { path: '/10', page: 1, per_page: 0, password: '' }, (bench) =>
    makeFolder(bench, 10),
  ),
]
