/** Writes large files so that a later run of the same task can resume an interrupted upload. */
import { Readable } from 'node:stream'
import type { Source, WriteOptions } from '../../contract/call-options.js'
import type { Entry } from '../../contract/entry.js'
import type { Path } from '../../base/path.js'
import type { GuardedDriver } from '../guarded-driver.js'
import { isSupported, undefinedIfUnsupported } from './fallbacks.js'

/** Minimum size in bytes of files whose uploads are resumable. */
const minResumableSize = 16 * 1024 * 1024

/**
 * Performs an upload. `resumeToken`: the token of an earlier run. `storeToken` resolves when a token has been stored
 * durably. Resolves to undefined if nothing was done.
 */
export type UploadWork = (
  resumeToken: string | undefined,
  storeToken: (token: string) => Promise<void>,
) => Promise<Entry | undefined>

/** The upload of one file by one task or session, for one state of its source. */
export interface ResumableUpload {
  /** The source can be read once, from any offset, though it is not `rereadable`. */
  readonly readsFromOffset?: boolean
  /** Runs `work` for this storage. Deletes the stored token when `work` succeeds or fails permanently. */
  withResume(storageId: number, work: UploadWork): Promise<Entry | undefined>
}

/**
 * Writes a large file, and resumes an earlier upload of it if there is one. Returns undefined, and writes nothing, if
 * the driver has no resumable uploads, or if the source is small, has no known size, or cannot be read from an offset.
 */
export async function writeResumable(
  driver: Pick<GuardedDriver, 'can' | 'upload' | 'dropUpload'>,
  storageId: number,
  [path, source]: readonly [path: Path, source: Source],
  resumable: ResumableUpload,
  options: WriteOptions,
): Promise<Entry | undefined> {
  const { size, rereadable } = source
  if (!driver.can('upload') || size === undefined || size < minResumableSize) return undefined
  if (!rereadable && resumable.readsFromOffset !== true) return undefined
  return resumable.withResume(storageId, async (resumeToken, storeToken) => {
    const plan = { size, source: rereadable ? source : undefined, resumeToken, replaceToken: storeToken }
    const upload = await undefinedIfUnsupported(driver.upload(path, plan, options))
    if (!upload) return undefined
    let isStored = false
    try {
      await storeToken(upload.token)
      isStored = true
      const { signal } = options
      const { committedOffset: offset } = upload
      // A backend that knows the content already needs none of it.
      const isComplete = offset === size && size > 0
      const rest = isComplete ? Readable.from([], { objectMode: false }) : undefined
      await upload.write(rest ?? (await source.read(offset === 0 ? undefined : { offset }, { signal })))
      return await upload.commit()
    } finally {
      await upload.close()
      // No later run knows of it.
      if (!isStored) await isSupported(driver.dropUpload(upload.token))
    }
  })
}
