/**
 * The chaos run: clients of all protocols change few files through a balancer before three nodes, while nodes are
 * killed and frozen and the database restarts. Afterwards the history and the tree are judged.
 */
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { Test } from 'tap'
import { marker } from '../../stored-files.js'
import { judgeContents, judgeLocks, pathsOf } from './checker.js'
import { connectAll, HttpClient, SftpClient, WebDavClient } from './clients.js'
import { Cluster } from './cluster.js'
import { contentOf, idOf } from './content.js'
import { describe, type Operation } from './history.js'
import { Random } from './random.js'
import { Recorder } from './recorder.js'
import { Areas, HttpWorker, SftpWorker, WebDavWorker } from './workload.js'

const nodeCount = 3
/** Clients of each protocol. */
const clientCount = 3
/** Folders that clients use at a time. */
const areaCount = 3
/** The part of the histories that may have too many orders to be judged. */
const maxUndecided = 0.01
/** Milliseconds within which nothing is left of ended nodes. */
const leftoverTimeout = 60_000

export interface ChaosReport {
  readonly counts: Readonly<Record<string, number>>
  readonly violations: readonly string[]
}

/** `seed` repeats the choices of the clients and the faults, but not their timing. */
export async function runChaos(t: Test, seconds: number, seed: number): Promise<ChaosReport> {
  const random = new Random(seed)
  const recorder = new Recorder()
  const say = (line: string) => t.comment(`${(recorder.now() / 1000).toFixed(1)} s: ${line}`)
  const cluster = await Cluster.start(t, nodeCount, random.fork(), say)
  const { addresses, password } = cluster
  const areas = new Areas(areaCount, addresses, password, recorder)
  const shared = { url: addresses.url, recorder, areas }
  const workers = Array.from({ length: clientCount }, (_, number) => [
    new HttpWorker(`http-${number}`, shared, random.fork(), () => HttpClient.connect(addresses.url, password)),
    new WebDavWorker(`webdav-${number}`, shared, random.fork(), new WebDavClient(addresses.url, password)),
    new SftpWorker(`sftp-${number}`, shared, random.fork(), new SftpClient(addresses.sftpPort, password)),
  ]).flat()

  const end = performance.now() + seconds * 1000
  const violations: string[] = []
  let isOver = false
  const suffering = cluster.suffer(end).catch((error: unknown) => void violations.push(String(error)))
  const working = [areas, ...workers].map((each) => each.run(() => isOver))
  await suffering
  // The clients work for a while with all nodes.
  await wait(2000)
  await cluster.loseOne(async ({ url }) => {
    const [path, content] = ['/unfinished', recorder.newContent('run')]
    await recorder.record({ client: 'run', protocol: 'webdav' }, { kind: 'write', path, content }, async () => {
      await new WebDavClient(url, password).beginWrite(path, contentOf(content, 2_000_000))
      return { outcome: 'refused' }
    })
    if ((await staged(cluster.files)).length === 0) violations.push('nothing was staged')
  })
  await wait(1000)
  isOver = true
  await Promise.all(working)
  say('quiet')

  // The other nodes restore backups and remove staged files.
  violations.push(...(await leftovers(cluster.files)))
  violations.push(...(await compareTrees(cluster, areas.folders)))
  await cluster.startLost()
  violations.push(...(await leftovers(cluster.files)))
  await readAll(cluster, recorder)
  const { histories, undecided, late, violations: found } = judgeAll(recorder.operations, cluster)
  if (undecided > maxUndecided * histories) violations.push(`${undecided} of ${histories} histories were not judged`)
  violations.push(...found, ...judgeLocks(recorder.operations))
  const file = process.env.TIDEGATE_CHAOS_HISTORY
  if (file !== undefined) await writeFile(file, recorder.operations.map((each) => `${JSON.stringify(each)}\n`).join(''))
  if (violations.length > 0) for (const log of cluster.logs()) t.comment(log)

  const of = (condition: (operation: Operation) => boolean) => recorder.operations.filter(condition).length
  const counts = {
    operations: recorder.operations.length,
    http: of(({ protocol }) => protocol === 'http'),
    webdav: of(({ protocol }) => protocol === 'webdav'),
    sftp: of(({ protocol }) => protocol === 'sftp'),
    done: of(({ outcome }) => outcome === 'done'),
    open: of(({ outcome }) => outcome === 'open'),
    locks: of(({ kind, outcome }) => kind === 'lock' && outcome === 'done'),
    creations: of(({ kind, outcome }) => kind === 'create' && outcome === 'done'),
    conditional: of(({ kind, outcome }) => kind === 'replace' && outcome === 'done'),
    copies: of(({ kind, outcome }) => kind === 'copy' && outcome === 'done'),
    moves: of(({ kind, outcome }) => kind === 'move' && outcome === 'done'),
    kills: cluster.kills,
    freezes: cluster.frozen.length,
    'database restarts': cluster.databaseRestarts,
    exits: cluster.exits,
    'late overwrites': late,
    histories,
    'histories not judged': undecided,
    violations: violations.length,
  }
  return { counts, violations }
}

interface Judgement {
  readonly histories: number
  /** The number of those for which there are too many orders. */
  readonly undecided: number
  readonly late: number
  readonly violations: readonly string[]
}

/** Judges each set of paths by itself, among which clients move files. */
function judgeAll(operations: readonly Operation[], { frozen }: Cluster): Judgement {
  const groupOf = ({ path }: Operation) => path.replace(/\/(a|b|sub\/a)$/, '/files')
  const groups = new Map<string, Operation[]>()
  for (const operation of operations) {
    const group = groupOf(operation)
    groups.set(group, [...(groups.get(group) ?? []), operation])
  }
  const verdicts = [...groups.values()].map((group) => judgeContents(group, frozen))
  return {
    histories: verdicts.length,
    undecided: verdicts.filter(({ isUndecided }) => isUndecided).length,
    late: verdicts.reduce((sum, { late }) => sum + late, 0),
    violations: verdicts.flatMap(({ violation }) => violation ?? []),
  }
}

/** Waits until nothing is left of ended nodes. Resolves to what is. */
async function leftovers(folder: string): Promise<readonly string[]> {
  const deadline = performance.now() + leftoverTimeout
  for (;;) {
    const left = await staged(folder)
    if (left.length === 0 || performance.now() > deadline) return left.map((path) => `left: ${path}`)
    await wait(500)
  }
}

/** Paths of staged files and of backups. */
async function staged(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => undefined)
  // A folder was removed meanwhile.
  if (!entries) return staged(folder)
  const paths = entries.map((entry) => join(entry.parentPath, entry.name))
  // A running node keeps its folder of staged files, and the storage its marker.
  const files = paths
    .filter((path, index) => path.includes('.tidegate-') && entries[index]?.isDirectory() === false)
    .filter((path) => basename(path) !== marker)
  return [...files, ...paths.filter((path) => path.includes('.tidegate-backup-'))]
}

/** Compares the listings of each node, by each protocol, with what is stored. */
async function compareTrees(cluster: Cluster, folders: readonly string[]): Promise<readonly string[]> {
  const differences: string[] = []
  for (const node of cluster.each) {
    const clients = await connectAll(node, cluster.password)
    for (const folder of ['/', ...folders]) {
      const entries = await readdir(join(cluster.files, folder)).catch(() => undefined)
      // That it does not exist is compared in the listing of its parent.
      if (!entries) continue
      const stored = entries
        .filter((name) => !name.startsWith('.tidegate-'))
        .sort()
        .join()
      for (const client of clients) {
        const listed = await client.names(folder).then(
          (names) => names.join(),
          (error: unknown) => String(error),
        )
        if (listed !== stored)
          differences.push(`${node.url} lists ${folder} over ${client.protocol}: ${listed}; is: ${stored}`)
      }
    }
    for (const client of clients) client.close()
  }
  return differences
}

/** Adds reads of all paths: what is stored, and what each node returns by one of the protocols. */
async function readAll(cluster: Cluster, recorder: Recorder): Promise<void> {
  const paths = new Set(recorder.operations.flatMap(pathsOf))
  const sessions = await Promise.all(cluster.each.map((node) => connectAll(node, cluster.password)))
  let turn = 0
  for (const path of paths) {
    // Folders are compared in the listings.
    if (path.includes('/folder-')) continue
    await recorder.record({ client: 'disk', protocol: 'http' }, { kind: 'read', path }, async () => {
      const content = await readFile(join(cluster.files, path)).catch(() => undefined)
      if (!content) return { outcome: 'missing' }
      const found = idOf(content)
      return { outcome: 'done', ...(found === undefined ? { text: `torn, ${content.length} bytes` } : { found }) }
    })
    for (const [number, clients] of sessions.entries()) {
      const client = clients[turn++ % clients.length]
      if (!client) continue
      const by = { client: `node-${number}`, protocol: client.protocol }
      const read = await recorder.record(by, { kind: 'read', path }, () => client.read(path))
      if (read.outcome === 'open') throw new Error(`a quiet node does not answer: ${describe(read)}`)
    }
  }
  for (const client of sessions.flat()) client.close()
}
