/**
 * The uploads of the double of AliyundriveOpen: rapid ones with their proof, and parts in order, sent to signed URLs.
 */
import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Content, Contents } from '../contents.js'
import { AliyunError, newId, notFound, type AliyunDrives, type AliyunNode } from './drives.js'
import { refuse, type SignedUrls } from './object-store.js'

/** The fields of a `create` call for a file. */
export interface NewFile {
  readonly driveId: string
  readonly parentId: string
  readonly name: string
  readonly size: number
  readonly preHash: string | undefined
  readonly contentHash: string | undefined
  readonly proof: string | undefined
}

export interface AliyunUpload {
  readonly id: string
  readonly fileId: string
  readonly file: NewFile
  /** The parts that have arrived. */
  readonly parts: Content[]
  /** The content of a rapid upload. */
  readonly rapid: Content | undefined
  /** Resolves when no part is arriving. Undefined: none is. */
  receiving: Promise<void> | undefined
}

/** Bytes of each part but the last. */
const minPart = 100 * 1024
const maxParts = 10_000
/** Seconds for which the URL of a part is valid. */
const urlLifetime = 3600
const proofLength = 8
/** Bytes of the beginning of a file whose hash finds candidates for a rapid upload. */
const headLength = 1024

export class AliyunUploads {
  /** What is stored of a file, if the service loses bytes. */
  storesInstead: Content | undefined
  readonly #uploads = new Map<string, AliyunUpload>()

  constructor(
    private readonly drives: AliyunDrives,
    private readonly contents: Contents,
    private readonly urls: SignedUrls,
    /** A rapid upload shows its file at once, not when it is completed. */
    private readonly showsRapidUploads: boolean,
  ) {}

  /** Ids of uploads that are not complete. */
  get unfinished(): readonly string[] {
    return [...this.#uploads.keys()]
  }

  /** Forgets an unfinished upload, as the service does after some days. */
  forget(id: string): void {
    this.#uploads.delete(id)
  }

  /** Begins an upload. Rejects with `PreHashMatched` if the hash of the whole file is needed. */
  async create(file: NewFile, accessToken: string): Promise<AliyunUpload> {
    const { preHash, size, contentHash } = file
    this.drives.assertFolder(file.driveId, file.parentId)
    if (!Number.isSafeInteger(size) || size < 0) throw invalid('Size')
    if (preHash !== undefined && contentHash === undefined && (await this.#knowsHead(preHash, size))) {
      throw new AliyunError(409, 'PreHashMatched', 'Pre hash matched.')
    }
    const known = contentHash === undefined ? undefined : this.contents.find(contentHash)
    const rapid = known?.size === size ? known : undefined
    if (rapid) await this.#assertProof(rapid, file.proof, accessToken)
    const upload: AliyunUpload = {
      id: newId(),
      fileId: newId(),
      file,
      parts: [],
      rapid,
      receiving: undefined,
    }
    if (rapid && this.showsRapidUploads) this.#makeFile(upload, rapid)
    this.#uploads.set(upload.id, upload)
    return upload
  }

  find(driveId: string, fileId: string, uploadId: string): AliyunUpload {
    const upload = this.#uploads.get(uploadId)
    if (upload?.fileId !== fileId || upload.file.driveId !== driveId) throw notFound('UploadId')
    return upload
  }

  /** The URL of a part. */
  urlOf({ id, fileId }: AliyunUpload, part: number): string {
    if (!Number.isInteger(part) || part < 1 || part > maxParts) throw invalid('PartInfoList')
    return this.urls.sign(`/${id}/${fileId}`, 'PUT', urlLifetime, { partNumber: String(part), uploadId: id })
  }

  /** Stores the part that is sent to a signed URL. */
  async receive(request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
    const refusal = this.urls.refusal(request, url)
    if (refusal !== undefined) return refuse(request, response, refusal)
    if (request.headers['content-length'] === undefined) return refuse(request, response, 'MissingContentLength')
    const upload = this.#uploads.get(url.searchParams.get('uploadId') ?? '')
    if (!upload) return refuse(request, response, 'NoSuchUpload')
    const number = Number(url.searchParams.get('partNumber'))
    const { parts } = upload
    // It may still be arriving on a connection that the client has given up.
    if (number === parts.length + 1) await upload.receiving
    if (number <= parts.length) return refuse(request, response, 'PartAlreadyExist')
    if (number !== parts.length + 1 || upload.receiving) return refuse(request, response, 'PartNotSequential')
    upload.receiving = this.#store(upload, request, response)
    await upload.receiving
    upload.receiving = undefined
  }

  /** Never rejects. */
  async #store({ parts }: AliyunUpload, request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const part = await this.contents.receive(request)
      parts.push(part)
      response.writeHead(200, { etag: `"${part.md5}"` }).end()
    } catch {
      // The connection was cut.
      response.destroy()
    }
  }

  /** Makes a file of the upload. */
  async complete(upload: AliyunUpload): Promise<AliyunNode> {
    const { file, parts, rapid } = upload
    if (parts.slice(0, -1).some(({ size }) => size < minPart)) {
      throw new AliyunError(400, 'EntityTooSmall', 'A part is smaller than the minimum.')
    }
    const size = rapid?.size ?? parts.reduce((sum, part) => sum + part.size, 0)
    if (size !== file.size) throw invalid('Size')
    this.#uploads.delete(upload.id)
    if (rapid && this.showsRapidUploads) return this.drives.get(file.driveId, upload.fileId)
    const content = this.storesInstead ?? rapid ?? (await this.contents.join(parts))
    if (file.contentHash !== undefined && content.sha1 !== file.contentHash.toUpperCase()) throw invalid('ContentHash')
    return this.#makeFile(upload, content)
  }

  /** Whether a known content has this size, and this SHA-1 of its first KiB. */
  async #knowsHead(preHash: string, size: number): Promise<boolean> {
    for (const content of this.contents.published()) {
      if (content.size !== size) continue
      const head = await this.contents.range(content, 0, headLength - 1)
      if (createHash('sha1').update(head).digest('hex') === preHash.toLowerCase()) return true
    }
    return false
  }

  async #assertProof(content: Content, proof: string | undefined, accessToken: string): Promise<void> {
    const start = proofOffset(accessToken, content.size)
    const last = Math.min(start + proofLength, content.size) - 1
    const expected = (await this.contents.range(content, start, last)).toString('base64')
    if (proof !== expected) throw new AliyunError(400, 'InvalidRapidProof', 'The proof code is not valid.')
  }

  #makeFile({ file: { driveId, parentId, name }, fileId }: AliyunUpload, content: Content): AliyunNode {
    return this.drives.create(driveId, parentId, name, content, fileId)
  }
}

/** Where the proof for a file of this size comes from. */
export function proofOffset(accessToken: string, size: number): number {
  const digest = createHash('md5').update(accessToken).digest('hex')
  return size === 0 ? 0 : Number(BigInt(`0x${digest.slice(0, 16)}`) % BigInt(size))
}

export function invalid(name: string): AliyunError {
  return new AliyunError(400, `InvalidParameter.${name}`, `The input parameter ${name} is not valid.`)
}
