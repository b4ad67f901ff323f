/**
 * A strict double of Aliyun's object store: signatures of version 1 with temporary tokens, single and multipart
 * uploads, and callbacks, whose result is the answer. Facts: the vendor's API documentation of PutObject,
 * InitiateMultipartUpload, UploadPart, CompleteMultipartUpload, ListParts, AbortMultipartUpload and Callback.
 */
import { createHash, createHmac, randomBytes, randomUUID } from 'node:crypto'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Content, Contents } from './contents.js'
import { bodyOf, Requests } from './requests.js'

/** A temporary credential, as the vendors hand it out. */
export interface OssToken {
  readonly AccessKeyId: string
  readonly AccessKeySecret: string
  readonly SecurityToken: string
  /** ISO 8601, UTC. */
  readonly Expiration: string
}

/** A request that the store is about to process. */
export interface OssRequest {
  readonly method: string
  readonly bucket: string
  readonly key: string
  readonly query: URLSearchParams
  readonly headers: IncomingMessage['headers']
  /** What the client has to sign. */
  readonly stringToSign: string
}

/** An object that is complete, and the callback that the client has demanded for it. */
export interface FinishedObject {
  readonly bucket: string
  readonly key: string
  readonly content: Content
  /** The decoded headers `x-oss-callback` and `x-oss-callback-var`; empty if they are absent. */
  readonly callback: string
  readonly callbackVar: string
  readonly contentType: string
}

/** An answer with an error. */
export class OssFailure extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message = code,
  ) {
    super(message)
  }
}

interface OssOptions {
  /**
   * The answer of the server that a callback is sent to: it becomes the answer to the client. A status other than 200
   * is a failed callback.
   */
  readonly onFinished?: (object: FinishedObject) => Promise<{ readonly status?: number; readonly body: string }>
  /** Another check of requests than that of tokens of this double. Throws an `OssFailure`. */
  readonly authorize?: (request: OssRequest) => void
  /** Bytes of the smallest part but the last; default: 100 KiB. */
  readonly minPartSize?: number
  /** Parts of one page of ListParts; default: 1000. */
  readonly partsPerPage?: number
}

interface PendingUpload {
  readonly bucket: string
  readonly key: string
  readonly isSequential: boolean
  readonly contentType: string
  readonly parts: Map<number, Content>
}

interface IssuedToken extends OssToken {
  readonly until: number
  isExpired: boolean
}

/** Query parameters and their order in the signature. */
const signedParameters = new Set([
  ...[
    'acl',
    'callback',
    'callback-var',
    'continuation-token',
    'partNumber',
    'position',
    'security-token',
    'sequential',
  ],
  ...['uploadId', 'uploads', 'x-oss-enable-sha1', 'x-oss-enable-md5', 'x-oss-process'],
])
/** Milliseconds by which the clocks may differ. */
const maxSkew = 15 * 60_000
const maxSingle = 5 * 1024 ** 3
const maxParts = 10_000

export class OssDouble {
  readonly requests = new Requests()
  readonly listener: RequestListener
  /** Uploads that were neither completed nor aborted, by their ids. */
  readonly pending = new Map<string, PendingUpload>()
  readonly #tokens = new Map<string, IssuedToken>()
  readonly #objects = new Map<string, Content>()

  constructor(
    private readonly contents: Contents,
    private readonly options: OssOptions = {},
  ) {
    this.listener = this.requests.observed((request, response) => void this.#answer(request, response))
  }

  /** `lifetime`: milliseconds. */
  issueToken(lifetime = 3_600_000): OssToken {
    const until = Date.now() + lifetime
    const token = {
      AccessKeyId: `STS.${randomUUID()}`,
      AccessKeySecret: randomBytes(16).toString('hex'),
      SecurityToken: randomBytes(24).toString('base64'),
      Expiration: new Date(until).toISOString().replace(/\.\d+/, ''),
    }
    this.#tokens.set(token.AccessKeyId, { ...token, until, isExpired: false })
    return token
  }

  /** No token that was issued before is accepted any more. */
  expireTokens(): void {
    for (const token of this.#tokens.values()) token.isExpired = true
  }

  object(bucket: string, key: string): Content | undefined {
    return this.#objects.get(`${bucket}/${key}`)
  }

  /** Begins a multipart upload, as the server of a vendor may do for its clients. Returns its id. */
  beginUpload(bucket: string, key: string, isSequential = true, contentType = 'application/octet-stream'): string {
    const id = randomBytes(16).toString('hex').toUpperCase()
    this.pending.set(id, { bucket, key, isSequential, contentType, parts: new Map() })
    return id
  }

  /** Completes an upload with all its parts in order, as the server of a vendor may do. Throws an `OssFailure`. */
  async completeUpload(id: string): Promise<Content> {
    const upload = this.#upload(id)
    const numbers = [...upload.parts.keys()].sort((one, other) => one - other)
    return this.#join(id, upload, numbers)
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const [bucket = ''] = (request.headers.host ?? '').split('.')
      const url = new URL(request.url ?? '', `https://${request.headers.host ?? ''}`)
      const key = decodeURIComponent(url.pathname.slice(1))
      const { method = '', headers } = request
      const unsigned = { method, bucket, key, query: url.searchParams, headers }
      const checked = { ...unsigned, stringToSign: stringToSign(unsigned) }
      if (this.options.authorize) this.options.authorize(checked)
      else this.#authorize(checked)
      await this.#perform(checked, request, response)
    } catch (error) {
      // The connection was cut: there is nobody to answer.
      if (request.destroyed && !request.complete) return
      const failure = error instanceof OssFailure ? error : new OssFailure(500, 'InternalError', String(error))
      fail(request, response, failure)
    }
  }

  #authorize({ headers, stringToSign: signed }: OssRequest): void {
    const [, id, signature] = /^OSS ([^:]+):(.+)$/.exec(headers.authorization ?? '') ?? []
    if (id === undefined || signature === undefined) throw new OssFailure(403, 'AccessDenied', 'no valid authorization')
    const token = this.#tokens.get(id)
    if (!token) throw new OssFailure(403, 'InvalidAccessKeyId')
    const skew = Math.abs(Date.parse(dateOf(headers)) - Date.now())
    if (Number.isNaN(skew)) throw new OssFailure(403, 'AccessDenied', 'no valid date')
    if (skew > maxSkew) throw new OssFailure(403, 'RequestTimeTooSkewed')
    if (headers['x-oss-security-token'] !== token.SecurityToken) throw new OssFailure(403, 'InvalidSecurityToken')
    if (createHmac('sha1', token.AccessKeySecret).update(signed).digest('base64') !== signature) {
      throw new OssFailure(403, 'SignatureDoesNotMatch', signed)
    }
    if (token.isExpired || Date.now() > token.until) throw new OssFailure(403, 'SecurityTokenExpired')
  }

  async #perform(checked: OssRequest, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method, query } = checked
    const id = query.get('uploadId')
    if (method === 'PUT' && id !== null) return this.#storePart(checked, id, request, response)
    if (method === 'PUT') return this.#storeObject(checked, request, response)
    if (method === 'POST' && query.has('uploads')) return this.#initiate(checked, request, response)
    if (method === 'POST' && id !== null) return this.#complete(checked, id, request, response)
    if (method === 'GET' && id !== null) {
      this.#listParts(checked, id, response)
      return
    }
    if (method === 'DELETE' && id !== null) {
      const { parts } = this.#upload(id, checked)
      this.pending.delete(id)
      for (const part of parts.values()) await this.contents.discard(part)
      response.writeHead(204).end()
      return
    }
    throw new OssFailure(405, 'MethodNotAllowed')
  }

  async #initiate({ bucket, key, query, headers }: OssRequest, request: IncomingMessage, response: ServerResponse) {
    request.resume()
    const id = this.beginUpload(bucket, key, query.has('sequential'), headers['content-type'])
    const fields = { Bucket: bucket, Key: key, UploadId: id }
    sendXml(response, 'InitiateMultipartUploadResult', fieldsXml(fields))
  }

  async #storePart(checked: OssRequest, id: string, request: IncomingMessage, response: ServerResponse) {
    const upload = this.#upload(id, checked)
    const number = Number(checked.query.get('partNumber'))
    if (!Number.isInteger(number) || number < 1 || number > maxParts) throw new OssFailure(400, 'InvalidArgument')
    if (upload.isSequential) assertInOrder(upload, number)
    const part = await this.#receive(request)
    if (this.pending.get(id) !== upload) throw new OssFailure(404, 'NoSuchUpload')
    if (upload.isSequential) assertInOrder(upload, number)
    const old = upload.parts.get(number)
    if (old) await this.contents.discard(old)
    upload.parts.set(number, part)
    response.writeHead(200, { etag: `"${part.md5}"`, ...objectHeaders() }).end()
  }

  async #storeObject(checked: OssRequest, request: IncomingMessage, response: ServerResponse) {
    const content = await this.#receive(request)
    if (content.size > maxSingle) throw new OssFailure(400, 'EntityTooLarge')
    await this.#finish(checked, this.contents.publish(content), checked.headers['content-type'], response)
  }

  async #complete(checked: OssRequest, id: string, request: IncomingMessage, response: ServerResponse) {
    const body = await bodyOf(request)
    const upload = this.#upload(id, checked)
    assertDigest(request, createHash('md5').update(body).digest('base64'))
    const numbers: number[] = []
    for (const [, text = ''] of body.toString().matchAll(/<Part>(.*?)<\/Part>/gs)) {
      const number = Number(/<PartNumber>\s*(\d+)\s*<\/PartNumber>/.exec(text)?.[1])
      const etag = /<ETag>\s*(?:"|&quot;|&#34;)?([0-9A-Fa-f]+)(?:"|&quot;|&#34;)?\s*<\/ETag>/.exec(text)?.[1] ?? ''
      if (upload.parts.get(number)?.md5 !== etag.toUpperCase()) throw new OssFailure(400, 'InvalidPart')
      if (number <= (numbers.at(-1) ?? 0)) throw new OssFailure(400, 'InvalidPartOrder')
      numbers.push(number)
    }
    if (numbers.length === 0) throw new OssFailure(400, 'MalformedXML')
    const content = await this.#join(id, upload, numbers)
    await this.#finish(checked, content, upload.contentType, response)
  }

  async #join(id: string, upload: PendingUpload, numbers: readonly number[]): Promise<Content> {
    const { minPartSize = 100 * 1024 } = this.options
    const parts = numbers.flatMap((number) => upload.parts.get(number) ?? [])
    if (parts.slice(0, -1).some(({ size }) => size < minPartSize)) throw new OssFailure(400, 'EntityTooSmall')
    this.pending.delete(id)
    const content = this.contents.publish(await this.contents.join(parts))
    this.#objects.set(`${upload.bucket}/${upload.key}`, content)
    return content
  }

  /** Stores the object, calls back, and sends the answer of the callback. */
  async #finish(
    { bucket, key, headers }: OssRequest,
    content: Content,
    contentType: string | undefined,
    response: ServerResponse,
  ) {
    this.#objects.set(`${bucket}/${key}`, content)
    const answerHeaders = { etag: `"${content.md5}"`, ...objectHeaders() }
    const [callback, callbackVar] = ['x-oss-callback', 'x-oss-callback-var'].map((name) =>
      Buffer.from(String(headers[name] ?? ''), 'base64').toString(),
    )
    if (!this.options.onFinished || callback === undefined || callback === '') {
      response.writeHead(200, answerHeaders).end()
      return
    }
    const object = { bucket, key, content, callback, callbackVar: callbackVar ?? '', contentType: contentType ?? '' }
    const { status = 200, body } = await this.options.onFinished(object)
    if (status !== 200) throw new OssFailure(203, 'CallbackFailed', `Error status : ${status}.`)
    response.writeHead(200, { 'content-type': 'application/json', ...answerHeaders }).end(body)
  }

  #listParts(checked: OssRequest, id: string, response: ServerResponse): void {
    const { parts, bucket, key } = this.#upload(id, checked)
    const { partsPerPage = 1000 } = this.options
    const marker = Number(checked.query.get('part-number-marker') ?? 0)
    const maximum = Math.min(partsPerPage, Number(checked.query.get('max-parts') ?? 1000))
    const listed = [...parts].filter(([number]) => number > marker).sort(([one], [other]) => one - other)
    const page = listed.slice(0, maximum)
    const items = page.map(([number, { md5, size }]) => {
      const fields = { PartNumber: number, LastModified: new Date().toISOString(), ETag: `"${md5}"`, Size: size }
      return `<Part>${fieldsXml(fields)}</Part>`
    })
    const fields = {
      ...{ Bucket: bucket, Key: key, UploadId: id, PartNumberMarker: marker, MaxParts: maximum },
      ...{ NextPartNumberMarker: page.at(-1)?.[0] ?? 0, IsTruncated: listed.length > page.length },
    }
    sendXml(response, 'ListPartsResult', fieldsXml(fields) + items.join(''))
  }

  /** The body, with its length and digest checked. */
  async #receive(request: IncomingMessage): Promise<Content> {
    if (request.headers['content-length'] === undefined) throw new OssFailure(411, 'MissingContentLength')
    const content = await this.contents.receive(request)
    assertDigest(request, Buffer.from(content.md5, 'hex').toString('base64'))
    return content
  }

  #upload(id: string, at?: OssRequest): PendingUpload {
    const upload = this.pending.get(id)
    if (!upload || (at && (upload.bucket !== at.bucket || upload.key !== at.key))) {
      throw new OssFailure(404, 'NoSuchUpload')
    }
    return upload
  }
}

/** What a client signs: version 1 of the signatures in headers. */
export function stringToSign({ method, bucket, key, query, headers }: Omit<OssRequest, 'stringToSign'>): string {
  const ossHeaders = Object.keys(headers)
    .filter((name) => name.startsWith('x-oss-'))
    .sort()
    .map((name) => `${name}:${String(headers[name]).trim()}\n`)
  const parameters = [...query.keys()]
    .filter((name) => signedParameters.has(name) || name.startsWith('response-'))
    .sort()
    .map((name) => (query.get(name) === '' ? name : `${name}=${query.get(name) ?? ''}`))
  const resource = `/${bucket}/${key}${parameters.length === 0 ? '' : `?${parameters.join('&')}`}`
  const first = [method, headers['content-md5'] ?? '', headers['content-type'] ?? '', dateOf(headers)]
  return `${first.join('\n')}\n${ossHeaders.join('')}${resource}`
}

function dateOf(headers: IncomingMessage['headers']): string {
  return String(headers['x-oss-date'] ?? headers.date ?? '')
}

function assertInOrder({ parts }: PendingUpload, number: number): void {
  if (parts.has(number)) throw new OssFailure(409, 'PartAlreadyExist')
  if (number !== parts.size + 1) throw new OssFailure(409, 'PartNotSequential')
}

function assertDigest({ headers }: IncomingMessage, md5: string): void {
  const announced = headers['content-md5']
  if (announced !== undefined && announced !== md5) throw new OssFailure(400, 'InvalidDigest')
}

function objectHeaders() {
  return { server: 'AliyunOSS', 'x-oss-request-id': randomBytes(12).toString('hex').toUpperCase() }
}

function fail(request: IncomingMessage, response: ServerResponse, { status, code, message }: OssFailure): void {
  if (response.headersSent) return
  // The rest of a body is read, so that the client gets the answer.
  request.resume()
  sendXml(response, 'Error', fieldsXml({ Code: code, Message: message, RequestId: randomUUID() }), status)
}

function sendXml(response: ServerResponse, root: string, content: string, status = 200): void {
  const body = `<?xml version="1.0" encoding="UTF-8"?>\n<${root}>${content}</${root}>\n`
  response.writeHead(status, { 'content-type': 'application/xml', ...objectHeaders() }).end(body)
}

function fieldsXml(fields: Readonly<Record<string, string | number | boolean>>): string {
  return Object.entries(fields)
    .map(([name, value]) => `<${name}>${escapeXml(String(value))}</${name}>`)
    .join('')
}

function escapeXml(text: string): string {
  return text.replace(/[<>&"]/g, (sign) => `&#${sign.charCodeAt(0)};`)
}
