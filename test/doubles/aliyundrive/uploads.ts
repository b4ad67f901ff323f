/** The uploads of the double of AliyundriveOpen: rapid ones with their proof, and parts in order, sent to signed URLs. */
import { createHash } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { Readable } from 'node:stream'
import type { Content, Contents, GrowingContent } from '../contents.js'
import type { Exchange } from '../exchange.js'
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
  readonly parts: GrowingContent
  readonly etags: string[]
  /** The content of a rapid upload. */
  readonly rapid: Content | undefined
  /** A part is arriving. */
  isReceiving: boolean
}

/** Bytes of each part but the last. */
const minPart = 100 * 1024
const maxParts = 10_000
/** Seconds for which the URL of a part is valid. */
const urlLifetime = 3600
const proofLength = 8

export class AliyunUploads {
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
    if (preHash !== undefined && contentHash === undefined && this.drives.knowsHead(preHash, size)) {
      throw new AliyunError(409, 'PreHashMatched', 'Pre hash matched.')
    }
    const known = contentHash === undefined ? undefined : this.drives.knownBySha1(contentHash)
    const rapid = known?.size === size ? known : undefined
    if (rapid) await assertProof(rapid, file.proof, accessToken)
    const upload = {
      id: newId(),
      fileId: newId(),
      file,
      parts: this.contents.begin(),
      etags: [],
      rapid,
      isReceiving: false,
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
  async receive(exchange: Exchange): Promise<void> {
    const refusal = this.urls.refusal(exchange)
    if (refusal !== undefined) return refuse(exchange, refusal)
    if (exchange.header('content-length') === undefined) return refuse(exchange, 'MissingContentLength')
    const upload = this.#uploads.get(exchange.query.get('uploadId') ?? '')
    if (!upload) return refuse(exchange, 'NoSuchUpload')
    const part = Number(exchange.query.get('partNumber'))
    const { etags } = upload
    if (part <= etags.length) return refuse(exchange, 'PartAlreadyExist')
    if (part !== etags.length + 1 || upload.isReceiving) return refuse(exchange, 'PartNotSequential')
    upload.isReceiving = true
    try {
      const { md5 } = await upload.parts.append(exchange.body())
      etags.push(`"${md5}"`)
    } finally {
      upload.isReceiving = false
    }
    await exchange.answer(200, '', { etag: etags.at(-1) })
  }

  /** The parts that have arrived. */
  storedParts({ parts, etags }: AliyunUpload): readonly object[] {
    return parts.sizes.map((part_size, index) => ({ etag: etags[index], part_number: index + 1, part_size }))
  }

  /** Makes a file of the upload. */
  complete(upload: AliyunUpload): AliyunNode {
    const { file, parts } = upload
    if (parts.sizes.slice(0, -1).some((size) => size < minPart)) {
      throw new AliyunError(400, 'EntityTooSmall', 'A part is smaller than the minimum.')
    }
    const content = upload.rapid ?? parts.finish()
    if (content.size !== file.size) throw invalid('Size')
    if (file.contentHash !== undefined && content.digests.sha1 !== file.contentHash.toUpperCase()) {
      throw invalid('ContentHash')
    }
    const made = upload.rapid && this.showsRapidUploads ? this.drives.get(file.driveId, upload.fileId) : undefined
    const node = made ?? this.#makeFile(upload, content)
    this.#uploads.delete(upload.id)
    return node
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

async function assertProof(content: Content, proof: string | undefined, accessToken: string): Promise<void> {
  const start = proofOffset(accessToken, content.size)
  const end = Math.min(start + proofLength, content.size)
  const expected = (await buffer(Readable.from(content.read(start, end)))).toString('base64')
  if (proof !== expected) throw new AliyunError(400, 'InvalidRapidProof', 'The proof code is not valid.')
}

export function invalid(name: string): AliyunError {
  return new AliyunError(400, `InvalidParameter.${name}`, `The input parameter ${name} is not valid.`)
}
