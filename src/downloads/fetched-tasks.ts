/** What a program fetched, on its way from the local disk into the tree. */
import { join } from 'node:path'
import PQueue from 'p-queue'
import { TreeError, type Failure } from '../change.js'
import { countedSource } from '../counted-source.js'
import type { Source } from '../driver.js'
import { GatewayError, isGatewayError, toGatewayError } from '../errors.js'
import { checkName, childOf, under, type Path } from '../path.js'
import { isSameContent } from '../same-content.js'
import { readFrom } from '../spool.js'
import type { TaskRun } from '../tasks/task.js'
import { ownPath } from '../tasks/transfer-tasks.js'
import type { VirtualFs } from '../virtual-fs.js'
import { taken } from './destination.js'
import type { FetchedPlan } from './download.js'
import { filesOf, type FetchedFile } from './temporary-folders.js'

/** Files that are stored at once. */
const atOnce = 4

/** Stores all of it. Rejects with TreeError for what could not be stored; the rest is there. */
export async function storeFetched(fs: VirtualFs, plan: FetchedPlan, run: TaskRun): Promise<void> {
  const { items, principal, signal } = run
  await items.fail([])
  run.status('getting src object')
  const files = await filesOf(plan.folder, plan.entry)
  run.total(files.reduce((sum, { size }) => sum + size, 0))
  if (files[0]?.kind === 'folder') run.status('src object is dir, listing objs')
  const folder = ownPath(principal, plan.to)
  const failures: Failure[] = []
  const attempt = async (file: FetchedFile) => {
    if (signal.aborted) return
    const path = file.names.reduce(childOf, folder)
    try {
      for (const name of file.names) checkName(name)
      await storeOne(fs, { plan, file, path, run })
    } catch (error) {
      failures.push({ path, error: toGatewayError(error) })
    }
  }
  for (const file of files.filter(({ kind }) => kind === 'folder')) await attempt(file)
  const queue = new PQueue({ concurrency: atOnce })
  await queue.addAll(files.filter(({ kind }) => kind !== 'folder').map((file) => () => attempt(file)))
  if (signal.aborted) throw new GatewayError('aborted')
  const [first, ...others] = failures
  if (!first) return
  await items.fail(failures.map(({ path, error }) => ({ path: under(principal.base, path), error: error.reason })))
  throw new TreeError([first, ...others])
}

interface Piece {
  readonly plan: FetchedPlan
  readonly file: FetchedFile
  /** The principal's own. */
  readonly path: Path
  readonly run: TaskRun
}

async function storeOne(fs: VirtualFs, { plan, file, path, run }: Piece): Promise<void> {
  const { items, principal, resumes, signal } = run
  const ask = { password: plan.password, signal }
  if (file.kind === 'folder') return fs.mkdir(path, { ...ask, parents: true })
  if (file.kind === 'other') throw new GatewayError('unsupported', { reason: 'only files and folders are stored' })
  const { size, state } = file
  const key = under(principal.base, path)
  if (resumes && (await items.copied(key))?.source === state && (await sizeOf(fs, path, ask)) === size) {
    run.advance(size)
    return
  }
  const local: Source = { size, rereadable: true, read: readFrom(join(plan.folder, ...file.names)) }
  const source = countedSource(local, run.advance)
  try {
    await fs.write(path, source, { ...ask, createOnly: true, parents: true })
  } catch (error) {
    source.takeBack()
    if (!isGatewayError(error, 'exists')) throw error
    // An earlier run may have stored it, and been cut off before it could say so.
    const read = () => fs.read(path, undefined, ask)
    const there = resumes ? await sizeOf(fs, path, ask) : undefined
    const isStored =
      there !== undefined && (await isSameContent(local, { size: there, rereadable: true, read }, signal))
    if (!isStored) throw taken(path, error)
    run.advance(size)
  }
  await items.keep(key, { source: state, size, apart: true })
}

/** Of a file; undefined where there is none. */
async function sizeOf(fs: VirtualFs, path: Path, ask: Parameters<VirtualFs['stat']>[1]): Promise<number | undefined> {
  try {
    const { kind, size } = await fs.stat(path, ask)
    return kind === 'file' ? size : undefined
  } catch (error) {
    if (isGatewayError(error, 'not_found')) return undefined
    throw error
  }
}
