/**
 * Copies small files of one folder to another one with the worker thread. Each file is staged, and gets its final name
 * when the caller allows it (docs/decisions/0016).
 */
import { throwIfAborted } from '../../src/base/cancellation.js'
import type { FileBundle } from '../../src/contract/capabilities.js'
import type { CallOptions } from '../../src/contract/call-options.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'
import type { Path } from '../../src/base/path.js'
import { entryFrom, systemTime } from './entry.js'
import type { Folder } from './folder.js'
import { isReserved, type RootFolder } from './root-folder.js'
import type { StagingArea, LocalStaging } from './staging.js'
import { jobs } from './worker-jobs.js'
import { workerThread, startedWorker, type WorkerThread } from './worker-thread.js'

/** Number of files from which it is worth starting the worker thread. */
const minFilesToStart = 32

interface BundleRoots {
  readonly source: RootFolder
  readonly target: RootFolder
  /** The staging folder of the target. */
  readonly staging: LocalStaging
}

/** A file of the bundle with the name of its staged copy. */
interface Member {
  readonly name: string
  readonly staged: string
  readonly entry: Entry
  readonly revision: string
}

type PublishedEntries = ReadonlyMap<string, Entry>

/** Implements `Driver.copyFiles`. */
export async function copyBundle(
  { source, target, staging }: BundleRoots,
  bundle: FileBundle,
  { signal }: CallOptions,
): Promise<readonly (Entry | undefined)[]> {
  const thread = bundle.files.length < minFilesToStart ? workerThread() : await startedWorker()
  if (!thread) throw new GatewayError('unsupported')
  const published = await withLocalFolder(source, bundle.from, (from) =>
    withLocalFolder(target, bundle.to, (to) =>
      staging.withArea(to, signal, async (area) => {
        const members = membersOf(bundle, area)
        const complete = await stageMembers(thread, from, area, members)
        return publishMembers(thread, target, area, bundle, complete)
      }),
    ),
  )
  if (!published) throw new GatewayError('unsupported')
  return bundle.files.map(({ name }) => published.get(name))
}

/** Runs `work` with an open folder. Rejects with `unsupported` unless it is on a local disk. */
async function withLocalFolder<T>(root: RootFolder, path: Path, work: (folder: Folder) => Promise<T>): Promise<T> {
  const folder = await root.folder(path)
  try {
    if (!root.isLocal(folder.host) || root.hasForeignMountsIn(folder.host)) throw new GatewayError('unsupported')
    return await work(folder)
  } finally {
    folder.close()
  }
}

function membersOf({ files }: FileBundle, { newName }: StagingArea): readonly Member[] {
  return files.flatMap((entry) => {
    const { name, revision, kind, isSymlink } = entry
    if (kind !== 'file' || isSymlink === true || revision === undefined || isReserved(name)) return []
    return [{ name, staged: newName(), entry, revision }]
  })
}

/** Copies the members to staged files. Resolves to those that were copied completely. */
async function stageMembers(
  thread: WorkerThread,
  from: Folder,
  { folder }: StagingArea,
  members: readonly Member[],
): Promise<readonly Member[]> {
  const files = members.map(({ name, staged, revision, entry: { size, mode, modified } }) => {
    return { name, staged, revision, size, mode, modified: systemTime(modified) }
  })
  const staging = folder.pathOf('')
  const complete = await thread.run('stage', { from: from.pathOf(''), staging, files })
  if (!complete) jobs.discard({ staging, names: members.map(({ staged }) => staged) })
  return members.filter((_member, index) => complete?.[index] === true)
}

async function publishMembers(
  thread: WorkerThread,
  target: RootFolder,
  { folder, signal }: StagingArea,
  bundle: FileBundle,
  members: readonly Member[],
): Promise<PublishedEntries> {
  const staging = folder.pathOf('')
  let unpublished = members
  try {
    throwIfAborted(signal)
    const allowed = await bundle.beforePublish(members.map(({ name }) => name))
    throwIfAborted(signal)
    // The target is opened again, because it may have been moved meanwhile.
    return await withLocalFolder(target, bundle.to, async (to) => {
      const files = members.filter(({ name }) => allowed.has(name))
      unpublished = members.filter(({ name }) => !allowed.has(name))
      const job = { staging, to: to.pathOf(''), files: files.map(({ name, staged }) => ({ name, staged })) }
      // A worker that ended meanwhile may have completed a part of the job.
      const statuses = (await thread.run('take', { ...job, isRetry: false })) ?? jobs.take({ ...job, isRetry: true })
      return new Map(
        files.flatMap(({ name }, index): [string, Entry][] => {
          const status = statuses[index]
          return status ? [[name, entryFrom(name, status)]] : []
        }),
      )
    })
  } finally {
    const job = { staging, names: unpublished.map(({ staged }) => staged) }
    if (unpublished.length > 0 && !(await thread.run('discard', job))) jobs.discard(job)
  }
}
