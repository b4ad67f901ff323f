/** Small files over HTTP and WebDAV. */
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { HttpClient, inStreams } from './http-client.js'
import { run, seconds } from './programs.js'
import type { Bench, Row } from './row.js'

export const smallCount = 2000
export const smallContent = Buffer.alloc(1024, 'tide')

/** An empty folder that every peer may write to. */
export async function freshFolder({ files }: Bench, name: string): Promise<string> {
  const folder = join(files, name)
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder)
  // Apache's children run as another user.
  await run('chmod', ['0777', folder])
  return folder
}

const putSmall: Row = {
  name: 'put-small',
  figures: () => [
    { title: '2,000 × 1 KiB PUT over WebDAV, 8 connections', unit: 's', aims: [{ factor: 1, peers: ['apache'] }] },
  ],
  async measure({ dav }, bench) {
    if (dav === undefined) return undefined
    const folder = await freshFolder(bench, 'small')
    const client = new HttpClient(8)
    const put = (name: string) =>
      client.send({ method: 'PUT', url: `${dav.url}small/${name}`, headers: dav.headers, body: smallContent })
    try {
      await put('warm')
      return [await seconds(() => inStreams(smallCount, 8, (index) => put(String(index))))]
    } finally {
      client.close()
      await rm(folder, { recursive: true, force: true })
    }
  },
}

const getSmall: Row = {
  name: 'get-small',
  figures: () => [
    // OpenList, which the aim is about, is not among the peers; twice rclone is about what it does.
    { title: '4 KiB GET, 16 connections, wrk', unit: '/s', aims: [{ factor: 2, peers: ['rclone'] }] },
  ],
  prepare: ({ files }) => writeFile(join(files, 'small.bin'), Buffer.alloc(4096, 'tide')),
  async measure({ download }) {
    if (download === undefined) return undefined
    const printed = await run('wrk', ['-t2', '-c16', '-d4s', await download('small.bin')])
    if (printed.includes('Non-2xx')) throw new Error(printed)
    return [Number(/Requests\/sec:\s+([\d.]+)/.exec(printed)?.[1])]
  },
}

export const smallFileRows: readonly Row[] = [putSmall, getSmall]
