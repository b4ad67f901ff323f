/** Lists a folder in pages. Blocks the event loop for at most 2 ms at a time, whatever the size of the folder. */
import { constants, opendirSync, readdirSync, type BigIntStats } from 'node:fs'
import { opendir } from 'node:fs/promises'
import type { ListOptions, Awaitable } from '../../src/contract/call-options.js'
import { pageSize, type Entry } from '../../src/contract/entry.js'
import { GatewayError, undefinedIfMissing } from '../../src/base/errors.js'
import { childOf, isListableName, type Path } from '../../src/base/path.js'
import { ownTurn } from '../../src/base/pauses.js'
import { kindOf, reuseOrCreateEntry, statusOf, type FileStatus } from './entry.js'
import type { Folder } from './folder.js'
import { isReserved, type RootFolder } from './root-folder.js'
import { syncSyscalls, asyncSyscalls } from './syscalls.js'
import { numbersPerName, type LookResult } from './worker-jobs.js'
import { workerThread, type WorkerThread } from './worker-thread.js'

/** Milliseconds of synchronous work before other work may run. */
const sliceTime = 2
/** Names in one job of the worker thread. */
const namesPerJob = 400
/** Bytes of a folder whose names are read by one call. A name takes at least one byte on every local file system. */
const smallFolder = 4096
/** Maximum number of concurrent lookups on a file system that may block. */
const maxConcurrent = 64

interface ListingOptions {
  readonly showHidden: boolean
  readonly signal: AbortSignal | undefined
  /** Resolves the entry of a symlink or a folder whose status is not sufficient. */
  readonly resolveEntry: (path: Path, name: string, status: FileStatus) => Promise<Entry>
  readonly known: ListOptions['known']
  /** Whether a folder's status is not sufficient for its entry. */
  readonly resolvesFolders: boolean
}

type NamedStatus = readonly [name: string, status: FileStatus]

export async function* listFolder(
  root: RootFolder,
  path: Path,
  options: ListingOptions,
): AsyncGenerator<readonly Entry[]> {
  const { known } = options
  const folder = await root.folder(path)
  try {
    const isImmediate = () => folder.calls.immediate && !root.hasForeignMountsIn(folder.host)
    let page: Entry[] = []
    const batches = isImmediate() ? syncBatches(folder, options, isImmediate) : asyncBatches(folder, options)
    for await (const batch of batches) {
      if (options.signal?.aborted) throw new GatewayError('aborted')
      for (const [name, status] of batch) {
        const kind = kindOf(status.mode)
        const needsEntry = kind === 'symlink' || (options.resolvesFolders && kind === 'folder')
        const entry = needsEntry
          ? await undefinedIfMissing(options.resolveEntry(childOf(path, name), name, status))
          : reuseOrCreateEntry(name, status, known?.(name))
        if (entry) page.push(entry)
      }
      if (page.length < pageSize) continue
      assertUnmoved(folder)
      for (; page.length >= pageSize; page = page.slice(pageSize)) yield page.slice(0, pageSize)
    }
    assertUnmoved(folder)
    if (page.length > 0) yield page
  } finally {
    folder.close()
  }
}

/**
 * Names are looked up by path, which is faster than by handle. This checks that the path still refers to the same
 * folder.
 */
function assertUnmoved(folder: Folder): void {
  if (!folder.isUnmoved()) throw new GatewayError('not_found', { reason: 'the folder was moved while it was listed' })
}

/** `isImmediate`: whether lookups in the folder may be synchronous at this moment. */
async function* syncBatches(
  folder: Folder,
  options: ListingOptions,
  isImmediate: () => boolean,
): AsyncGenerator<readonly NamedStatus[]> {
  const names = namesIn(folder, options, isSmall(await folder.status()))
  const prefix = folder.host === '/' ? '/' : `${folder.host}/`
  const lookUp: LookUp = (name) => (isImmediate() ? syncSyscalls : asyncSyscalls).lstat(prefix + name)
  const pendingJobs = new Set<Promise<void>>()
  let received: NamedStatus[] = []
  let listedCount = 0
  try {
    for (let ended = false; !ended;) {
      // Large folders are shared with the worker thread. At most two jobs are pending, because the end of the listing
      // waits for them.
      const thread = listedCount > pageSize ? workerThread() : undefined
      while (thread && pendingJobs.size < 2) {
        const part = takeNames(names, namesPerJob)
        if (part.length === 0) break
        const job: Promise<void> = lookUpInWorker(thread, prefix, part, lookUp).then((batch) => {
          received.push(...batch)
          pendingJobs.delete(job)
        })
        pendingJobs.add(job)
      }
      const batch = received
      received = []
      const isSync = isImmediate()
      for (const end = performance.now() + sliceTime; batch.length < pageSize && performance.now() < end;) {
        const { value: name } = names.next()
        ended = name === undefined
        if (name === undefined) break
        const found = isSync ? syncSyscalls.lstat(prefix + name) : await asyncSyscalls.lstat(prefix + name)
        const named = namedStatus(name, found as BigIntStats | undefined)
        if (named) batch.push(named)
      }
      listedCount += batch.length
      yield batch
      if (!ended) await ownTurn()
    }
    await Promise.all(pendingJobs)
    yield received
  } finally {
    names.return(undefined)
  }
}

/**
 * Whether the folder certainly has few names. Its size tells nothing if that is 0 (bcachefs), or if the folder has one
 * link, as one of several layers has (overlay).
 */
function isSmall(status: BigIntStats | undefined): boolean {
  return status !== undefined && status.nlink > 1n && status.size > 0n && status.size <= smallFolder
}

function* namesIn(folder: Folder, options: ListingOptions, atOnce: boolean): Generator<string, undefined> {
  const isShown = nameFilter(options)
  if (atOnce) {
    yield* readdirSync(folder.selfPath).filter(isShown)
    return undefined
  }
  const directory = opendirSync(folder.selfPath, { bufferSize: 256 })
  try {
    for (let entry = directory.readSync(); entry; entry = directory.readSync())
      if (isShown(entry.name)) yield entry.name
    return undefined
  } finally {
    directory.closeSync()
  }
}

function takeNames(names: Iterator<string, undefined>, count: number): readonly string[] {
  const part: string[] = []
  while (part.length < count) {
    const { value: name } = names.next()
    if (name === undefined) break
    part.push(name)
  }
  return part
}

/** The status of a file whose name is not valid UTF-8: no system call finds it by its replacement text. */
const unreadableStatus: FileStatus = { revision: '', mode: constants.S_IFREG, size: 0, modified: 0, created: 0 }

/** Undefined for a name that was removed meanwhile. */
function namedStatus(name: string, stats: BigIntStats | undefined): NamedStatus | undefined {
  if (stats) return [name, statusOf(stats)]
  return isListableName(name) ? undefined : [name, unreadableStatus]
}

/** The status of a name of the folder; undefined if it does not exist. */
type LookUp = (name: string) => Awaitable<BigIntStats | undefined>

async function lookUpInWorker(
  thread: WorkerThread,
  prefix: string,
  names: readonly string[],
  lookUp: LookUp,
): Promise<readonly NamedStatus[]> {
  const answer = await thread.run('look', { prefix, names: names.join('\0') })
  const results = answer && statuses(answer)
  const found: NamedStatus[] = []
  for (const [index, name] of names.entries()) {
    const status = results?.[index]
    const named: NamedStatus | undefined = status ? [name, status] : namedStatus(name, await lookUp(name))
    if (named) found.push(named)
  }
  return found
}

function statuses({ revisions, numbers }: LookResult): readonly (FileStatus | undefined)[] {
  return revisions.split('\0').map((revision, index) => {
    if (revision === '') return undefined
    const at = index * numbersPerName
    return {
      revision,
      mode: numbers[at] ?? 0,
      size: numbers[at + 1] ?? 0,
      modified: numbers[at + 2] ?? 0,
      created: numbers[at + 3] ?? 0,
    }
  })
}

async function* asyncBatches(folder: Folder, options: ListingOptions): AsyncGenerator<readonly NamedStatus[]> {
  const isShown = nameFilter(options)
  const lookUp = async (name: string) => namedStatus(name, await asyncSyscalls.lstat(folder.pathOf(name)))
  const lookUpAll = async () => (await Promise.all(names.map(lookUp))).filter((named) => named !== undefined)
  let names: string[] = []
  for await (const { name } of await opendir(folder.selfPath, { bufferSize: maxConcurrent })) {
    if (isShown(name)) names.push(name)
    if (names.length < maxConcurrent) continue
    yield await lookUpAll()
    names = []
  }
  yield await lookUpAll()
}

function nameFilter({ showHidden }: ListingOptions): (name: string) => boolean {
  return (name) => !name.startsWith('.') || (showHidden && !isReserved(name))
}
