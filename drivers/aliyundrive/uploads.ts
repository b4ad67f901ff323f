/** Uploads to Aliyundrive: files that it knows already, and parts that are sent in order to signed URLs. */
import type { Readable } from 'node:stream'
import { createHash } from 'node:crypto'
import type { Source } from '../../src/contract/call-options.js'
import { isGatewayError } from '../../src/base/errors.js'
import { byteSource } from '../../src/contract/sources.js'
import { ossAnswer, ossCodeOf, withOssRetries } from '../lib/cloud/aliyun-oss.js'
import { PartLinks } from '../lib/cloud/lease.js'
import { field, numberOf, textOf } from '../lib/json-api/lenient.js'
import type { Renewal } from '../lib/json-api/renewal.js'
import type { HttpClient } from '../lib/http/http-client.js'
import { isNetworkFailure } from '../lib/network-errors.js'
import { BodyReader, contiguousParts, sendParts, withBody, type SendPart } from '../lib/streams/parts.js'
import { RequestBody } from '../lib/http/request-body.js'
import { rangeOf } from '../lib/cloud/source-range.js'
import type { BegunUpload, DriveApi, FilePlace } from './drive-api.js'
import { hasCode, isRefusal, isUnanswered, protocolViolation } from './errors.js'
import { isComplete, type AliyundriveItem } from './items.js'
import type { TokenPair } from './tokens.js'

interface AliyundriveUploadsOptions {
  readonly api: DriveApi
  readonly http: HttpClient
  /** The client for the internal network of Aliyun; undefined: it is not used. */
  readonly internalHttp: HttpClient | undefined
  readonly renewal: Renewal<TokenPair>
  /** Whether files that the server knows are not sent. */
  readonly isRapid: boolean
  /** Bytes of each part but the last of a file of this size. */
  readonly partLength: (size: number) => number
}

/** A file to upload, and its place. */
export interface UploadedFile extends FilePlace {
  readonly size: number
  /** Undefined if the content cannot be read again for its hashes: it is then sent, and never found by its hash. */
  readonly source: Source | undefined
  readonly modified: Date | undefined
}

/** An upload of an earlier run, and what of it is stored. */
export interface ResumedUpload {
  readonly upload: BegunUpload
  /** Bytes that are stored. */
  readonly stored: number
}

export const maxParts = 10_000
/** Milliseconds for which the URLs of parts are used, of the hour for which they are valid. */
const linkLifetime = 50 * 60_000
/** Number of parts whose URLs are requested together. */
const linkBatch = 100

const publicAddress = 'https://cn-beijing-data.aliyundrive.net/'
/** The address of this store in the internal network of Aliyun, which has no TLS. */
export const internalAddress = 'http://ccp-bj29-bj-1592982087.oss-cn-beijing-internal.aliyuncs.com/'

export class AliyundriveUploads {
  constructor(private readonly options: AliyundriveUploadsOptions) {}

  /** Bytes of each part but the last of a file of this size. Throws `too_large`. */
  partLengthOf(size: number): number {
    return this.options.partLength(size)
  }

  /** Begins an upload. Undefined if the server may know the file: `beginKnown` asks for it. */
  async begin(file: UploadedFile, signal: AbortSignal | undefined): Promise<BegunUpload | undefined> {
    const { source, size } = file
    const asks = this.options.isRapid && source?.rereadable === true && size > maxUnasked
    const preHash = asks ? await headSha1Of(source, signal) : undefined
    try {
      return await this.options.api.beginUpload(
        { ...this.#newFile(file), ...(preHash !== undefined && { preHash }) },
        signal,
      )
    } catch (error) {
      if (preHash === undefined || !hasCode(error, 'PreHashMatched')) throw error
      return undefined
    }
  }

  /**
   * Asks for a file that the server may know. If it does, the answer may already show the file; otherwise it is an
   * upload of a file that has to be sent. `sha1`: its digest. `oldId`: of the file that it replaces.
   */
  async beginKnown(
    file: UploadedFile & { readonly source: Source },
    sha1: string,
    oldId: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<BegunUpload> {
    const { api, renewal } = this.options
    for (let isLast = false; ; isLast = true) {
      const pair = await renewal.get(signal)
      const known = { sha1, proof: await proofOf(file.source, pair.access, signal) }
      const wasRenewed = () => renewal.current !== pair
      try {
        const begun = await api.beginUpload({ ...this.#newFile(file), known }, signal)
        // The proof was one for the token before.
        if (begun.isKnown || isLast || !wasRenewed()) return begun
      } catch (error) {
        const made = isUnanswered(error) ? await this.#madeOf(file, sha1, oldId, signal) : undefined
        if (made) return made
        if (isLast || !wasRenewed() || !isRefusal(error)) throw error
      }
    }
  }

  /** The file that a call has made whose answer was lost. */
  #madeOf(
    { folder, name }: UploadedFile,
    sha1: string,
    oldId: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<BegunUpload | undefined> {
    const madeOf = (item: AliyundriveItem): BegunUpload | undefined => {
      if (item.name !== name || item.sha1 !== sha1 || item.id === oldId) return undefined
      return { fileId: item.id, uploadId: '', isKnown: true, links: new Map() }
    }
    return this.options.api.find(folder, madeOf, signal)
  }

  /**
   * Returns the upload of such a file that an earlier run has begun; undefined if there is none that can be continued.
   */
  async resume(
    token: string,
    { folder, name, size }: UploadedFile,
    signal: AbortSignal | undefined,
  ): Promise<ResumedUpload | undefined> {
    const earlier = parseToken(token)
    if (earlier?.folder !== folder || earlier.name !== name || earlier.size !== size) return undefined
    try {
      const { bytes } = await contiguousParts(
        this.options.api.uploadedParts(earlier, signal),
        this.partLengthOf(size),
        size,
      )
      return { upload: { ...earlier, isKnown: false, links: new Map() }, stored: bytes }
    } catch (error) {
      if (isGatewayError(error, 'aborted') || !isRefusal(error)) throw error
      return undefined
    }
  }

  /** Sends the whole file. */
  async send(upload: BegunUpload, size: number, body: Readable, signal: AbortSignal | undefined): Promise<void> {
    const layout = { partLength: () => this.partLengthOf(size), maxParts, parallel: 1, firstPart: 1 }
    await withBody(body, signal, () => sendParts(new BodyReader(body, size), layout, this.sender(upload, size), signal))
  }

  /** Sends single parts of a file of this size. */
  sender(upload: BegunUpload, size: number): SendPart {
    const { api } = this.options
    const links = new PartLinks<string>({
      request: (parts) => api.uploadLinks(upload, parts),
      initial: upload.links,
      batch: linkBatch,
      count: this.#partCountOf(size),
      lifetime: linkLifetime,
      // A store that refuses a URL may end the connection before its answer has arrived.
      isExpired: (error) => isGatewayError(error, 'denied') || isNetworkFailure(error),
    })
    return (part, bytes, signal) => links.use(part, (link) => this.#put(link, bytes, signal), signal)
  }

  /** Gives the file its name. Resolves to it as its folder lists it. */
  async complete(upload: BegunUpload, folder: string, signal: AbortSignal | undefined): Promise<AliyundriveItem> {
    const { api } = this.options
    const find = () => api.find(folder, (item) => (item.id === upload.fileId ? item : undefined), signal)
    let completed: AliyundriveItem | undefined
    try {
      // Without an id, the file was found in its folder.
      completed = upload.uploadId === '' ? undefined : await api.completeUpload(upload, signal)
    } catch (error) {
      if (signal?.aborted === true) throw error
      // The answer may have been lost; then the server does not know the upload any more when it is asked again.
      const found = await find()
      if (!found) throw error
      return found
    }
    if (completed?.id === upload.fileId && isComplete(completed)) return completed
    const found = await find()
    if (!found) throw protocolViolation('does not list the file that it has stored')
    return found
  }

  #newFile({ folder, name, size, modified }: UploadedFile) {
    return { folder, name, size, parts: this.#partCountOf(size), modified: modified ?? new Date() }
  }

  #partCountOf(size: number): number {
    return Math.ceil(size / this.partLengthOf(size))
  }

  #put(link: string, bytes: Buffer, signal: AbortSignal): Promise<void> {
    const { internalHttp } = this.options
    const isInternal = internalHttp !== undefined && link.startsWith(publicAddress)
    const url = isInternal ? internalAddress + link.slice(publicAddress.length) : link
    if (!URL.canParse(url)) throw protocolViolation('sent no URL for a part')
    const http = isInternal ? internalHttp : this.options.http
    return withOssRetries(async () => {
      const body = new RequestBody(byteSource(bytes), signal)
      const response = await http.request({ method: 'PUT', url: new URL(url), body, signal, follow: false })
      try {
        await ossAnswer(response)
      } catch (error) {
        // It has the part: the answer to an earlier attempt was lost.
        if (response.status !== 409 || ossCodeOf(error) === 'PartNotSequential') throw error
      }
    }, signal)
  }
}

/** The token by which a later run finds the upload. */
export function tokenOf({ fileId, uploadId }: BegunUpload, { folder, name, size }: UploadedFile): string {
  return JSON.stringify({ fileId, uploadId, folder, name, size })
}

function parseToken(token: string) {
  try {
    const value: unknown = JSON.parse(token)
    const [fileId, uploadId, folder, name] = ['fileId', 'uploadId', 'folder', 'name'].map((key) =>
      textOf(field(value, key)),
    )
    if (!fileId || !uploadId || !folder || !name) return undefined
    return { fileId, uploadId, folder, name, size: numberOf(field(value, 'size')) }
  } catch {
    return undefined
  }
}

// What Aliyundrive asks for before it gives a file that it knows to a client that does not send it: the SHA-1 of the
// beginning, then the SHA-1 of the whole file and eight bytes of it. Where these are depends on the access token.

/** Maximum bytes of a file that is sent without asking. */
const maxUnasked = 100 * 1024
const headLength = 1024
const proofLength = 8

/** SHA-1 of the first KiB, in hexadecimal. */
async function headSha1Of(source: Source, signal: AbortSignal | undefined): Promise<string> {
  const head = await rangeOf(source, 0, headLength, signal)
  return createHash('sha1').update(head).digest('hex')
}

/** Returns the offset in a file of this size at which its proof begins. */
export function proofOffset(accessToken: string, size: number): number {
  if (size === 0) return 0
  const digest = createHash('md5').update(accessToken).digest('hex')
  return Number(BigInt(`0x${digest.slice(0, 16)}`) % BigInt(size))
}

/** The proof, in base64. */
async function proofOf(source: Source, accessToken: string, signal: AbortSignal | undefined): Promise<string> {
  const offset = proofOffset(accessToken, source.size ?? 0)
  return (await rangeOf(source, offset, proofLength, signal)).toString('base64')
}
