/**
 * Measures the memory of all servers over a whole run. For Tidegate also measures, in separate processes, the memory
 * during transfers and when idle, and the start time.
 */
import { mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from 'ssh2'
import { writeContent } from './content.js'
import type { Peer } from './peers/peer.js'
import type { RunningProcess } from './peers/process.js'
import { dataFolder, isTidegate, startTidegate, type Tidegate } from './peers/tidegate.js'
import { curl, sftpBatch } from './programs.js'
import { mebibytes, scaled, type Bench, type Figure, type Row } from './row.js'
import { getOverSftp, openSession, putOverSftp } from './sftp.js'
import { getOverWebDav, putOverHttp, putOverWebDav } from './transfers.js'

const mebibyte = 2 ** 20
const smallSize = (bench: Bench) => scaled(bench, 100 * mebibyte)
/** Idle milliseconds before memory is measured. A server may take up to a minute to return what it does not use. */
export const rest = (bench: Bench) => Math.min(45_000, scaled(bench, 45_000))
/** As `rest`, where memory at rest is not judged. */
export const shortRest = 3000

const ways: Readonly<Record<string, (peer: Tidegate, bench: Bench) => Promise<unknown> | undefined>> = {
  'HTTP GET': async ({ download }, { bigFile }) => download && curl([await download(bigFile)]),
  'HTTP PUT': putOverHttp,
  'WebDAV GET': ({ dav }, bench) => dav && getOverWebDav(dav, bench),
  'WebDAV PUT': ({ dav }, bench) => dav && putOverWebDav(dav, bench),
  'SFTP GET': ({ sftp }, bench) => sftp && getOverSftp(bench, sftp),
  'SFTP PUT': ({ sftp }, bench) => sftp && putOverSftp(bench, sftp),
}

/** Runs `work` with a separate daemon of the same program and an empty data folder. */
async function withDaemon<T>(
  { main }: Tidegate,
  bench: Bench,
  work: (peer: Tidegate, bench: Bench) => Promise<T>,
): Promise<T> {
  const files = join(bench.folder, 'memory', 'files')
  await mkdir(files, { recursive: true })
  const place = { ...bench, files }
  try {
    const peer = await startTidegate(main, place, dataFolder(place))
    try {
      return await work(peer, place)
    } finally {
      for (const each of peer.processes) await each.stop()
    }
  } finally {
    await rm(dataFolder(place), { recursive: true, force: true })
  }
}

async function peakOf(peer: Tidegate, work: () => Promise<unknown> | undefined): Promise<number> {
  const [daemon] = peer.processes
  if (daemon === undefined) throw new Error('the daemon does not run')
  await daemon.resetPeak()
  await work()
  return (await daemon.peakMemory()) / mebibyte
}

/** One row for each protocol and direction, so that none inherits the memory of another. */
const peakRows: readonly Row[] = Object.entries(ways).map(([title, way]) => ({
  name: `memory-${title.toLowerCase().replace(' ', '-')}`,
  figures: (bench) => [
    { title: `peak memory, ${title}, ${mebibytes(smallSize(bench))}`, unit: 'MiB', aims: [], isPeak: true },
    { title: `peak memory, ${title}, ${mebibytes(bench.size)}`, unit: 'MiB', aims: [{ atMost: 200 }], isPeak: true },
    { title: `how much more the larger file took`, unit: 'MiB', aims: [{ atMost: 32 }] },
  ],
  async measure(peer, bench) {
    if (!isTidegate(peer)) return undefined
    return withDaemon(peer, bench, async (daemon, place) => {
      await writeContent(join(place.files, 'small'), smallSize(bench))
      await writeContent(join(place.files, 'large'), bench.size)
      const less = await peakOf(daemon, () => way(daemon, { ...place, bigFile: 'small' }))
      const more = await peakOf(daemon, () => way(daemon, { ...place, bigFile: 'large' }))
      return [less, more, Math.max(0, more - less)]
    })
  },
}))

const idleCount = 50
const busyCount = 10

/** Uploads and downloads a file by `sftp`. */
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
  figures: (bench) => [
    {
      title: `peak memory, ${scaled(bench, idleCount)} idle and ${scaled(bench, busyCount)} busy SFTP connections`,
      unit: 'MiB',
      aims: [{ atMost: 200 }],
      isPeak: true,
    },
  ],
  async measure(peer, bench) {
    if (!isTidegate(peer)) return undefined
    return withDaemon(peer, bench, async (daemon, place) => {
      if (daemon.sftp === undefined) return undefined
      await writeContent(join(place.files, 'small'), smallSize(bench))
      const key = await readFile(bench.clientKey)
      const idle: Client[] = []
      try {
        while (idle.length < scaled(bench, idleCount)) idle.push((await openSession(daemon.sftp, key)).client)
        const names = Array.from({ length: scaled(bench, busyCount) }, (_, index) => String(index))
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
    return withDaemon(peer, bench, async (first, place) => {
      for (const each of first.processes) await each.stop()
      const second = await startTidegate(peer.main, place, dataFolder(place))
      try {
        await sleep(rest(bench))
        return [second.startTime / 1000, await memoryOf(second, (each) => each.memory())]
      } finally {
        for (const each of second.processes) await each.stop()
      }
    })
  },
}

/** The sum over all processes of a peer, in MiB. */
async function memoryOf({ processes }: Peer, figure: (process: RunningProcess) => Promise<number>): Promise<number> {
  const sizes = await Promise.all(processes.map(figure))
  return sizes.reduce((sum, each) => sum + each, 0) / mebibyte
}

export const memoryRows: readonly Row[] = [...peakRows, connections, start]

export const runMemoryFigures: readonly Figure[] = [
  { title: 'memory at rest after the start', unit: 'MiB', aims: [{ atMost: 95 }, { atMost: 90 }] },
  { title: 'memory at rest after these rows', unit: 'MiB', aims: [{ atMost: 150 }, { atMost: 110 }] },
  { title: 'peak memory over these rows', unit: 'MiB', aims: [{ atMost: 220 }, { atMost: 160 }] },
]

/**
 * Measures the memory of freshly started peers over `work`: the three figures above for each peer that runs a process.
 * `restTime`: idle milliseconds before memory at rest is measured.
 */
export async function memoryOver(
  peers: readonly Peer[],
  restTime: number,
  work: () => Promise<unknown>,
): Promise<readonly (readonly number[])[]> {
  const measured = (figure: (process: RunningProcess) => Promise<number>) =>
    Promise.all(peers.map((peer) => memoryOf(peer, figure)))
  await sleep(restTime)
  const start = await measured((each) => each.memory())
  await work()
  const peak = await measured((each) => each.lifetimePeak())
  await sleep(restTime)
  const end = await measured((each) => each.memory())
  return peers.map(({ processes }, index) =>
    processes.length === 0 ? [] : [start, end, peak].map((values) => values[index] ?? NaN),
  )
}
