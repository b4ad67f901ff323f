/** Small files over HTTP and WebDAV. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { HttpClient, inStreams } from './http-client.js'
import { seconds, wrk } from './programs.js'
import type { Row } from './row.js'

const smallCount = 2000
export const smallContent = Buffer.alloc(1024, 'tide')

let names = 0

/**
 * A name that was not used in this run: some peers remember for minutes what they once saw. Small files stay until the end of the
 * run: ext4 passes over the inodes that were freed a moment ago, one by one, and whoever writes next would pay for that.
 */
export function newName(): string {
  return `new-${++names}`
}

const putSmall: Row = {
  name: 'put-small',
  figures: () => [
    {
      title: '2,000 × 1 KiB PUT over WebDAV, 8 connections',
      unit: 's',
      aims: [{ factor: 1.17, peers: ['apache'] }], // SFTPGo
    },
  ],
  async measure({ dav }) {
    if (dav === undefined) return undefined
    const folder = newName()
    const client = new HttpClient(8)
    const put = (name: string) =>
      client.send({ method: 'PUT', url: `${dav.url}${folder}/${name}`, headers: dav.headers, body: smallContent })
    try {
      await client.send({ method: 'MKCOL', url: `${dav.url}${folder}/`, headers: dav.headers })
      await put('warm')
      return [await seconds(() => inStreams(smallCount, 8, (index) => put(String(index))))]
    } finally {
      client.close()
    }
  },
}

const getSmall: Row = {
  name: 'get-small',
  figures: () => [
    { title: '4 KiB GET, 16 connections, wrk', unit: '/s', aims: [{ factor: 3, peers: ['rclone'] }] }, // OpenList
  ],
  prepare: ({ files }) => writeFile(join(files, 'small.bin'), Buffer.alloc(4096, 'tide')),
  async measure({ download }) {
    if (download === undefined) return undefined
    return [await wrk(await download('small.bin'))]
  },
}

export const smallFileRows: readonly Row[] = [putSmall, getSmall]
