/**
 * Files that are written to a drive of 115, by either of its APIs: stored under a staged name, and published when they
 * are complete (drivers/lib/cloud/id-files.ts). Of a file in parts, a later run continues where the object store has
 * parts.
 */
import type { CallOptions, Source, WriteOptions } from '../../src/contract/call-options.js'
import type { Upload, UploadPlan } from '../../src/contract/capabilities.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError, isGatewayError } from '../../src/base/errors.js'
import type { Path } from '../../src/base/path.js'
import { maxOssParts } from '../lib/cloud/aliyun-oss.js'
import type { IdFiles, Staging } from '../lib/cloud/id-files.js'
import type { FileItem } from '../lib/cloud/id-vendor.js'
import { field, numberOf, textOf } from '../lib/json-api/lenient.js'
import { resumableUpload } from '../lib/streams/parts.js'
import { digestOf } from '../lib/streams/source-digest.js'
import { stagingRun } from '../lib/staged-files/staged-names.js'
import type { HashUploads, HashedFile, UploadPlace } from './hash-uploads.js'

export interface HashedItem extends FileItem {
  /** The size in bytes. */
  readonly size: number
  /** Lower-case hexadecimal; undefined for a folder. */
  readonly sha1: string | undefined
}

/** The facts of an upload that a later run needs. Their text is the resume token. */
interface Token {
  readonly file: HashedFile
  /** Absent if the server has the file without its bytes. */
  readonly parts?: Parts
}

interface Parts {
  readonly place: UploadPlace
  /** The id that the object store has given to the upload. */
  readonly id: string
  /** Bytes of each part but the last. */
  readonly length: number
}

/** An upload that was begun, or resumed. */
interface Started {
  readonly token: Token
  readonly committedOffset: number
  /** Resolves to the id of the staged file. */
  readonly complete: () => Promise<string>
}

export class Writing115<Item extends HashedItem> {
  constructor(
    private readonly files: IdFiles<Item>,
    private readonly uploads: HashUploads,
  ) {}

  /** See `Driver.write`. The source can be read more than once. */
  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    const { files, uploads } = this
    const { signal } = options
    const { size } = source
    if (size === undefined) throw new GatewayError('unsupported', { detail: 'size_required' })
    const staging = await files.stage(path, options)
    let id: string | undefined
    try {
      const file = await newFile(staging, source, size, signal)
      const store = async () => {
        const answer = await uploads.offer(file, source, signal)
        return 'place' in answer ? uploads.send(file, source, answer.place, signal) : answer.storedId
      }
      id = await files.stored(staging, (item) => isContentOf(file, item), store)
      return await files.publish(path, id, staging, contentOf(file), options)
    } catch (error) {
      files.abandon(staging, id)
      throw error
    }
  }

  /** See `Driver.upload`. Rejects with `unsupported` for an empty file, which has no parts. */
  async upload(path: Path, plan: UploadPlan, options: WriteOptions = {}): Promise<Upload> {
    const { files, uploads } = this
    const { size, source, resumeToken } = plan
    const { signal } = options
    if (!source || size === 0) throw new GatewayError('unsupported')
    const staging = await files.stage(path, options)
    const earlier = resumeToken === undefined ? undefined : parseToken(resumeToken)
    const isSame = earlier?.file.size === size && earlier.file.folder === staging.folder
    const resumed = isSame ? await this.#resume(earlier, signal) : undefined
    if (!resumed && resumeToken !== undefined) await this.drop(resumeToken, { signal })
    const started = resumed ?? (await this.#begin(await newFile(staging, source, size, signal), source, signal))
    const { token, committedOffset, complete } = started
    const { parts, file } = token
    return resumableUpload({
      token: JSON.stringify(token),
      size,
      partLength: parts?.length ?? uploads.partLength(size),
      committedOffset,
      maxParts: maxOssParts,
      parallel: 1,
      send: parts ? uploads.sender({ ...parts.place, id: parts.id }) : async () => undefined,
      commit: async () => {
        const id = await files.stored(file, (item) => isContentOf(file, item), complete)
        return files.publish(path, id, { ...file, replaces: staging.replaces }, contentOf(file), options)
      },
      signal,
    })
  }

  /** Discards what is left of the upload of a token. Any other token is ignored. */
  async drop(text: string, options: CallOptions = {}): Promise<void> {
    const token = parseToken(text)
    if (!token) return
    const { file, parts } = token
    if (parts) await this.uploads.drop({ ...parts.place, id: parts.id })
    const staged = await this.files.staged(file, options)
    this.files.abandon(file, staged?.id)
  }

  async #begin(file: HashedFile, source: Source, signal: AbortSignal | undefined): Promise<Started> {
    const { files, uploads } = this
    const offer = () => uploads.offer(file, source, signal)
    const answer = await files.stored(file, (item) => isContentOf(file, item), offer)
    if (typeof answer === 'string') return completed(file, answer)
    if ('storedId' in answer) return completed(file, answer.storedId)
    const { place } = answer
    const upload = await uploads.begin(place, signal)
    const length = uploads.partLength(file.size)
    return {
      token: { file, parts: { place, id: upload.id, length } },
      committedOffset: 0,
      complete: () => uploads.complete(file, upload, place, length, signal),
    }
  }

  /** Undefined if nothing of the earlier upload is of use. */
  async #resume({ file, parts }: Token, signal: AbortSignal | undefined): Promise<Started | undefined> {
    const open = parts && (await this.#openParts(file, parts, signal))
    if (parts && open) {
      const { place } = open
      const complete = () => this.uploads.complete(file, { ...place, id: parts.id }, place, parts.length, signal)
      return { token: { file, parts: { ...parts, place } }, committedOffset: open.bytes, complete }
    }
    // The earlier run may have completed it, but not published.
    const staged = await this.files.staged(file, { signal })
    return staged && isContentOf(file, staged) ? completed(file, staged.id) : undefined
  }

  /**
   * The place and the stored bytes of an upload; undefined if the server or the object store does not know it any more.
   */
  async #openParts(
    file: HashedFile,
    { place: earlier, id, length }: Parts,
    signal: AbortSignal | undefined,
  ): Promise<{ readonly place: UploadPlace; readonly bytes: number } | undefined> {
    try {
      const place = await this.uploads.offered(file, earlier, signal)
      if (place.bucket !== earlier.bucket || place.key !== earlier.key) return undefined
      const bytes = await this.uploads.storedBytes(file, { ...place, id }, length, signal)
      return bytes === undefined ? undefined : { place, bytes }
    } catch (error) {
      if (isGatewayError(error, 'not_found', 'invalid')) return undefined
      throw error
    }
  }
}

async function newFile(
  { folder, name }: Staging,
  source: Source,
  size: number,
  signal: AbortSignal | undefined,
): Promise<HashedFile> {
  return { folder, name, size, sha1: await digestOf(source, 'sha1', signal) }
}

/** The server has the whole file under its staged name. */
function completed(file: HashedFile, id: string): Started {
  return { token: { file }, committedOffset: file.size, complete: async () => id }
}

function contentOf({ size, sha1 }: HashedFile) {
  return { size, revision: sha1, hashes: { sha1 } }
}

function isContentOf({ size, sha1 }: HashedFile, item: HashedItem): boolean {
  return item.kind === 'file' && item.size === size && item.sha1 === sha1
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
  const placeText = (...keys: readonly string[]) => textAt('parts', 'place', ...keys)
  const parts = {
    place: {
      bucket: placeText('bucket'),
      key: placeText('key'),
      pickCode: placeText('pickCode'),
      callback: { callback: placeText('callback', 'callback'), callbackVar: placeText('callback', 'callbackVar') },
    },
    id: textAt('parts', 'id'),
    length: numberOf(field(token, 'parts', 'length')) ?? 0,
  }
  return parts.id !== '' && parts.length > 0 ? { file, parts } : { file }
}
