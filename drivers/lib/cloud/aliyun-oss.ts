/**
 * Uploads to Aliyun's object store: whole objects, and parts in order. The server of a vendor hands out a temporary
 * token for them, or signs each request itself. When an object is complete, the store calls the vendor's server back,
 * whose answer is then the result. Sources: the vendor's API documentation of PutObject, InitiateMultipartUpload,
 * UploadPart, ListParts, CompleteMultipartUpload, AbortMultipartUpload and Callback.
 */
import { createHash, createHmac } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError, isGatewayError, type ErrorCode } from '../../../src/base/errors.js'
import { retryAfter } from '../../../src/base/retry-after.js'
import { byteSource } from '../../../src/contract/sources.js'
import { Lease } from './lease.js'
import { parseJson } from '../json-api/lenient.js'
import type { HttpClient, HttpResponse } from '../http/http-client.js'
import { isNetworkFailure, networkError } from '../network-errors.js'
import type { StoredPart } from '../streams/parts.js'
import { delayAfter, maxPatience } from '../http/repetition.js'
import { RequestBody } from '../http/request-body.js'

export interface OssObject {
  /** Host or address of the store, such as `oss-cn-shenzhen.aliyuncs.com`; default: that of the token. */
  readonly endpoint?: string
  readonly bucket: string
  readonly key: string
}

/** The callback that the vendor's server wants to get, as it wrote it. */
export interface OssCallback {
  readonly callback: string
  readonly callbackVar?: string
}

/** A multipart upload that was begun. */
export interface OssUpload extends OssObject {
  readonly id: string
}

export interface OssPart extends StoredPart {
  readonly etag: string
}

interface OssClientOptions {
  readonly http: HttpClient
  readonly userAgent: string
}

/** The vendor's server hands out tokens. */
interface OssTokenOptions extends OssClientOptions {
  /** Requests a new token. */
  readonly requestToken: () => Promise<OssToken>
}

/** The vendor's server signs each request. */
interface OssSignerOptions extends OssClientOptions {
  /** Resolves to all headers of a request, also those that authorize it. */
  readonly sign: (request: OssSignedRequest, signal: AbortSignal | undefined) => Promise<Headers>
}

type Headers = Readonly<Record<string, string>>

/** Name of the server in error reasons. */
const server = 'object store'
/** Maximum parts of one upload to the object store. */
export const maxOssParts = 10_000
const maxAttempts = 4
/** Maximum bytes of an answer. */
const maxAnswer = 4 * 1024 * 1024
const partsPerPage = 1000
/** Milliseconds for which a token is used, of the hour for which it is valid. */
const tokenLifetime = 50 * 60_000
/** Milliseconds before its end at which a token is not used any more; each one is used for as long. */
const tokenMargin = 60_000

/** An answer of the store with an error code. */
class OssError extends Error {
  constructor(
    readonly code: string,
    readonly status: number,
  ) {
    super(`the ${server} answered ${code} with status ${status}`)
  }

  /** Whether the same request may succeed later. */
  get isTransient(): boolean {
    return this.status === 429 || this.status >= 500
  }
}

/**
 * Whether the store does not accept what authorizes a request, such as a token, a signature or a URL that has expired:
 * the codes for that differ, and a connection may end before the code arrives.
 */
export function isUnauthorized(error: unknown): boolean {
  return isGatewayError(error) && error.cause instanceof OssError && [401, 403].includes(error.cause.status)
}

/** The error code of the store's answer that is the cause of an error; undefined for other errors. */
export function ossCodeOf(error: unknown): string | undefined {
  return isGatewayError(error) && error.cause instanceof OssError ? error.cause.code : undefined
}

export class AliyunOss {
  /** Calls `send` with the headers of a request, also those that authorize it. */
  readonly #authorized: (
    request: OssSignedRequest,
    send: (headers: Headers, token?: OssToken) => Promise<OssAnswer>,
    signal: AbortSignal | undefined,
  ) => Promise<OssAnswer>

  constructor(private readonly options: OssTokenOptions | OssSignerOptions) {
    if ('sign' in options) {
      this.#authorized = async (request, send, signal) => {
        try {
          return await send(await options.sign(request, signal))
        } catch (error) {
          if (!isUnauthorized(error)) throw error
          const date = new Date().toUTCString()
          return send(await options.sign({ ...request, headers: { ...request.headers, date } }, signal))
        }
      }
      return
    }
    const tokens = new Lease({
      request: options.requestToken,
      lifetime: ({ until }) => Math.min(tokenLifetime, Math.max(tokenMargin, leftUntil(until) - tokenMargin)),
      isExpired: isUnauthorized,
    })
    this.#authorized = (request, send, signal) =>
      tokens.use((token) => send(signedHeaders(request, token), token), signal)
  }

  /**
   * Stores a whole object. Resolves to the answer of the vendor's server, in JSON. It is not repeated: if the
   * connection is lost, the object may be complete or not.
   */
  async put(
    object: OssObject,
    bytes: Buffer,
    callback: OssCallback,
    signal: AbortSignal | undefined,
  ): Promise<unknown> {
    const headers = { 'content-type': 'application/octet-stream', ...callbackHeaders(callback) }
    return callbackResult(await this.#send({ ...object, method: 'PUT', query: {}, headers, bytes }, signal))
  }

  /** Begins an upload whose parts must be sent in order, one after the other. */
  async begin(object: OssObject, signal: AbortSignal | undefined): Promise<OssUpload> {
    const query = { uploads: '', sequential: '', 'x-oss-enable-sha1': '' }
    const headers = { 'content-type': 'application/octet-stream' }
    const answer = await this.#repeated({ ...object, method: 'POST', query, headers, bytes: Buffer.alloc(0) }, signal)
    const id = elementOf(answer.text, 'UploadId')
    if (id === undefined) throw new GatewayError('unavailable', { reason: `the ${server} began no upload` })
    return { ...object, id }
  }

  /**
   * Resolves when the part is stored. Sends it again after transient failures, also if its answer was lost: a part that
   * is stored already counts as sent. Its tag is its MD5 digest.
   */
  async sendPart(upload: OssUpload, number: number, bytes: Buffer, signal: AbortSignal | undefined): Promise<OssPart> {
    const query = { partNumber: String(number), uploadId: upload.id }
    try {
      const { etag } = await this.#repeated({ ...upload, method: 'PUT', query, headers: {}, bytes }, signal)
      return { number, size: bytes.length, etag: etag.replace(/"/g, '') }
    } catch (error) {
      // The answer to an earlier attempt was lost.
      if (ossCodeOf(error) !== 'PartAlreadyExist') throw error
      const etag = createHash('md5').update(bytes).digest('hex').toUpperCase()
      return { number, size: bytes.length, etag }
    }
  }

  /**
   * The stored parts, by ascending number. Rejects with the code `NoSuchUpload` (`ossCodeOf`) if there is no such
   * upload.
   */
  async *parts(upload: OssUpload, signal: AbortSignal | undefined): AsyncGenerator<OssPart> {
    let marker = '0'
    for (;;) {
      const query = { uploadId: upload.id }
      const page = { 'max-parts': String(partsPerPage), 'part-number-marker': marker }
      const { text } = await this.#repeated({ ...upload, method: 'GET', query, page, headers: {} }, signal)
      const [, ...parts] = text.split('<Part>')
      for (const part of parts) yield partOf(part)
      const next = elementOf(text, 'NextPartNumberMarker') ?? ''
      if (elementOf(text, 'IsTruncated') !== 'true' || parts.length === 0 || next === marker) return
      marker = next
    }
  }

  /** Makes the object of these parts. Resolves and rejects as `put`. */
  async complete(
    upload: OssUpload,
    parts: readonly OssPart[],
    callback: OssCallback,
    signal: AbortSignal | undefined,
  ): Promise<unknown> {
    const items = parts.map(
      ({ number, etag }) => `<Part><PartNumber>${number}</PartNumber><ETag>"${escapeXml(etag)}"</ETag></Part>`,
    )
    const bytes = Buffer.from(`<CompleteMultipartUpload>${items.join('')}</CompleteMultipartUpload>`)
    const digest = createHash('md5').update(bytes).digest('base64')
    const headers = { 'content-type': 'application/xml', 'content-md5': digest, ...callbackHeaders(callback) }
    const query = { uploadId: upload.id }
    return callbackResult(await this.#send({ ...upload, method: 'POST', query, headers, bytes }, signal))
  }

  /** Discards the parts of an upload. One that does not exist is no error. */
  async abort(upload: OssUpload, signal: AbortSignal | undefined): Promise<void> {
    try {
      await this.#repeated({ ...upload, method: 'DELETE', query: { uploadId: upload.id }, headers: {} }, signal)
    } catch (error) {
      if (ossCodeOf(error) !== 'NoSuchUpload') throw error
    }
  }

  #repeated(request: OssRequest, signal: AbortSignal | undefined): Promise<OssAnswer> {
    return withOssRetries(() => this.#send(request, signal), signal)
  }

  async #send(request: OssRequest, signal: AbortSignal | undefined): Promise<OssAnswer> {
    const { method, bucket, key, query, page = {}, bytes } = request
    const send = async (headers: Headers, token?: OssToken): Promise<OssAnswer> => {
      const response = await this.options.http.request({
        method,
        url: new URL(`${addressOf(request, token)}${queryOf({ ...query, ...page })}`),
        headers,
        // A text would be sent again on a new connection if an old one is lost, also what must not be repeated.
        ...(bytes && { body: new RequestBody(byteSource(bytes), signal) }),
        signal,
        follow: false,
        repeatable: false,
      })
      return { text: await ossAnswer(response), etag: response.headers.etag ?? '' }
    }
    const headers = { ...request.headers, date: new Date().toUTCString(), 'user-agent': this.options.userAgent }
    return this.#authorized({ method, bucket, key, query, headers }, send, signal)
  }
}

interface OssRequest extends OssSignedRequest, OssObject {
  /** Query parameters that are not part of the signature. */
  readonly page?: Readonly<Record<string, string>>
  readonly bytes?: Buffer
}

interface OssAnswer {
  readonly text: string
  /** The ETag of the answer; empty if there is none. */
  readonly etag: string
}

/** Calls `send`, again after transient failures. */
export async function withOssRetries<T>(send: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await send()
    } catch (error) {
      if (attempt === maxAttempts || !isTransient(error)) throw error
      const kind = error.cause instanceof OssError ? 'status' : 'connection'
      const delay = delayAfter(attempt, kind, error.retryAfter)
      if (delay > maxPatience) throw error
      await waitFor(delay, signal)
    }
  }
}

/** The text of a successful answer of the store. Rejects with the error of any other (`ossCodeOf`). */
export async function ossAnswer(response: HttpResponse): Promise<string> {
  const { status, body } = response
  if (status === 200 || status === 204) return textOf(body)
  // The status alone says what to do if the connection ends before the code.
  throw errorOf(response, await textOf(body).catch(() => ''))
}

/**
 * The URL of an object, in the host of its bucket, over TLS. Throws `unavailable` if the vendor's server named no such
 * host.
 */
function addressOf({ endpoint, bucket, key }: OssObject, token: OssToken | undefined): string {
  const host = (endpoint ?? token?.endpoint ?? '').replace(/^https?:\/\//, '').replace(/\/+$/, '')
  const address = `https://${bucket}.${host}/${key.split('/').map(encodeURIComponent).join('/')}`
  const hasNames = /^[a-z0-9][a-z0-9-]*$/.test(bucket) && /^[a-z0-9-]+(\.[a-z0-9-]+)+$/.test(host)
  if (!hasNames || key === '' || !URL.canParse(address)) {
    throw new GatewayError('unavailable', { reason: 'the server named no valid place for the upload' })
  }
  return address
}

function callbackHeaders({ callback, callbackVar }: OssCallback): Headers {
  const encoded = (text: string) => Buffer.from(text).toString('base64')
  return {
    'x-oss-callback': encoded(callback),
    ...(callbackVar !== undefined && { 'x-oss-callback-var': encoded(callbackVar) }),
  }
}

function callbackResult({ text }: OssAnswer): unknown {
  try {
    return parseJson(text)
  } catch {
    throw new GatewayError('unavailable', { reason: `the ${server} sent no result of the upload` })
  }
}

async function textOf(body: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      size += chunk.length
      if (size > maxAnswer) throw new GatewayError('unavailable', { reason: `the ${server} sent too long an answer` })
      chunks.push(chunk)
    }
  } catch (error) {
    throw networkError(error, server)
  }
  return Buffer.concat(chunks).toString()
}

/** The error of an answer with another status than success. Never has its text, which repeats what was signed. */
function errorOf({ status, headers }: HttpResponse, text: string): GatewayError {
  const code = elementOf(text, 'Code') ?? 'no code'
  const cause = new OssError(code, status)
  if (cause.isTransient) {
    const reason = `the ${server} reports ${code} (status ${status})`
    return new GatewayError('unavailable', { reason, retryAfter: retryAfter(headers), cause })
  }
  const [meaning, reason] = meanings[code] ?? ['denied', `the ${server} refuses the upload: ${code}`]
  return new GatewayError(meaning, { reason, cause })
}

const meanings: Readonly<Record<string, readonly [ErrorCode, string]>> = {
  EntityTooLarge: ['too_large', `the file is larger than the ${server} accepts`],
  RequestTimeTooSkewed: ['denied', `the clocks of this machine and of the ${server} differ too much`],
  SecurityTokenExpired: ['denied', `the token for the ${server} has expired`],
  NoSuchUpload: ['unavailable', `the ${server} no longer has the upload`],
  PartNotSequential: ['unavailable', `the ${server} lacks an earlier part of the upload`],
  CallbackFailed: ['unavailable', `the ${server} has the file, but the server has not taken it over`],
}

function isTransient(error: unknown): error is GatewayError {
  // A request that is not answered in time, and an answer that is lost: parts are identified by their numbers.
  if (isGatewayError(error, 'timeout')) return true
  if (!isGatewayError(error, 'unavailable')) return false
  return error.cause instanceof OssError ? error.cause.isTransient : isNetworkFailure(error)
}

/** Milliseconds; infinite if it is not known. */
function leftUntil(time: Date | undefined): number {
  return time ? time.getTime() - Date.now() : Number.POSITIVE_INFINITY
}

async function waitFor(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await sleep(milliseconds, undefined, { signal })
  } catch (cause) {
    throw new GatewayError('aborted', { cause })
  }
}

function partOf(text: string): OssPart {
  return {
    number: Number(elementOf(text, 'PartNumber')),
    size: Number(elementOf(text, 'Size')),
    etag: (elementOf(text, 'ETag') ?? '').replace(/"/g, ''),
  }
}

/** The text of an element without children; the answers of the store have no attributes and no comments. */
function elementOf(text: string, name: string): string | undefined {
  const content = new RegExp(`<${name}>([^<]*)</${name}>`).exec(text)?.[1]
  return content?.replace(/&(?:#(\d{1,5})|(\w+));/g, (_all, digits: string | undefined, entity: string) =>
    digits === undefined ? (entities[entity] ?? '') : String.fromCodePoint(Number(digits)),
  )
}

const entities: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

function escapeXml(text: string): string {
  return text.replace(/[<>&"]/g, (sign) => `&#${sign.charCodeAt(0)};`)
}

// Signatures of version 1, in the `Authorization` header

/** A temporary credential for the object store. */
export interface OssToken {
  readonly id: string
  readonly secret: string
  readonly securityToken: string
  /** Host or address of the store, if it comes with the token. */
  readonly endpoint?: string
  /** The end of its validity, if the server says it. */
  readonly until?: Date | undefined
}

export interface OssSignedRequest {
  readonly method: string
  readonly bucket: string
  /** The key of the object, not percent-encoded. */
  readonly key: string
  /** Subresources: query parameters that are part of the signature. An empty value is left out of it. */
  readonly query: Readonly<Record<string, string>>
  /** The headers with lower-case names; `date` must be among them. */
  readonly headers: Readonly<Record<string, string>>
}

/** The headers of a request with those that authorize it. */
export function signedHeaders(request: OssSignedRequest, token: OssToken): Readonly<Record<string, string>> {
  const headers = { ...request.headers, 'x-oss-security-token': token.securityToken }
  const signature = createHmac('sha1', token.secret)
    .update(stringToSign({ ...request, headers }))
    .digest('base64')
  return { ...headers, authorization: `OSS ${token.id}:${signature}` }
}

/** The query as it is sent, which is also how it is signed. */
function queryOf(query: OssSignedRequest['query'], encode: (text: string) => string = encodeURIComponent): string {
  const parameters = Object.entries(query)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, value]) => (value === '' ? name : `${name}=${encode(value)}`))
  return parameters.length === 0 ? '' : `?${parameters.join('&')}`
}

/** Returns the text of a request that its signature signs. */
export function stringToSign({ method, bucket, key, query, headers }: OssSignedRequest): string {
  const vendorHeaders = Object.entries(headers)
    .filter(([name]) => name.startsWith('x-oss-'))
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, value]) => `${name}:${value}\n`)
  const resource = `/${bucket}/${key}${queryOf(query, (value) => value)}`
  const standard = [method, headers['content-md5'] ?? '', headers['content-type'] ?? '', headers.date ?? '']
  return `${standard.join('\n')}\n${vendorHeaders.join('')}${resource}`
}
