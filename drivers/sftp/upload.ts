/** Uploads that a later run goes on with: files that stay beside their place. */
import type { Upload, UploadPlan, WriteOptions } from '../../src/driver.js'
import { GatewayError } from '../../src/errors.js'
import type { Path } from '../../src/path.js'
import type { OpenPieces } from '../lib/pieces.js'
import { keptFile } from '../lib/staged-names.js'
import { StagedUpload, type KeepingPace } from '../lib/staged-upload.js'
import type { Connection } from './connection.js'
import { piecesOf } from './pieces.js'
import type { Places } from './places.js'
import type { Staging } from './staging.js'

interface UploadParts {
  readonly on: Connection
  /** Gives the connection back. */
  readonly give: () => void
  readonly places: Places
  readonly staging: Staging
  readonly within: <T>(work: () => Promise<T>) => Promise<T>
  readonly pace: KeepingPace
}

/** It has the connection until it is closed. */
export async function beginUpload(
  { on, give, places, staging, within, pace }: UploadParts,
  path: Path,
  { size, resume = '', replace = async () => undefined }: UploadPlan,
  options: WriteOptions,
): Promise<Upload> {
  const old = await places.replaceable(on, path, options)
  const kept = keptFile(resume)
  const again = kept && (await staging.reopen(on, kept, { path, size }))
  const staged = again ?? (await staging.create(on, path))
  const pieces = piecesOf(on, staged.handle)
  const write: OpenPieces['write'] = (position, piece) =>
    pieces.write(position, piece).catch((error: unknown) => places.explainUnwritten(on, error))
  const publish = async () => {
    const { size: stored } = await on.fstat(staged.handle)
    if (stored !== size) {
      throw new GatewayError('internal', { reason: `the server has ${stored} bytes of ${size}` })
    }
    return staging.publish(on, staged, path, { ...options, mode: options.mode ?? old?.mode })
  }
  const leave = async () => {
    await staging.leave(on, staged)
    give()
  }
  const held = again ? kept.held : 0
  const parts = { size, signal: options.signal, replace, within, publish, leave, sync: () => on.sync(staged.handle) }
  return new StagedUpload({ ...parts, kept: { path: staged.path, held }, file: { ...pieces, write } }, pace)
}
