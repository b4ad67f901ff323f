/** Copies and moves between storages as tasks. */
import { TreeError } from '../change.js'
import type { Entry } from '../driver.js'
import { GatewayError, isGatewayError } from '../errors.js'
import { visiblePath, type Mounts } from '../mounts.js'
import { childOf, parentOf, root, under, within, type Path } from '../path.js'
import type { Principal } from '../principal.js'
import { joinSignals } from '../signals.js'
import type { CopyAsk, VirtualFs } from '../virtual-fs.js'
import { LeftOutNames } from './failures.js'
import { planOf, type TaskRequest, type TaskRun, type TaskType } from './task.js'

export interface TransferOptions {
  readonly overwrite: boolean
  /** Existing folders are entered, existing files left alone. */
  readonly merge: boolean
  /** Of the folders. */
  readonly password?: string | undefined
}

interface TransferPlan extends TransferOptions {
  readonly from: Path
  readonly to: Path
}

type Kind = 'copy' | 'move'

/** Of `from` to the place and name of `to`, both paths of the principal's own. */
export function transferRequest(
  kind: Kind,
  { base }: Principal,
  [from, to]: readonly [from: Path, to: Path],
  options: TransferOptions,
  mounts: Pick<Mounts, 'rowOf'>,
): TaskRequest {
  const plan: TransferPlan = { from: under(base, from), to: under(base, to), ...options }
  const verb = options.merge ? 'merge' : kind
  const name = `${verb} ${placeName(mounts, plan.from)} to ${placeName(mounts, parentOf(plan.to))}`
  return { kind, name, plan, totalBytes: 0 }
}

/** `[/mount](/path/inside)`: clients make links of it. */
export function placeName(mounts: Pick<Mounts, 'rowOf'>, path: Path): string {
  const row = mounts.rowOf(path)
  const mount = row ? visiblePath(row.mountPath) : root
  return `[${mount}](${within(mount, path) ?? path})`
}

/** A path of the whole tree as the principal's own. */
export function ownPath({ base }: Principal, path: Path): Path {
  const own = within(base, path)
  if (own === undefined) throw new GatewayError('denied', { reason: 'it lies outside of your folder' })
  return own
}

export function transferTasks(kind: Kind, as: (principal: Principal) => VirtualFs): TaskType {
  return { run: (run) => transfer(kind, as(run.principal), run), retries: true }
}

async function transfer(kind: Kind, fs: VirtualFs, run: TaskRun): Promise<void> {
  const { items, principal, resumes, signal, advance } = run
  const plan = planOf(run.task) as TransferPlan
  const { overwrite, merge, password } = plan
  const [from, to] = [ownPath(principal, plan.from), ownPath(principal, plan.to)]
  await items.fail([])
  run.remark('')
  const names = new LeftOutNames()
  const leftOut: CopyAsk['leftOut'] = (folder, left) => {
    names.add(folder, left)
    run.remark(names.text)
  }
  run.status('getting src object')
  const walked = new AbortController()
  const either = joinSignals(signal, walked.signal)
  const measured = measure(kind, fs, from, run, either.signal)
  try {
    const journal = { ...items, resumes }
    await fs[kind](from, to, { overwrite, merge, password, signal, journal, advance, leftOut })
  } catch (error) {
    if (error instanceof TreeError) {
      const failures = error.failures.map((failure) => ({
        path: under(principal.base, failure.from ?? failure.path),
        error: failure.error.reason,
      }))
      await items.fail(failures)
    }
    throw error
  } finally {
    walked.abort()
    await measured
    either.release()
  }
}

/** Finds out how much there is to copy, while that has begun already. Whatever goes wrong with it is nobody's business. */
async function measure(kind: Kind, fs: VirtualFs, from: Path, run: TaskRun, signal: AbortSignal): Promise<void> {
  const { password } = planOf(run.task) as TransferPlan
  const ask = { password, signal }
  let bytes = 0
  const count = (entry: Entry) => {
    bytes += entry.size
    run.total(bytes)
  }
  try {
    const entry = await fs.stat(from, { ...ask, link: true })
    if (entry.kind !== 'folder' || entry.isLink === true) {
      run.status('getting src object link')
      count(entry)
      return
    }
    run.status('src object is dir, listing objs')
    const folders = [from]
    for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
      for await (const page of fs.pages(folder, ask)) {
        for (const member of page) {
          if (member.kind === 'folder' && member.isLink !== true) folders.push(childOf(folder, member.name))
          else count(member)
        }
      }
    }
    run.status(`src object is dir, added all ${kind} tasks of objs`)
  } catch (error) {
    if (!isGatewayError(error)) throw error
  }
}
