/** Stores downloaded files, from the local disk or the storage that has downloaded them, into the tree. */
import PQueue from 'p-queue'
import { GatewayError, isGatewayError, nameTaken, toGatewayError } from '../base/errors.js'
import { Failures } from '../base/failures.js'
import { checkName, childOf, nameOf, under, type Path } from '../base/path.js'
import type { Source } from '../contract/call-options.js'
import { countedSource } from '../storage/transfer-meter.js'
import type { TaskPlace, TaskRun } from '../tasks/task.js'
import { pathBelowBase } from '../tasks/transfer-tasks.js'
import { isSameContent } from '../transfer/same-file.js'
import type { VirtualFs } from '../tree/virtual-fs.js'
import type { FetchedPlan } from './download.js'

interface FetchedItem {
  /** The segments of its path, relative to the folder. */
  readonly names: readonly string[]
  readonly size: number
  /** Changes whenever the content does. */
  readonly version: string
}

export type FetchedFile =
  | (FetchedItem & { readonly kind: 'folder' })
  | (FetchedItem & { readonly kind: 'other' })
  | (FetchedItem & { readonly kind: 'file'; readonly source: Source })

/** A folder with what was downloaded, until it is stored in the tree. */
export interface FetchedFolder {
  /** The names in the folder. Empty if it does not exist. */
  names(): Promise<readonly string[]>
  /**
   * All files below a name in the folder. Folders precede their members. Symlinks are of kind 'other' and not followed.
   * Rejects with `not_found` if the name does not exist any more.
   */
  files(name: string): Promise<readonly FetchedFile[]>
  /** Removes a name in the folder, with everything below it. It need not exist. */
  remove(name: string): Promise<void>
  /** Removes the folder, if nothing that was downloaded is left in it. */
  removeIfEmpty(): Promise<void>
  /** Removes the folder with everything in it. It need not exist. */
  removeAll(): Promise<void>
  /** The place of a name in the folder; the name itself if the folder is not in the tree. */
  placeOf(name: string): TaskPlace | { readonly name: string }
}

/** Files that are stored concurrently. */
const concurrency = 4

/** Stores all files. Rejects with a TreeError that lists the failed ones; the others are stored. */
export async function storeFetched(
  fs: VirtualFs,
  plan: FetchedPlan,
  fetched: FetchedFolder,
  run: TaskRun,
): Promise<void> {
  const { items, principal, signal } = run
  await items.clearFailures()
  run.setPhase('looking_up')
  const files = await fetched.files(plan.entry)
  run.setTotal(files.reduce((sum, { size }) => sum + size, 0))
  if (files[0]?.kind === 'folder') run.setPhase('listing_folder')
  const folder = pathBelowBase(principal, plan.to)
  const failures = new Failures()
  const attempt = async (file: FetchedFile) => {
    if (signal.aborted) return
    const path = file.names.reduce(childOf, folder)
    try {
      for (const name of file.names) checkName(name)
      await storeOne(fs, { plan, file, path, run })
    } catch (thrown) {
      const error = toGatewayError(thrown)
      failures.add({ path, error })
      await items.fail(under(principal.base, path), error.reason)
    }
  }
  for (const file of files.filter(({ kind }) => kind === 'folder')) await attempt(file)
  const queue = new PQueue({ concurrency })
  await queue.addAll(files.filter(({ kind }) => kind !== 'folder').map((file) => () => attempt(file)))
  if (signal.aborted) throw new GatewayError('aborted')
  failures.throwIfAny()
}

interface FileToStore {
  readonly plan: FetchedPlan
  readonly file: FetchedFile
  /** Relative to the principal's base. */
  readonly path: Path
  readonly run: TaskRun
}

async function storeOne(fs: VirtualFs, { plan, file, path, run }: FileToStore): Promise<void> {
  const { items, principal, resumes, signal } = run
  const access = { password: plan.password, signal }
  if (file.kind === 'folder') return fs.mkdir(path, { ...access, parents: true })
  if (file.kind === 'other') throw new GatewayError('unsupported', { reason: 'only files and folders are stored' })
  const { size, version: state, source: original } = file
  const key = under(principal.base, path)
  if (resumes && (await items.copied(key))?.source === state && (await sizeOf(fs, path, access)) === size) {
    run.advance(size)
    return
  }
  const source = countedSource(original, run.advance)
  try {
    await fs.write(path, source, { ...access, createOnly: true, parents: true })
  } catch (error) {
    source.revert()
    if (!isGatewayError(error, 'exists')) throw error
    // An earlier run may have stored the file and been interrupted before it was recorded.
    const read = () => fs.read(path, undefined, access)
    const storedSize = resumes ? await sizeOf(fs, path, access) : undefined
    const isStored =
      storedSize !== undefined && (await isSameContent(original, { size: storedSize, rereadable: true, read }, signal))
    if (!isStored) throw nameTaken(nameOf(path), error)
    run.advance(size)
  }
  await items.record(key, { source: state, size, distinct: true })
}

/** The size of a file; undefined if it does not exist. */
async function sizeOf(
  fs: VirtualFs,
  path: Path,
  access: Parameters<VirtualFs['stat']>[1],
): Promise<number | undefined> {
  try {
    const { kind, size } = await fs.stat(path, access)
    return kind === 'file' ? size : undefined
  } catch (error) {
    if (isGatewayError(error, 'not_found')) return undefined
    throw error
  }
}
