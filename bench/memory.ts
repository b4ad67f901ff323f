/** What the daemon needs: memory during transfers and idle, and time to start. Ours alone, in a process of its own. */
import { mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from 'ssh2'
import { writeContent } from './content.js'
import { startTidegate, type Tidegate } from './peers/tidegate.js'
import { curl, headerWords, sftpBatch } from './programs.js'
import type { Bench, Row } from './row.js'
import { getOverSftp, openSession, putOverSftp } from './sftp.js'
import { isTidegate, putOverHttp, putOverWebDav } from './transfers.js'

const mebibyte = 2 ** 20
const small = 100 * mebibyte

const ways: Readonly<Record<string, (peer: Tidegate, bench: Bench) => Promise<unknown>>> = {
  'HTTP GET': async ({ download }, { bigFile }) => download && curl([await download(bigFile)]),
  'HTTP PUT': putOverHttp,
  'WebDAV GET': async ({ dav }, { bigFile }) => dav && curl([...headerWords(dav.headers), dav.url + bigFile]),
  'WebDAV PUT': putOverWebDav,
  'SFTP GET': async ({ sftp }, bench) => sftp && getOverSftp(bench, sftp),
  'SFTP PUT': async ({ sftp }, bench) => sftp && putOverSftp(bench, sftp),
}

/** A daemon with an empty data folder, for `work` alone. */
async function withDaemon<T>(bench: Bench, work: (peer: Tidegate, bench: Bench) => Promise<T>): Promise<T> {
  const data = join(bench.folder, 'memory')
  const files = join(data, 'files')
  await mkdir(files, { recursive: true })
  const peer = await startTidegate({ ...bench, files }, data)
  try {
    return await work(peer, { ...bench, files })
  } finally {
    for (const each of peer.processes) await each.stop()
    await rm(data, { recursive: true, force: true })
  }
}

async function peakOf(peer: Tidegate, work: () => Promise<unknown>): Promise<number> {
  const [daemon] = peer.processes
  if (daemon === undefined) throw new Error('the daemon does not run')
  await daemon.resetPeak()
  await work()
  return (await daemon.peakMemory()) / mebibyte
}

/** One row for each door and direction, so that no way stands on the memory that another left behind. */
const peakRows: readonly Row[] = Object.entries(ways).map(([title, way]) => ({
  name: `memory-${title.toLowerCase().replace(' ', '-')}`,
  figures: ({ size }) => [
    { title: `peak memory, ${title}, 100 MiB`, unit: 'MiB', aims: [] },
    { title: `peak memory, ${title}, ${Math.round(size / mebibyte)} MiB`, unit: 'MiB', aims: [{ atMost: 200 }] },
    { title: `how much more the larger file took`, unit: 'MiB', aims: [{ atMost: 32 }] },
  ],
  async measure(peer, bench) {
    if (!isTidegate(peer)) return undefined
    return withDaemon(bench, async (daemon, place) => {
      await writeContent(join(place.files, 'small'), small)
      await writeContent(join(place.files, 'large'), bench.size)
      const less = await peakOf(daemon, () => way(daemon, { ...place, bigFile: 'small' }))
      const more = await peakOf(daemon, () => way(daemon, { ...place, bigFile: 'large' }))
      return [less, more, Math.max(0, more - less)]
    })
  },
}))

const idleCount = 50
const busyCount = 10

/** One `sftp` that puts a file and gets it back. */
async function putAndGet({ sftp }: Tidegate, place: Bench, name: string): Promise<void> {
  if (sftp === undefined) return
  const folder = join(place.folder, `connection-${name}`)
  await mkdir(folder)
  const file = join(place.files, 'small')
  const options = { cipher: 'aes128-gcm@openssh.com', block: 261_120 }
  await sftpBatch({ ...place, folder }, sftp, options, [`put ${file} ${name}`, `get ${name} /dev/null`])
  await rm(folder, { recursive: true })
}

const connections: Row = {
  name: 'memory-connections',
  figures: () => [
    {
      title: `peak memory, ${idleCount} idle and ${busyCount} busy SFTP connections`,
      unit: 'MiB',
      aims: [{ atMost: 200 }],
    },
  ],
  async measure(peer, bench) {
    if (!isTidegate(peer)) return undefined
    return withDaemon(bench, async (daemon, place) => {
      if (daemon.sftp === undefined) return undefined
      await writeContent(join(place.files, 'small'), small)
      const key = await readFile(bench.clientKey)
      const idle: Client[] = []
      try {
        while (idle.length < idleCount) idle.push((await openSession(daemon.sftp, key)).client)
        const names = Array.from({ length: busyCount }, (_, index) => String(index))
        return [await peakOf(daemon, () => Promise.all(names.map((name) => putAndGet(daemon, place, name))))]
      } finally {
        for (const client of idle) client.end()
      }
    })
  },
}

const start: Row = {
  name: 'start',
  figures: () => [
    { title: 'start to ready', unit: 's', aims: [{ atMost: 1.5 }] },
    { title: 'idle memory', unit: 'MiB', aims: [{ atMost: 90 }] },
  ],
  async measure(peer, bench) {
    if (!isTidegate(peer)) return undefined
    return withDaemon(bench, async (first, { files }) => {
      for (const each of first.processes) await each.stop()
      const second = await startTidegate(bench, join(files, '..'))
      try {
        await sleep(3000)
        const sizes = await Promise.all(second.processes.map((each) => each.memory()))
        return [second.startTime / 1000, sizes.reduce((sum, each) => sum + each, 0) / mebibyte]
      } finally {
        for (const each of second.processes) await each.stop()
      }
    })
  },
}

export const memoryRows: readonly Row[] = [...peakRows, connections, start]
