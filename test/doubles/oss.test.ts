/** The double of Aliyun's object store refuses what the store refuses. */
import { createHash, createHmac } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { HttpClient } from '../../drivers/lib/http/http-client.js'
import { signedHeaders } from '../../drivers/lib/cloud/aliyun-oss.js'
import { EgressGuard } from '../../src/net/egress.js'
import { serveVendorHosts } from '../servers/vendor-hosts.js'
import { Contents } from './contents.js'
import { OssDouble, stringToSign, type FinishedObject, type OssToken } from './oss.js'

const host = 'bkt.oss-cn-shenzhen.aliyuncs.com'

interface Sent {
  readonly method?: string
  readonly path?: string
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly secret?: string
}

async function started(t: Test) {
  const contents = new Contents(t)
  const finished: FinishedObject[] = []
  const answer = { status: 200, body: '{"state":true}' }
  const onFinished = async (object: FinishedObject) => {
    finished.push(object)
    return answer
  }
  const oss = new OssDouble(contents, { onFinished, minPartSize: 4, partsPerPage: 2 })
  await serveVendorHosts(t, { '*.oss-cn-shenzhen.aliyuncs.com': oss.listener })
  const http = new HttpClient({
    server: 'object store',
    address: new URL(`https://${host}`),
    verifiesCertificate: true,
    egress: new EgressGuard(() => ''),
  })
  t.teardown(() => http.close())
  const token = oss.issueToken()
  /** Signs by what the double itself says is to be signed, and sends. */
  const send = async (sent: Sent, by: OssToken = token) => {
    const { method = 'PUT', path = '/obj/key', body = '', secret = by.AccessKeySecret } = sent
    const url = new URL(path, `https://${host}`)
    const headers: Record<string, string> = {
      date: new Date().toUTCString(),
      'x-oss-security-token': by.SecurityToken,
      // A request on a connection that was used before would be repeated.
      connection: 'close',
      ...sent.headers,
    }
    const unsigned = { method, bucket: 'bkt', key: url.pathname.slice(1), query: url.searchParams, headers }
    const signature = createHmac('sha1', secret).update(stringToSign(unsigned)).digest('base64')
    const authorization = `OSS ${by.AccessKeyId}:${signature}`
    const response = await http.request({ method, url, headers: { authorization, ...headers }, body })
    const text = (await buffer(response.body)).toString()
    return { status: response.status, text, code: /<Code>(\w+)</.exec(text)?.[1], etag: response.headers.etag ?? '' }
  }
  const begin = async () => {
    const { text } = await send({ method: 'POST', path: '/obj/key?uploads&sequential&x-oss-enable-sha1' })
    return /<UploadId>(\w+)</.exec(text)?.[1] ?? ''
  }
  const complete = (id: string, parts: readonly (readonly [number, string])[]) => {
    const items = parts.map(([number, etag]) => `<Part><PartNumber>${number}</PartNumber><ETag>${etag}</ETag></Part>`)
    const body = `<CompleteMultipartUpload>${items.join('')}</CompleteMultipartUpload>`
    return send({ method: 'POST', path: `/obj/key?uploadId=${id}`, body })
  }
  return { oss, contents, finished, answer, token, send, begin, complete }
}

await t.test('the published example is signed as the vendor signs it', async (t) => {
  const headers = {
    'content-type': 'text/plain',
    date: 'Tue, 14 Nov 2023 22:13:20 GMT',
    'x-oss-callback': 'Y2I=',
    'x-oss-security-token': 'TOK',
  }
  const request = { method: 'PUT', bucket: 'bkt', key: 'obj/key', query: new URLSearchParams(), headers }
  const signature = createHmac('sha1', 'SECRET').update(stringToSign(request)).digest('base64')
  t.equal(signature, 'eN/vzqnfD+0auBH5POEydx6vato=')
  const { authorization } = signedHeaders(
    { ...request, query: {} },
    { id: 'ID', secret: 'SECRET', securityToken: 'TOK' },
  )
  t.equal(authorization, 'OSS ID:eN/vzqnfD+0auBH5POEydx6vato=')
})

await t.test('an object is stored, and the answer of the callback is the result', async (t) => {
  const { oss, finished, answer, send } = await started(t)
  const headers = {
    'x-oss-callback': Buffer.from('the callback').toString('base64'),
    'x-oss-callback-var': Buffer.from('its variables').toString('base64'),
    'content-type': 'text/plain',
  }
  const stored = await send({ body: 'hello', headers })
  t.same([stored.status, stored.text], [200, '{"state":true}'])
  t.match(finished, [
    { key: 'obj/key', callback: 'the callback', callbackVar: 'its variables', contentType: 'text/plain' },
  ])
  t.equal(oss.object('bkt', 'obj/key')?.sha1, 'AAF4C61DDCC5E8A2DABEDE0F3B482CD9AEA9434D')
  answer.status = 500
  const failed = await send({ body: 'hello', headers })
  t.same([failed.status, failed.code], [203, 'CallbackFailed'])
})

await t.test('requests with wrong credentials are refused', async (t) => {
  const { oss, token, send } = await started(t)
  const codeOf = async (sent: Sent, by?: OssToken) => {
    const { status, code } = await send({ body: 'x', ...sent }, by)
    return `${status} ${code ?? ''}`
  }
  t.equal(await codeOf({ secret: 'wrong' }), '403 SignatureDoesNotMatch')
  t.equal(await codeOf({ headers: { authorization: '' } }), '403 AccessDenied')
  t.equal(await codeOf({}, { ...token, AccessKeyId: 'unknown' }), '403 InvalidAccessKeyId')
  t.equal(await codeOf({}, { ...token, SecurityToken: 'other' }), '403 InvalidSecurityToken')
  const early = new Date(Date.now() - 20 * 60_000).toUTCString()
  t.equal(await codeOf({ headers: { date: early } }), '403 RequestTimeTooSkewed')
  t.equal(
    await codeOf({ headers: { 'content-md5': createHash('md5').update('y').digest('base64') } }),
    '400 InvalidDigest',
  )
  oss.expireTokens()
  t.equal(await codeOf({}), '403 SecurityTokenExpired')
  t.equal(await codeOf({}, oss.issueToken(-1)), '403 SecurityTokenExpired')
  t.equal(await codeOf({}, oss.issueToken()), '200 ')
})

await t.test('parts are accepted in order only, and listed by pages', async (t) => {
  const { oss, contents, send, begin, complete } = await started(t)
  const id = await begin()
  const part = (number: number, body: string) => send({ path: `/obj/key?partNumber=${number}&uploadId=${id}`, body })
  t.match(await part(2, 'early'), { status: 409, code: 'PartNotSequential' })
  const etags = [(await part(1, 'first')).etag, (await part(2, 'other')).etag, (await part(3, 'end')).etag]
  t.match(await part(2, 'again'), { status: 409, code: 'PartAlreadyExist' })
  const page = (marker: number) => send({ method: 'GET', path: `/obj/key?uploadId=${id}&part-number-marker=${marker}` })
  const first = await page(0)
  t.match(first.text, /<IsTruncated>true</)
  t.match(first.text, /<NextPartNumberMarker>2</)
  t.match((await page(2)).text, /<PartNumber>3<.*<Size>3</s)
  t.match(await complete(id, [[1, '"00"']]), { status: 400, code: 'InvalidPart' })
  t.match(
    await complete(id, [
      [2, etags[1] ?? ''],
      [1, etags[0] ?? ''],
    ]),
    { status: 400, code: 'InvalidPartOrder' },
  )
  const completed = await complete(
    id,
    etags.map((etag, index) => [index + 1, etag] as const),
  )
  t.equal(completed.status, 200)
  const object = oss.object('bkt', 'obj/key')
  t.equal(object && (await buffer(contents.read(object))).toString(), 'firstotherend')
  t.match(await page(0), { status: 404, code: 'NoSuchUpload' })
})

await t.test('a part that is too small, and an upload that was aborted, cannot be completed', async (t) => {
  const { oss, send, begin, complete } = await started(t)
  const id = await begin()
  const small = await send({ path: `/obj/key?partNumber=1&uploadId=${id}`, body: 'abc' })
  const last = await send({ path: `/obj/key?partNumber=2&uploadId=${id}`, body: 'defg' })
  t.match(
    await complete(id, [
      [1, small.etag],
      [2, last.etag],
    ]),
    { status: 400, code: 'EntityTooSmall' },
  )
  t.equal((await send({ method: 'DELETE', path: `/obj/key?uploadId=${id}` })).status, 204)
  t.match(await complete(id, [[1, small.etag]]), { status: 404, code: 'NoSuchUpload' })
  t.equal(oss.pending.size, 0)
})

await t.test('faults are injected, and requests recorded', async (t) => {
  const { oss, send } = await started(t)
  oss.requests.inject(/^PUT/, { answer: 503, body: 'busy' })
  t.equal((await send({ body: 'x' })).status, 503)
  oss.requests.inject(/^PUT/, { loseAnswer: true })
  await t.rejects(send({ body: 'hello' }), { code: 'unavailable' })
  t.equal(oss.object('bkt', 'obj/key')?.size, 5, 'it was done')
  oss.requests.inject(/^PUT/, { cutAfter: 1 })
  await t.rejects(send({ body: 'another body' }), { code: 'unavailable' })
  t.equal(oss.object('bkt', 'obj/key')?.size, 5, 'it was not done')
  t.match(oss.requests.matching(/^PUT bkt\./), { length: 3 })
  t.same(
    oss.requests.log.map(({ status, hasCredentials }) => [status, hasCredentials]),
    [
      [503, true],
      [undefined, true],
      [undefined, true],
    ],
  )
})
