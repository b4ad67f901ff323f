/** Uploads that were received whole, and are stored by a task. */
import { basename } from 'node:path'
import type { Hashes } from '../driver.js'
import { countedSource } from '../counted-source.js'
import { GatewayError, isGatewayError } from '../errors.js'
import type { Mounts } from '../mounts.js'
import { nameOf, parentOf, under, type Path } from '../path.js'
import type { Principal } from '../principal.js'
import { isSameContent } from '../same-content.js'
import type { Spool, Spooled } from '../spool.js'
import type { VirtualFs } from '../virtual-fs.js'
import { planOf, type Task, type TaskRequest, type TaskRun, type TaskType } from './task.js'
import { ownPath, placeName } from './transfer-tasks.js'

export interface UploadOptions {
  /** `exists` where there is a file already. */
  readonly createOnly: boolean
  readonly modified?: Date | undefined
  /** Of the folder. */
  readonly password?: string | undefined
}

interface UploadPlan {
  readonly to: Path
  /** Its file in the spool. */
  readonly spooled: string
  readonly createOnly: boolean
  /** Milliseconds since 1970. */
  readonly modified?: number | undefined
  readonly hashes?: Hashes | undefined
  readonly password?: string | undefined
}

/** Of what was received, to the principal's own path `to`. The task owns the spooled file from then on. */
export function uploadRequest(
  { base }: Principal,
  to: Path,
  received: Spooled,
  { createOnly, modified, password }: UploadOptions,
  mounts: Pick<Mounts, 'rowOf'>,
): TaskRequest {
  const at = under(base, to)
  const plan: UploadPlan = {
    to: at,
    spooled: basename(received.file),
    createOnly,
    modified: modified?.getTime(),
    hashes: received.hashes,
    password,
  }
  const name = `upload ${nameOf(to)} to ${placeName(mounts, parentOf(at))}`
  return { kind: 'upload', name, plan, status: 'uploading', totalBytes: received.size }
}

/** Files of the spool that these tasks still need. */
export function spooledFiles(tasks: readonly Task[]): ReadonlySet<string> {
  return new Set(
    tasks.filter(({ kind }) => kind === 'upload').map((task) => (planOf(task) as Partial<UploadPlan>).spooled ?? ''),
  )
}

export function uploadTasks(spool: Spool, as: (principal: Principal) => VirtualFs): TaskType {
  return {
    run: (run) => upload(spool, as(run.principal), run),
    dispose: async (task) => {
      const { spooled } = planOf(task) as Partial<UploadPlan>
      if (spooled !== undefined) await spool.remove(spooled)
    },
  }
}

async function upload(spool: Spool, fs: VirtualFs, run: TaskRun): Promise<void> {
  const { items, principal, resumes, signal } = run
  const { to, spooled, createOnly, hashes, modified: time, password } = planOf(run.task) as UploadPlan
  const path = ownPath(principal, to)
  const modified = time === undefined ? undefined : new Date(time)
  const received = spool.find(spooled, { hashes, modified })
  if (!received) throw new GatewayError('unsupported', { reason: 'the received bytes are gone: upload the file again' })
  run.status('uploading')
  const source = countedSource(received, run.advance)
  try {
    const kept = items.keptUpload(to, spooled)
    await fs.write(path, source, { createOnly, modified, password, signal, parents: true, kept })
  } catch (error) {
    source.takeBack()
    // An earlier run may have stored it, and been cut off before it could say so.
    if (resumes && isGatewayError(error, 'exists') && (await isStored(fs, path, received, run))) return
    throw error
  }
}

async function isStored(fs: VirtualFs, path: Path, received: Spooled, { signal, task }: TaskRun): Promise<boolean> {
  const { password } = planOf(task) as UploadPlan
  const { size, kind } = await fs.stat(path, { password, signal })
  const read = () => fs.read(path, undefined, { password, signal })
  return kind === 'file' && isSameContent(received, { size, rereadable: true, read }, signal)
}
