/** Signatures of version 1 of Aliyun's object store, in the `Authorization` header. */
import { createHmac } from 'node:crypto'

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
  /** With lower-case names; `date` must be among them. */
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
export function queryOf(
  query: OssSignedRequest['query'],
  encode: (text: string) => string = encodeURIComponent,
): string {
  const parameters = Object.entries(query)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, value]) => (value === '' ? name : `${name}=${encode(value)}`))
  return parameters.length === 0 ? '' : `?${parameters.join('&')}`
}

/** What is signed of a request. */
export function stringToSign({ method, bucket, key, query, headers }: OssSignedRequest): string {
  const vendorHeaders = Object.entries(headers)
    .filter(([name]) => name.startsWith('x-oss-'))
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, value]) => `${name}:${value}\n`)
  const resource = `/${bucket}/${key}${queryOf(query, (value) => value)}`
  const standard = [method, headers['content-md5'] ?? '', headers['content-type'] ?? '', headers.date ?? '']
  return `${standard.join('\n')}\n${vendorHeaders.join('')}${resource}`
}
