/** The object store of the double of AliyundriveOpen: URLs that are signed for a while, and answers to wrong ones. */
import { createHmac, randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'

/** Host of the URLs of parts, and of downloads. */
export const dataHost = 'cn-beijing-data.aliyundrive.net'

/** Statuses of refusals, by their codes. */
const statuses = {
  AccessDenied: 403,
  InvalidArgument: 400,
  MissingContentLength: 411,
  NoSuchKey: 404,
  NoSuchUpload: 404,
  PartAlreadyExist: 409,
  PartNotSequential: 400,
  SignatureDoesNotMatch: 403,
} as const

type StoreCode = keyof typeof statuses

export class SignedUrls {
  readonly #key = randomBytes(32)
  #signed = 0
  /** Number of the last URL that has been expired. */
  #expired = 0

  /** From now on, all URLs that have been signed are refused. */
  expire(): void {
    this.#expired = this.#signed
  }

  sign(path: string, method: string, seconds: number, query: Readonly<Record<string, string>> = {}): string {
    const url = new URL(`https://${dataHost}${path}`)
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
    url.searchParams.set('x-oss-expires', String(Math.ceil(Date.now() / 1000) + seconds))
    url.searchParams.set('x-oss-serial', String(++this.#signed))
    url.searchParams.set('x-oss-signature', this.#signature(method, '', url))
    return url.href
  }

  /** Why the store refuses a request; undefined: it does not. */
  refusal({ method = '', headers }: IncomingMessage, requested: URL): StoreCode | undefined {
    // It accepts one kind of credentials only.
    if (headers.authorization !== undefined) return 'InvalidArgument'
    const url = new URL(requested)
    url.searchParams.delete('x-oss-signature')
    const contentType = method === 'PUT' ? (headers['content-type'] ?? '') : ''
    const expected = this.#signature(method === 'HEAD' ? 'GET' : method, contentType, url)
    if (requested.searchParams.get('x-oss-signature') !== expected) return 'SignatureDoesNotMatch'
    const isOld = Number(url.searchParams.get('x-oss-expires')) * 1000 < Date.now()
    return isOld || Number(url.searchParams.get('x-oss-serial')) <= this.#expired ? 'AccessDenied' : undefined
  }

  /** The signature of a URL, which covers the content type, the path and the query. */
  #signature(method: string, contentType: string, { pathname, searchParams }: URL): string {
    const text = [method, contentType, pathname, searchParams.toString()].join('\n')
    return createHmac('sha256', this.#key).update(text).digest('base64')
  }
}

/** Answers as the object store does. */
export async function refuse(request: IncomingMessage, response: ServerResponse, code: StoreCode): Promise<void> {
  // The rest of a body is read, so that the client gets the answer.
  request.resume()
  const body = `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code><Message>refused</Message></Error>`
  response.writeHead(statuses[code], { 'content-type': 'application/xml' }).end(body)
}
