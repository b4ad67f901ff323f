/** Resumable uploads: their staged files remain on the server. */
import type { Upload, UploadPlan } from '../../src/contract/capabilities.js'
import type { WriteOptions } from '../../src/contract/call-options.js'
import { GatewayError } from '../../src/base/errors.js'
import type { Path } from '../../src/base/path.js'
import type { PipelinedFile } from '../lib/streams/pipelined-io.js'
import { parseResumeToken } from '../lib/staged-files/staged-names.js'
import { StagedUpload, type CheckpointPolicy } from '../lib/staged-files/staged-upload.js'
import type { ServerConnection } from './connection.js'
import type { SftpLocations } from './locations.js'
import { pipelinedFile } from './pipelined-file.js'
import type { SftpStaging } from './staging.js'

interface UploadDependencies {
  readonly on: ServerConnection
  /** Releases the connection. */
  readonly release: () => void
  readonly locations: SftpLocations
  readonly staging: SftpStaging
  readonly within: <T>(work: () => Promise<T>) => Promise<T>
  readonly checkpoints: CheckpointPolicy
}

/** Starts an upload, or resumes the one of the plan's token. The upload holds the connection until it is closed. */
export async function beginUpload(
  { on, release, locations, staging, within, checkpoints }: UploadDependencies,
  path: Path,
  { size, resumeToken: resume = '', replaceToken: replace = async () => undefined }: UploadPlan,
  options: WriteOptions,
): Promise<Upload> {
  const old = await locations.replaceable(on, path, options)
  const resumable = parseResumeToken(resume)
  const reopened = resumable && (await staging.reopen(on, resumable, { path, size }))
  const staged = reopened ?? (await staging.create(on, path))
  const pieces = pipelinedFile(on, staged.handle)
  const write: PipelinedFile['write'] = (position, piece) =>
    pieces.write(position, piece).catch((error: unknown) => locations.refineWriteError(on, error))
  const publish = async () => {
    const { size: stored } = await on.fstat(staged.handle)
    if (stored !== size) {
      throw new GatewayError('internal', { reason: `the server has ${stored} bytes of ${size}` })
    }
    return staging.publish(on, staged, path, { ...options, mode: options.mode ?? old?.mode })
  }
  const close = async () => {
    await staging.release(on, staged)
    release()
  }
  const held = reopened ? resumable.committed : 0
  const common = {
    size,
    signal: options.signal,
    replaceToken: replace,
    run: within,
    publish,
    close,
    sync: () => on.sync(staged.handle).catch((error: unknown) => locations.refineWriteError(on, error)),
  }
  return new StagedUpload(
    { ...common, resumable: { path: staged.path, committed: held }, file: { ...pieces, write } },
    checkpoints,
  )
}
