/**
 * Uploads to 115, by either of its APIs: the digest first, then a proof if the server has the file already, otherwise
 * the bytes to the object store, which calls the server back.
 */
import { createHash } from 'node:crypto'
import type { Source } from '../../src/contract/call-options.js'
import { GatewayError } from '../../src/base/errors.js'
import {
  AliyunOss,
  maxOssParts,
  ossCodeOf,
  type OssCallback,
  type OssToken,
  type OssUpload,
} from '../lib/cloud/aliyun-oss.js'
import { rangeOf } from '../lib/cloud/source-range.js'
import type { HttpClient } from '../lib/http/http-client.js'
import { partLengthOf } from '../lib/cloud/part-length.js'
import { BodyReader, contiguousParts, sendParts, withBody } from '../lib/streams/parts.js'

/** A file that is to be stored. */
export interface HashedFile {
  /** The id of the folder of the file. */
  readonly folder: string
  readonly name: string
  /** The size in bytes. */
  readonly size: number
  /** The SHA-1 in lower-case hexadecimal. */
  readonly sha1: string
}

/** The place in the object store to which the server wants the bytes of a file. */
export interface UploadPlace {
  readonly bucket: string
  readonly key: string
  /** Identifies the upload to the server; empty if its API has no call for that. */
  readonly pickCode: string
  readonly callback: OssCallback
}

/** A range of a file, both positions included, whose digest proves that the client has the file. */
export interface Challenge {
  readonly key: string
  readonly first: number
  readonly last: number
}

export interface Proof {
  readonly key: string
  /** The digest in upper-case hexadecimal. */
  readonly digest: string
}

/**
 * The answer to the offer of a file. `storedId`: the server has the bytes, and has made a file with this id. `place`:
 * the server wants the bytes.
 */
export type UploadAnswer = { readonly storedId: string } | { readonly place: UploadPlace }

export type Offer = (proof: Proof | undefined) => Promise<UploadAnswer | { readonly challenge: Challenge }>

/** The calls that differ between the APIs. */
export interface UploadServer {
  /**
   * Prepares to offer a file to the server. Resolves to a function that does it, with the proof for its last answer.
   */
  preparedOffer(file: HashedFile, source: Source, signal: AbortSignal | undefined): Promise<Offer>
  /**
   * Returns the present place for the bytes of a file that an earlier run has offered. Rejects with `not_found` or
   * `invalid` if the server does not want them any more.
   */
  offered(file: HashedFile, place: UploadPlace, signal: AbortSignal | undefined): Promise<UploadPlace>
  /**
   * The id of the file that the server has made of an object, in its answer to the object store. Throws if it refused.
   */
  storedId(file: HashedFile, answer: unknown): string
  requestToken(): Promise<OssToken>
}

/** Maximum bytes of a file that is sent in one request, and held in memory for it. */
const maxSingle = 10 * 1024 ** 2
/** Maximum number of further proofs that the server may ask for. */
const maxProofs = 3
const userAgent = 'aliyun-sdk-android/2.9.1'

export class HashUploads {
  readonly #oss: AliyunOss

  constructor(
    private readonly server: UploadServer,
    http: HttpClient,
    /** Bytes of each part but the last of a file of this size. */
    readonly partLength: (size: number) => number = partLengthOf,
  ) {
    this.#oss = new AliyunOss({ http, userAgent, requestToken: () => server.requestToken() })
  }

  /** Offers a file to the server, and proves that it is there. */
  async offer(file: HashedFile, source: Source, signal: AbortSignal | undefined): Promise<UploadAnswer> {
    const offer = await this.server.preparedOffer(file, source, signal)
    let proof: Proof | undefined
    for (let proofs = 0; proofs <= maxProofs; proofs++) {
      const answer = await offer(proof)
      if (!('challenge' in answer)) return answer
      const { key, first, last } = answer.challenge
      if (!(first <= last && last < file.size)) {
        throw new GatewayError('unavailable', {
          reason: 'the server wants a proof of bytes that the file does not have',
        })
      }
      proof = { key, digest: upperSha1(await rangeOf(source, first, last - first + 1, signal)) }
    }
    throw new GatewayError('invalid', { reason: 'the server does not believe that the file has its digest' })
  }

  offered(file: HashedFile, place: UploadPlace, signal: AbortSignal | undefined): Promise<UploadPlace> {
    return this.server.offered(file, place, signal)
  }

  /** Sends a whole file. Resolves to its id. */
  async send(file: HashedFile, source: Source, place: UploadPlace, signal: AbortSignal | undefined): Promise<string> {
    const { size } = file
    if (size <= maxSingle) {
      const bytes = await rangeOf(source, 0, size, signal)
      return this.server.storedId(file, await this.#oss.put(place, bytes, place.callback, signal))
    }
    const upload = await this.begin(place, signal)
    try {
      const body = await source.read(undefined, { signal })
      const layout = { partLength: () => this.partLength(size), maxParts: maxOssParts, parallel: 1, firstPart: 1 }
      const send = this.sender(upload)
      await withBody(body, signal, () => sendParts(new BodyReader(body, size), layout, send, signal))
      return await this.complete(file, upload, place, this.partLength(size), signal)
    } catch (error) {
      // In the background: the caller may have aborted.
      void this.drop(upload)
      throw error
    }
  }

  async begin({ bucket, key }: UploadPlace, signal: AbortSignal | undefined): Promise<OssUpload> {
    return this.#oss.begin({ bucket, key }, signal)
  }

  /** Sends a part of an upload. */
  sender(upload: OssUpload) {
    return (part: number, bytes: Buffer, signal: AbortSignal) => this.#oss.sendPart(upload, part, bytes, signal)
  }

  /** Bytes that are stored of an upload, from the start; undefined if the object store does not have the upload. */
  async storedBytes(
    { size }: HashedFile,
    upload: OssUpload,
    partLength: number,
    signal: AbortSignal | undefined,
  ): Promise<number | undefined> {
    try {
      return (await contiguousParts(this.#oss.parts(upload, signal), partLength, size)).bytes
    } catch (error) {
      if (ossCodeOf(error) === 'NoSuchUpload') return undefined
      throw error
    }
  }

  /** Makes a file of the parts of an upload. Resolves to its id. */
  async complete(
    file: HashedFile,
    upload: OssUpload,
    { callback }: UploadPlace,
    partLength: number,
    signal: AbortSignal | undefined,
  ): Promise<string> {
    const { parts, bytes } = await contiguousParts(this.#oss.parts(upload, signal), partLength, file.size)
    if (bytes !== file.size)
      throw new GatewayError('unavailable', { reason: 'the object store lacks parts of the file' })
    return this.server.storedId(file, await this.#oss.complete(upload, parts, callback, signal))
  }

  /**
   * Discards the parts of an upload. Never rejects, because the object store discards the parts of uploads that are not
   * completed.
   */
  async drop(upload: OssUpload): Promise<void> {
    await this.#oss.abort(upload, undefined).catch(() => undefined)
  }
}

export function upperSha1(bytes: Buffer): string {
  return createHash('sha1').update(bytes).digest('hex').toUpperCase()
}
