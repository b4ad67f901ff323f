/** Copies and moves between storages as tasks. */
import type { Principal } from '../accounts/principal.js'
import { joinSignals } from '../base/cancellation.js'
import type { Entry } from '../contract/entry.js'
import { GatewayError } from '../base/errors.js'
import { childOf, parentOf, root, under, within, type Path } from '../base/path.js'
import { visiblePath, type Mounts } from '../mounts/mounts.js'
import type { AccessOptions } from '../tree/operation-options.js'
import type { TransferOptions, VirtualFs } from '../tree/virtual-fs.js'
import { ItemReport } from './failures.js'
import { planOf, type TaskPlace, type TaskRequest, type TaskRun, type TaskType } from './task.js'

export interface TransferTaskOptions {
  readonly overwrite: boolean
  /** Merges into existing folders, and skips existing files. */
  readonly merge: boolean
  /** The password of protected folders. */
  readonly password?: string | undefined
}

interface TransferPlan extends TransferTaskOptions {
  readonly from: Path
  readonly to: Path
}

type Kind = 'copy' | 'move'

/** The request of a copy or move of `from` to the new path `to`. Both paths are relative to the principal's base. */
export function transferRequest(
  kind: Kind,
  { base }: Principal,
  [from, to]: readonly [from: Path, to: Path],
  options: TransferTaskOptions,
  mounts: Pick<Mounts, 'rowOf'>,
): TaskRequest {
  const plan: TransferPlan = { from: under(base, from), to: under(base, to), ...options }
  const verb = options.merge ? 'merge' : kind
  const subject = { verb, from: placeOf(mounts, plan.from), to: placeOf(mounts, parentOf(plan.to)) } as const
  return { kind, subject, plan, totalBytes: 0 }
}

/** The place of a path of the whole tree. */
export function placeOf(mounts: Pick<Mounts, 'rowOf'>, path: Path): TaskPlace {
  const row = mounts.rowOf(path)
  const mount = row ? visiblePath(row.mountPath) : root
  return { mount, inner: within(mount, path) ?? path }
}

/** Converts a path of the whole tree to one relative to the principal's base. Throws `denied` if it is outside. */
export function pathBelowBase({ base }: Principal, path: Path): Path {
  const own = within(base, path)
  if (own === undefined) throw new GatewayError('denied', { reason: 'the path is outside of your base folder' })
  return own
}

export function transferTasks(kind: Kind, as: (principal: Principal) => VirtualFs): TaskType {
  return { run: (run) => transfer(kind, as(run.principal), run), resumable: true }
}

async function transfer(kind: Kind, fs: VirtualFs, run: TaskRun): Promise<void> {
  const { items, principal, resumes, signal, advance } = run
  const plan = planOf(run.task) as TransferPlan
  const { overwrite, merge, password } = plan
  const [from, to] = [pathBelowBase(principal, plan.from), pathBelowBase(principal, plan.to)]
  await items.clearFailures()
  run.setRemark('')
  const skipped = new ItemReport((count, items) => `left out ${count} whose names no path can hold: ${items}`)
  const lost = new ItemReport((count, items) => `time and mode of ${count} folders not set: ${items}`)
  const report = () => run.setRemark([skipped.text, lost.text].filter((text) => text !== '').join('; '))
  const reports: Pick<TransferOptions, 'onSkippedNames' | 'onAttributesLost'> = {
    onSkippedNames: (folder, { count, names }) => {
      const paths = names.map((name) => `${folder === root ? '' : folder}/${name.replace(/\p{Cc}/gu, '\ufffd')}`)
      skipped.add(paths, count)
      report()
    },
    onAttributesLost: (folder, { reason }) => {
      lost.add([`${folder}: ${reason}`])
      report()
    },
  }
  run.setPhase('looking_up')
  const walk = new AbortController()
  const joined = joinSignals(signal, walk.signal)
  const measured = measure(fs, from, run, { password, signal: joined.signal })
  try {
    const journal = { ...items, resumes }
    await fs[kind](from, to, { overwrite, merge, password, signal, journal, advance, ...reports })
  } finally {
    walk.abort()
    await measured
    joined.release()
  }
}

/**
 * Reports the total size while the transfer already runs. Never rejects, because the transfer does not wait for it
 * before it ends, and reports its own errors.
 */
async function measure(fs: VirtualFs, from: Path, run: TaskRun, access: AccessOptions): Promise<void> {
  let bytes = 0
  const count = (entry: Entry) => {
    bytes += entry.size
    run.setTotal(bytes)
  }
  try {
    const entry = await fs.stat(from, { ...access, ofSymlink: true })
    if (entry.kind !== 'folder' || entry.isSymlink === true) {
      run.setPhase('transferring_file')
      count(entry)
      return
    }
    run.setPhase('listing_folder')
    await eachFile(fs, from, access, count)
    run.setPhase('transferring_folder')
  } catch {
    // The total remains what was counted so far.
  }
}

/** Calls `count` with all below a folder that is no folder. Of the folders that are left, it keeps names only. */
async function eachFile(
  fs: VirtualFs,
  from: Path,
  access: AccessOptions,
  count: (entry: Entry) => void,
): Promise<void> {
  const entered = async (path: Path) => {
    const folders: string[] = []
    for await (const page of fs.pages(path, access)) {
      for (const member of page) {
        if (member.kind === 'folder' && member.isSymlink !== true) folders.push(member.name)
        else count(member)
      }
    }
    return { path, folders }
  }
  const open = [await entered(from)]
  for (let folder = open.at(-1); folder !== undefined; folder = open.at(-1)) {
    const name = folder.folders.pop()
    if (name === undefined) open.pop()
    else open.push(await entered(childOf(folder.path, name)))
  }
}
