/** Large files over HTTP and WebDAV. */
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { encodedPath, type Peer } from './peers/peer.js'
import type { Tidegate } from './peers/tidegate.js'
import { curl, headerWords, run, seconds } from './programs.js'
import type { Aim, Bench, Row } from './row.js'
import { newName } from './small-files.js'

const getAims: readonly Aim[] = [
  { factor: 1, peers: ['nginx'] },
  { factor: 1.2, peers: ['rclone'] },
]
const putAims: readonly Aim[] = [
  { factor: 1.8, peers: ['nginx'] }, // SFTPGo
  { factor: 2, peers: ['rclone'] },
]

const mebibytes = (bytes: number): string => `${Math.round(bytes / 2 ** 20)} MiB`

export function isTidegate(peer: Peer): peer is Tidegate {
  return peer.name === 'tidegate'
}

const getOverHttp: Row = {
  name: 'get-http',
  figures: ({ size }) => [{ title: `GET ${mebibytes(size)}, HTTP`, unit: 's', aims: getAims }],
  async measure({ download }, { bigFile }) {
    return download && [await curl([await download(bigFile)])]
  },
}

const getOverWebDav: Row = {
  name: 'get-webdav',
  figures: ({ size }) => [{ title: `GET ${mebibytes(size)}, WebDAV`, unit: 's', aims: getAims }],
  async measure({ dav }, { bigFile }) {
    return dav && [await curl([...headerWords(dav.headers), dav.url + bigFile])]
  },
}

/** Puts the large file under a new name over WebDAV, and removes it from the disk again. */
export async function putOverWebDav({ dav }: Peer, { bigFile, files }: Bench): Promise<number | undefined> {
  if (dav === undefined) return undefined
  const name = newName()
  try {
    return await curl([
      ...headerWords(dav.headers),
      '-H',
      'Expect:',
      '-T',
      join(files, bigFile),
      dav.url + encodedPath(name),
    ])
  } finally {
    await rm(join(files, name), { force: true })
  }
}

/** The same by the HTTP API. */
export async function putOverHttp({ url, token }: Tidegate, { bigFile, files }: Bench): Promise<number> {
  const name = newName()
  const headers = { Authorization: token, 'File-Path': encodeURIComponent(`/${name}`), Expect: '' }
  const words = Object.entries(headers).flatMap(([key, value]) => ['-H', `${key}:${value && ` ${value}`}`])
  try {
    return await curl([...words, '-T', join(files, bigFile), `${url}/api/fs/put`])
  } finally {
    await rm(join(files, name), { force: true })
  }
}

const putWebDav: Row = {
  name: 'put-webdav',
  writes: ({ size }) => size,
  figures: ({ size }) => [{ title: `PUT ${mebibytes(size)}, WebDAV`, unit: 's', aims: putAims }],
  async measure(peer, bench) {
    const time = await putOverWebDav(peer, bench)
    return time === undefined ? undefined : [time]
  },
}

/** The peers know no such API: what they are compared by is a PUT over WebDAV. */
const putHttp: Row = {
  name: 'put-http',
  writes: ({ size }) => size,
  figures: ({ size }) => [{ title: `PUT ${mebibytes(size)}, HTTP API (peers: WebDAV)`, unit: 's', aims: putAims }],
  async measure(peer, bench) {
    if (isTidegate(peer)) return [await putOverHttp(peer, bench)]
    const time = await putOverWebDav(peer, bench)
    return time === undefined ? undefined : [time]
  },
}

const many = 64
const partSize = 16 * 2 ** 20

const putMany: Row = {
  name: 'put-many',
  writes: () => 2 ** 30,
  figures: () => [
    { title: `PUT ${many} × 16 MiB, 32 at once, WebDAV`, unit: 's', aims: [{ factor: 0.86, peers: ['nginx'] }] }, // 0.9 × SFTPGo
    { title: 'peak memory of that', unit: 'MiB', aims: [{ atMost: 200 }] },
  ],
  async measure({ dav, processes }, { folder, files }) {
    if (dav === undefined) return undefined
    const content = join(folder, 'part')
    await writeFile(content, Buffer.alloc(partSize, 'tide'))
    const names = Array.from({ length: many }, newName)
    const words = headerWords(dav.headers)
    const lists = names.flatMap((name) => ['-T', content, '-o', '/dev/null', dav.url + name])
    const parallel = ['--parallel', '--parallel-immediate', '--parallel-max', '32']
    try {
      for (const each of processes) await each.resetPeak()
      const time = await seconds(() =>
        run('curl', ['-s', '-S', '-f', ...parallel, ...words, '-H', 'Expect:', ...lists]),
      )
      let peak = 0
      for (const each of processes) peak = Math.max(peak, await each.peakMemory())
      return [time, peak / 2 ** 20]
    } finally {
      await Promise.all(names.map((name) => rm(join(files, name), { force: true })))
    }
  },
}

export const transferRows: readonly Row[] = [getOverHttp, getOverWebDav, putWebDav, putHttp, putMany]
