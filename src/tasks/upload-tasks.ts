/** Tasks that store uploads which the gateway has received completely. */
import { basename } from 'node:path'
import type { Principal } from '../accounts/principal.js'
import type { Source } from '../contract/call-options.js'
import type { Hashes } from '../contract/entry.js'
import { GatewayError, isGatewayError } from '../base/errors.js'
import { nameOf, parentOf, under, type Path } from '../base/path.js'
import type { Mounts } from '../mounts/mounts.js'
import type { Spool, Spooled } from '../storage/fallbacks/spool.js'
import { countedSource } from '../storage/transfer-meter.js'
import { isSameContent } from '../transfer/same-file.js'
import type { AccessOptions } from '../tree/operation-options.js'
import type { VirtualFs } from '../tree/virtual-fs.js'
import { hasEnded, planOf, type Task, type TaskRequest, type TaskRun, type TaskType } from './task.js'
import { pathBelowBase, placeOf } from './transfer-tasks.js'

export interface UploadOptions {
  /** Rejects with `exists` if the file exists. */
  readonly createOnly: boolean
  readonly modified?: Date | undefined
  /** The password of the folder. */
  readonly password?: string | undefined
}

interface UploadTaskPlan {
  readonly to: Path
  /** The name of its file in the spool. */
  readonly spooled: string
  readonly createOnly: boolean
  /** The time of the file in milliseconds since 1970. */
  readonly modified?: number | undefined
  readonly hashes?: Hashes | undefined
  readonly password?: string | undefined
}

/**
 * The request of a task that stores `received` at `to`, a path relative to the principal's base. The task owns the
 * spooled file once it is added.
 */
export function uploadRequest(
  { base }: Principal,
  to: Path,
  received: Spooled,
  { createOnly, modified, password }: UploadOptions,
  mounts: Pick<Mounts, 'rowOf'>,
): TaskRequest {
  const at = under(base, to)
  const plan: UploadTaskPlan = {
    to: at,
    spooled: basename(received.file),
    createOnly,
    modified: modified?.getTime(),
    hashes: received.hashes,
    password,
  }
  const subject = { verb: 'upload', name: nameOf(to), to: placeOf(mounts, parentOf(at)) } as const
  return { kind: 'upload', subject, plan, phase: 'storing_upload', totalBytes: received.size }
}

/** The names of the spool files that the unfinished ones of these tasks need. */
export function spooledFiles(tasks: readonly Task[]): ReadonlySet<string> {
  return new Set(
    tasks
      .filter((task) => task.kind === 'upload' && !hasEnded(task))
      .map((task) => (planOf(task) as Partial<UploadTaskPlan>).spooled ?? ''),
  )
}

export function uploadTasks(spool: Spool, as: (principal: Principal) => VirtualFs): TaskType {
  return {
    run: (run) => upload(spool, as(run.principal), run),
    // The received file is deleted when the task ends.
    assertRetryable: () => {
      throw new GatewayError('unsupported', { detail: 'upload_gone' })
    },
    dispose: async (task) => {
      const { spooled } = planOf(task) as Partial<UploadTaskPlan>
      if (spooled !== undefined) await spool.remove(spooled)
    },
  }
}

async function upload(spool: Spool, fs: VirtualFs, run: TaskRun): Promise<void> {
  const { items, principal, resumes, signal } = run
  const { to, spooled, createOnly, hashes, modified: time, password } = planOf(run.task) as UploadTaskPlan
  const path = pathBelowBase(principal, to)
  const modified = time === undefined ? undefined : new Date(time)
  const received = await spool.find(spooled, { hashes, modified })
  if (!received) {
    // Another node has received it, or its spool was not restored from a backup.
    const reason =
      'the received bytes are not on the disk of the server that continues this task: upload the file again'
    throw new GatewayError('unsupported', { detail: 'upload_gone', reason })
  }
  run.setPhase('storing_upload')
  const source = countedSource(received, run.advance)
  try {
    const resumable = items.resumableUpload(to, spooled)
    await fs.write(path, source, { createOnly, modified, password, signal, parents: true, resumable })
  } catch (error) {
    source.revert()
    if (resumes && isGatewayError(error, 'exists') && (await isStored(fs, path, received, { password, signal }))) return
    throw error
  }
}

/**
 * Whether the file at `path` has the content of the source: an earlier run of the task may have stored it and been
 * interrupted before that was recorded.
 */
export async function isStored(
  fs: VirtualFs,
  path: Path,
  source: Source,
  access: AccessOptions & Pick<TaskRun, 'signal'>,
): Promise<boolean> {
  const { size, kind } = await fs.stat(path, access)
  if (kind !== 'file') return false
  const read = () => fs.read(path, undefined, access)
  return isSameContent(
    source.size === undefined ? { ...source, size } : source,
    { size, rereadable: true, read },
    access.signal,
  )
}
