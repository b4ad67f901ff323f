/** Uploads by 115's official API that a later run continues: the object store keeps their parts. */
import type { CallOptions, Source, WriteOptions } from '../../src/contract/call-options.js'
import type { Upload, UploadPlan } from '../../src/contract/capabilities.js'
import { GatewayError, isGatewayError } from '../../src/contract/errors.js'
import type { Path } from '../../src/contract/path.js'
import { maxOssParts } from '../lib/aliyun-oss.js'
import type { IdFiles, Staging } from '../lib/api/id-files.js'
import { field, numberOf, textOf } from '../lib/api/lenient.js'
import { resumableUpload } from '../lib/parts.js'
import { digestOf } from '../lib/source-digest.js'
import { stagingRun } from '../lib/staged-names.js'
import { isContentOf, type Open115Item } from './open-items.js'
import type { NewFile, Open115Uploads, UploadPlace } from './open-uploads.js'

interface Parts {
  readonly files: IdFiles<Open115Item>
  readonly uploads: Open115Uploads
}

/** What a later run has to know of an upload. Its text is the resume token. */
interface Token {
  readonly file: NewFile
  /** Absent if the server has the file without its bytes. */
  readonly parts?: {
    readonly pickCode: string
    readonly bucket: string
    readonly key: string
    readonly id: string
    /** Bytes of each part but the last. */
    readonly length: number
  }
}

/** An upload that was begun, or resumed. */
interface Started {
  readonly token: Token
  readonly committedOffset: number
  /** Resolves to the id of the staged file. */
  readonly complete: () => Promise<string>
}

/** See `Driver.upload`. Rejects with `unsupported` for an empty file, which has no parts. */
export async function openResumable(
  { files, uploads }: Parts,
  path: Path,
  plan: UploadPlan,
  options: WriteOptions,
): Promise<Upload> {
  const { size, source, resumeToken } = plan
  const { signal } = options
  if (!source || size === 0) throw new GatewayError('unsupported')
  const staging = await files.stage(path, options)
  const earlier = resumeToken === undefined ? undefined : parseToken(resumeToken)
  const isSame = earlier?.file.size === size && earlier.file.folder === staging.folder
  const resumed = isSame ? await resume({ files, uploads }, earlier, signal) : undefined
  if (!resumed && resumeToken !== undefined) await dropResumable({ files, uploads }, resumeToken, { signal })
  const started = resumed ?? (await begin(uploads, await newFile(staging, source, size, signal), source, signal))
  const { token, committedOffset, complete } = started
  const { parts, file } = token
  return resumableUpload({
    token: JSON.stringify(token),
    size,
    partLength: parts?.length ?? uploads.partLength(size),
    committedOffset,
    maxParts: maxOssParts,
    parallel: 1,
    send: parts ? uploads.sender(parts) : async () => undefined,
    commit: async () => {
      const id = await files.stored(file, (item) => isContentOf(file, item), complete)
      return files.publish(path, id, { ...file, replaces: staging.replaces }, options)
    },
    signal,
  })
}

async function newFile(
  { folder, name }: Staging,
  source: Source,
  size: number,
  signal: AbortSignal | undefined,
): Promise<NewFile> {
  return { folder, name, size, sha1: await digestOf(source, 'sha1', signal) }
}

/** Discards what is left of an upload. */
export async function dropResumable({ files, uploads }: Parts, text: string, options: CallOptions = {}): Promise<void> {
  const token = parseToken(text)
  if (!token) return
  const { file, parts } = token
  if (parts) await uploads.drop(parts)
  const staged = await files.staged(file, options)
  files.abandon(file, staged?.id)
}

async function begin(
  uploads: Open115Uploads,
  file: NewFile,
  source: Source,
  signal: AbortSignal | undefined,
): Promise<Started> {
  const answer = await uploads.offer(file, source, signal)
  if ('storedId' in answer) return complete(file, answer.storedId)
  const { place } = answer
  const { bucket, key, pickCode } = place
  const { id } = await uploads.begin(place, signal)
  const parts = { bucket, key, pickCode, id, length: uploads.partLength(file.size) }
  return {
    token: { file, parts },
    committedOffset: 0,
    complete: () => uploads.complete(file, parts, place, parts.length, signal),
  }
}

/** Undefined if nothing of the earlier upload is of use. */
async function resume(
  { files, uploads }: Parts,
  { file, parts }: Token,
  signal: AbortSignal | undefined,
): Promise<Started | undefined> {
  const open = parts && (await openParts(uploads, file, parts, signal))
  if (parts && open) {
    return {
      token: { file, parts },
      committedOffset: open.bytes,
      complete: () => uploads.complete(file, parts, open.place, parts.length, signal),
    }
  }
  // The earlier run may have completed it, but not published.
  const staged = await files.staged(file, { signal })
  return staged && isContentOf(file, staged) ? complete(file, staged.id) : undefined
}

/** The place and the stored bytes of an upload; undefined if the server or the object store does not know it any more. */
async function openParts(
  uploads: Open115Uploads,
  file: NewFile,
  parts: NonNullable<Token['parts']>,
  signal: AbortSignal | undefined,
): Promise<{ readonly place: UploadPlace; readonly bytes: number } | undefined> {
  try {
    const place = await uploads.offered(file, parts.pickCode, signal)
    if (place.bucket !== parts.bucket || place.key !== parts.key) return undefined
    const bytes = await uploads.storedBytes(file, parts, parts.length, signal)
    return bytes === undefined ? undefined : { place, bytes }
  } catch (error) {
    if (isGatewayError(error, 'not_found', 'invalid')) return undefined
    throw error
  }
}

/** The server has the whole file under its staged name. */
function complete(file: NewFile, id: string): Started {
  return { token: { file }, committedOffset: file.size, complete: async () => id }
}

/** Undefined unless the token names a staged file, so that it cannot refer to any other one. */
function parseToken(text: string): Token | undefined {
  let token: unknown
  try {
    token = JSON.parse(text)
  } catch {
    return undefined
  }
  const textAt = (...keys: readonly string[]) => textOf(field(token, ...keys))
  const file = {
    folder: textAt('file', 'folder'),
    name: textAt('file', 'name'),
    size: numberOf(field(token, 'file', 'size')) ?? 0,
    sha1: textAt('file', 'sha1'),
  }
  if (stagingRun(file.name) === undefined || !/^\d+$/.test(file.folder) || file.size <= 0) return undefined
  const parts = {
    pickCode: textAt('parts', 'pickCode'),
    bucket: textAt('parts', 'bucket'),
    key: textAt('parts', 'key'),
    id: textAt('parts', 'id'),
    length: numberOf(field(token, 'parts', 'length')) ?? 0,
  }
  return parts.id !== '' && parts.length > 0 ? { file, parts } : { file }
}
