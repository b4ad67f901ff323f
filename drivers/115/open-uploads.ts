/**
 * Uploads by 115's official API: the digest first, then a proof if the server has the file already, otherwise parts in order
 * to the object store, which calls the server back.
 */
import { createHash } from 'node:crypto'
import type { Source } from '../../src/contract/call-options.js'
import { GatewayError } from '../../src/contract/errors.js'
import {
  AliyunOss,
  maxOssParts,
  ossCodeOf,
  type OssCallback,
  type OssToken,
  type OssUpload,
} from '../lib/aliyun-oss.js'
import { field, flagOf, listOf, numberOf, textOf } from '../lib/api/lenient.js'
import { rangeOf } from '../lib/api/source-range.js'
import type { HttpClient } from '../lib/http-client.js'
import { BodyReader, contiguousParts, sendParts, withBody } from '../lib/parts.js'
import { partLengthOf } from '../lib/part-length.js'
import type { Open115Api } from './open-api.js'
import { errorOf, Open115Answer, protocolViolation, serverName } from './open-errors.js'

/** A file that is to be stored. */
export interface NewFile {
  /** Id of its folder. */
  readonly folder: string
  readonly name: string
  /** Bytes. */
  readonly size: number
  /** Lower-case hexadecimal. */
  readonly sha1: string
}

/** Where the server wants the bytes of a file. */
export interface UploadPlace {
  readonly bucket: string
  readonly key: string
  /** Identifies the upload to the server. */
  readonly pickCode: string
  readonly callback: OssCallback
}

/** What the server wants of a file: nothing, because it has it and has made a file with this id, or its bytes. */
export type UploadAnswer = { readonly storedId: string } | { readonly place: UploadPlace }

/** Bytes of the beginning of a file whose digest the server wants. */
const preLength = 128 * 1024
/** Bytes of the largest file that is sent in one request, and held in memory for it. */
const maxSingle = 10 * 1024 ** 2
/** How often the server may want another proof. */
const maxProofs = 3
const userAgent = 'aliyun-sdk-android/2.9.1'

export class Open115Uploads {
  readonly #oss: AliyunOss

  constructor(
    private readonly api: Open115Api,
    http: HttpClient,
    /** Bytes of each part but the last of a file of this size. */
    readonly partLength: (size: number) => number = partLengthOf,
  ) {
    this.#oss = new AliyunOss({ http, userAgent, requestToken: () => this.#requestToken() })
  }

  /** Offers a file to the server, and proves that it is there. */
  async offer(file: NewFile, source: Source, signal: AbortSignal | undefined): Promise<UploadAnswer> {
    const { name, size } = file
    const facts = {
      file_name: name,
      file_size: size,
      ...identityOf(file),
      preid: upperSha1(await rangeOf(source, 0, preLength, signal)),
    }
    let proof: { readonly sign_key: string; readonly sign_val: string } | undefined
    for (let proofs = 0; proofs <= maxProofs; proofs++) {
      const { data } = await this.api.change('/open/upload/init', { ...facts, ...proof }, { signal })
      const status = numberOf(field(data, 'status'))
      if (status === 2) return { storedId: storedId(data) }
      if (status === 1) return { place: placeOf(data) }
      if (status === undefined || ![6, 7, 8].includes(status)) throw protocolViolation('refuses the upload')
      const { key, first, last } = challengeOf(data, size)
      proof = { sign_key: key, sign_val: upperSha1(await rangeOf(source, first, last - first + 1, signal)) }
    }
    throw new GatewayError('invalid', { reason: `the ${serverName} does not believe that the file has its digest` })
  }

  /** Where the server wants the bytes of a file that was offered before. Rejects with `not_found` if it has forgotten it. */
  async offered(file: NewFile, pickCode: string, signal: AbortSignal | undefined): Promise<UploadPlace> {
    const fields = { file_size: file.size, ...identityOf(file), pick_code: pickCode }
    const { data } = await this.api.change('/open/upload/resume', fields, { signal, repeatable: true })
    return placeOf(data)
  }

  /** Sends a whole file. Resolves to its id. */
  async send(file: NewFile, source: Source, place: UploadPlace, signal: AbortSignal | undefined): Promise<string> {
    const { size } = file
    if (size <= maxSingle) {
      const bytes = await rangeOf(source, 0, size, signal)
      return this.#result(file, await this.#oss.put(place, bytes, place.callback, signal))
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
    { size }: NewFile,
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
    file: NewFile,
    upload: OssUpload,
    { callback }: UploadPlace,
    partLength: number,
    signal: AbortSignal | undefined,
  ): Promise<string> {
    const { parts, bytes } = await contiguousParts(this.#oss.parts(upload, signal), partLength, file.size)
    if (bytes !== file.size)
      throw new GatewayError('unavailable', { reason: 'the object store lacks parts of the file' })
    return this.#result(file, await this.#oss.complete(upload, parts, callback, signal))
  }

  /** Discards the parts of an upload. Never rejects: the object store discards what nobody completes. */
  async drop(upload: OssUpload): Promise<void> {
    await this.#oss.abort(upload, undefined).catch(() => undefined)
  }

  /** The id of the file that the server has made of an object. It may refuse it although the object store has it. */
  #result({ sha1 }: NewFile, answer: unknown): string {
    if (!flagOf(field(answer, 'state'))) {
      throw errorOf(new Open115Answer(textOf(field(answer, 'code')), textOf(field(answer, 'message'))))
    }
    const data = field(answer, 'data')
    const stored = textOf(field(data, 'sha1')).toLowerCase()
    if (stored !== '' && stored !== sha1) throw protocolViolation('stored other bytes than were sent')
    return storedId(data)
  }

  async #requestToken(): Promise<OssToken> {
    const { data } = await this.api.get('/open/upload/get_token', {}, {})
    const token = {
      id: textOf(field(data, 'AccessKeyId')),
      secret: textOf(field(data, 'AccessKeySecret')),
      securityToken: textOf(field(data, 'SecurityToken')),
      endpoint: textOf(field(data, 'endpoint')),
    }
    if (Object.values(token).includes('')) throw protocolViolation('sent no token for the object store')
    return token
  }
}

/** By what the server recognizes an upload. */
function identityOf({ folder, sha1 }: NewFile) {
  return { target: `U_1_${folder}`, fileid: sha1.toUpperCase() }
}

function placeOf(data: unknown): UploadPlace {
  const callbacks = field(data, 'callback')
  const callback = Array.isArray(callbacks) ? listOf(callbacks)[0] : callbacks
  const place = {
    bucket: textOf(field(data, 'bucket')),
    key: textOf(field(data, 'object')),
    pickCode: textOf(field(data, 'pick_code')),
    callback: {
      callback: textOf(field(callback, 'callback')),
      callbackVar: textOf(field(callback, 'callback_var')),
    },
  }
  if (place.bucket === '' || place.key === '' || place.callback.callback === '') {
    throw protocolViolation('named no place for the upload')
  }
  return place
}

function storedId(data: unknown): string {
  const id = textOf(field(data, 'file_id'))
  if (id === '') throw protocolViolation('sent no id of the new file')
  return id
}

/** The range whose digest the server wants: both positions are part of it. */
function challengeOf(data: unknown, size: number) {
  const [, first, last] = /^(\d+)-(\d+)$/.exec(textOf(field(data, 'sign_check'))) ?? []
  const range = { key: textOf(field(data, 'sign_key')), first: Number(first), last: Number(last) }
  if (range.key === '' || !(range.first <= range.last && range.last < size)) {
    throw protocolViolation('wants a proof of bytes that the file does not have')
  }
  return range
}

function upperSha1(bytes: Buffer): string {
  return createHash('sha1').update(bytes).digest('hex').toUpperCase()
}
