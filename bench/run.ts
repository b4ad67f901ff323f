/**
 * The bench: the same work on us and on the servers people would choose instead, on the same files, in the same run. Prints
 * medians, and how many times faster ours is. `npm run bench -- --help` tells the options.
 */
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { cpus, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command } from 'commander'
import { warmPageCache, writeContent } from './content.js'
import { copyRows } from './copies.js'
import { listingRows } from './listings.js'
import { memoryRows } from './memory.js'
import { apache } from './peers/apache.js'
import { cp } from './peers/cp.js'
import { nginx } from './peers/nginx.js'
import { openssh } from './peers/openssh.js'
import { backendRows } from './backends.js'
import type { Peer, PeerName, PeerType } from './peers/peer.js'
import { rclone } from './peers/rclone.js'
import { tidegate } from './peers/tidegate.js'
import { run } from './programs.js'
import { median, type Bench, type Row } from './row.js'
import { searchRows } from './search.js'
import { sftpRows } from './sftp.js'
import { smallFileRows } from './small-files.js'
import { resultLine, resultObject, tableHead, type Result } from './table.js'
import { transferRows } from './transfers.js'

const peerTypes: readonly PeerType[] = [tidegate, rclone, nginx, apache, openssh, cp]
const rows: readonly Row[] = [
  ...transferRows,
  ...smallFileRows,
  ...listingRows,
  ...searchRows,
  ...sftpRows,
  ...memoryRows,
  ...backendRows,
  ...copyRows,
]

interface Options {
  readonly only?: readonly string[]
  readonly size: string
  readonly repeat: string
  readonly json?: boolean
}

/** What has to be undone at the end, the newest first; also when the bench is interrupted. */
const undo: (() => Promise<unknown>)[] = []

async function cleanUp(): Promise<void> {
  for (let step = undo.pop(); step !== undefined; step = undo.pop()) {
    await step().catch((error: unknown) => console.error(`cleaning up: ${String(error)}`))
  }
}

async function prepare(size: number): Promise<Bench> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-bench-'))
  undo.push(() => rm(folder, { recursive: true, force: true }))
  const files = join(folder, 'data', 'files')
  await mkdir(files, { recursive: true })
  // Where root runs the bench, Apache's children are another user.
  for (const each of [folder, join(folder, 'data')]) await chmod(each, 0o711)
  await chmod(files, 0o777)
  const clientKey = join(folder, 'client-key')
  await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', clientKey])
  await writeContent(join(files, 'big.bin'), size)
  return { folder, files, clientKey, size, bigFile: 'big.bin' }
}

async function startPeers(bench: Bench, say: (line: string) => void): Promise<Peer[]> {
  const peers: Peer[] = []
  for (const type of peerTypes) {
    const version = await type.version()
    if (version === undefined) {
      say(`- ${type.name}: not installed`)
      continue
    }
    const peer = await type.start(bench)
    undo.push(() => Promise.all(peer.processes.map((each) => each.stop())))
    peers.push(peer)
    say(`- ${type.name}: ${version}`)
  }
  return peers
}

/** Peer after peer, then all again from the next one on: what else the machine does falls on all of them. */
async function measure(row: Row, peers: readonly Peer[], bench: Bench, repeat: number): Promise<Result[]> {
  const figures = row.figures(bench)
  const taken = figures.map(() => new Map<PeerName, number[]>())
  for (let round = 0; round < repeat; round++) {
    const first = round % peers.length
    for (const peer of [...peers.slice(first), ...peers.slice(0, first)]) {
      if (row.writes) await warmPageCache(join(bench.folder, 'warm'), row.writes(bench))
      const values = await row.measure(peer, bench).catch((error: unknown) => {
        console.error(`${row.name}, ${peer.name}: ${error instanceof Error ? error.message : String(error)}`)
        return undefined
      })
      values?.forEach((value, index) => {
        const known = taken[index]
        known?.set(peer.name, [...(known.get(peer.name) ?? []), value])
      })
    }
  }
  return figures.map((figure, index) => {
    const medians = new Map([...(taken[index] ?? [])].map(([name, values]) => [name, median(values)]))
    return { row: row.name, figure, medians }
  })
}

async function bench(options: Options): Promise<void> {
  const size = Number(options.size) * 2 ** 20
  const repeat = Number(options.repeat)
  if (!(size > 0) || !Number.isInteger(repeat) || repeat < 1)
    throw new Error('--size and --repeat take numbers above 0')
  const { only, json = false } = options
  const chosen = rows.filter(
    ({ name }) => only === undefined || only.some((word) => name === word || name.startsWith(`${word}-`)),
  )
  if (chosen.length === 0) throw new Error(`--only: there is ${rows.map(({ name }) => name).join(', ')}`)
  const say = (line: string) => (json ? undefined : console.log(line))
  const place = await prepare(size)
  const load = loadavg()[0] ?? 0
  say(
    `${cpus().length} × ${cpus()[0]?.model ?? 'unknown processor'}, medians of ${repeat}, load before ${load.toFixed(1)}\n`,
  )
  // Some peers keep for minutes what they once saw of a folder.
  for (const row of chosen) {
    await row.prepare?.(place)
    undo.push(async () => row.finish?.())
  }
  const peers = await startPeers(place, say)
  const names = peers.map(({ name }) => name)
  say(`\n${tableHead(names)}`)
  const results: Result[] = []
  for (const row of chosen) {
    for (const result of await measure(row, peers, place, repeat)) {
      results.push(result)
      say(resultLine(result, names))
    }
  }
  if (json) console.log(JSON.stringify(results.map(resultObject), undefined, 2))
}

const program = new Command('bench')
  .description('Measures Tidegate beside the servers that are installed.')
  .option('--only <rows...>', `names of rows, or how they begin: ${rows.map(({ name }) => name).join(', ')}`)
  .option('--size <MiB>', 'size of a large file', '1024')
  .option('--repeat <times>', 'measurements to take the median of', '3')
  .option('--json', 'print JSON instead of a table')
  .action(bench)

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void cleanUp().finally(() => process.exit(130)))
}
try {
  await program.parseAsync()
} catch (error) {
  console.error(`bench: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
} finally {
  await cleanUp()
}
