/**
 * The client of Aliyun's object store: tokens that expire, parts whose answers are lost, and what is never sent twice.
 */
import { buffer } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { AliyunOss, ossCodeOf } from '../../../../drivers/lib/cloud/aliyun-oss.js'
import { signedHeaders } from '../../../../drivers/lib/cloud/aliyun-oss.js'
import { HttpClient } from '../../../../drivers/lib/http/http-client.js'
import { contiguousParts } from '../../../../drivers/lib/streams/parts.js'
import { GatewayError } from '../../../../src/base/errors.js'
import { EgressGuard } from '../../../../src/net/egress.js'
import { Contents } from '../../../doubles/contents.js'
import { OssDouble, type FinishedObject } from '../../../doubles/oss.js'
import { serveVendorHosts } from '../../../servers/vendor-hosts.js'

const endpoint = 'http://oss-cn-shenzhen.aliyuncs.com'
const object = { endpoint, bucket: 'bkt', key: 'a folder/ключ' }
const callback = { callback: '{"callbackUrl":"http://x"}', callbackVar: '{"x:a":"ü"}' }
const partLength = 1000

async function started(t: Test) {
  const contents = new Contents(t)
  const finished: FinishedObject[] = []
  const onFinished = async (done: FinishedObject) => {
    finished.push(done)
    return { body: JSON.stringify({ state: true, id: 2_900_000_000_000_000_001n.toString() }) }
  }
  const double = new OssDouble(contents, { onFinished, minPartSize: partLength, partsPerPage: 3 })
  await serveVendorHosts(t, { '*.oss-cn-shenzhen.aliyuncs.com': double.listener })
  const http = new HttpClient({
    server: 'object store',
    address: new URL('https://vendor.example'),
    domains: ['aliyuncs.com'],
    verifiesCertificate: true,
    egress: new EgressGuard(() => ''),
  })
  t.teardown(() => http.close())
  const seen = { tokens: 0 }
  const requestToken = async () => {
    seen.tokens++
    const { AccessKeyId: id, AccessKeySecret: secret, SecurityToken: securityToken } = double.issueToken()
    return { id, secret, securityToken }
  }
  const client = new AliyunOss({ http, userAgent: 'aliyun-sdk-android/2.9.1', requestToken })
  const storedText = async () => {
    const content = double.object(object.bucket, object.key)
    return content && (await buffer(contents.read(content))).toString()
  }
  return { double, client, seen, finished, storedText }
}

/** Seven parts, the last of which is shorter. */
const parts = Array.from({ length: 7 }, (_, index) => Buffer.alloc(index === 6 ? 10 : partLength, String(index)))

await t.test('objects are stored whole, with a key of any characters, and the callback answers', async (t) => {
  const { client, finished, storedText } = await started(t)
  t.same(await client.put(object, Buffer.from('hello'), callback, undefined), {
    state: true,
    id: '2900000000000000001',
  })
  t.same([finished[0]?.callback, finished[0]?.callbackVar], [callback.callback, callback.callbackVar])
  t.equal(await storedText(), 'hello')
  await client.put(object, Buffer.alloc(0), callback, undefined)
  t.equal(await storedText(), '')
})

await t.test('an upload in parts survives expired tokens, lost answers and cut connections', async (t) => {
  const { client, double, seen, storedText } = await started(t)
  const upload = await client.begin(object, undefined)
  for (const [index, bytes] of parts.entries()) {
    if (index === 1) double.expireTokens()
    if (index === 2) double.requests.inject(/partNumber=3/, { loseAnswer: true })
    if (index === 3) double.requests.inject(/partNumber=4/, { cutAfter: 100 })
    if (index === 4) double.requests.inject(/partNumber=5/, { answer: 503, headers: { 'retry-after': '0' } })
    await client.sendPart(upload, index + 1, bytes, undefined)
  }
  t.equal(seen.tokens, 2)
  const stored = await contiguousParts(client.parts(upload, undefined), partLength, 6010)
  t.same([stored.parts.length, stored.bytes], [7, 6010])
  double.expireTokens()
  await client.complete(upload, stored.parts, callback, undefined)
  t.equal(seen.tokens, 3)
  t.equal(await storedText(), Buffer.concat(parts).toString())
})

await t.test(
  'a token that the store refuses is replaced, whatever it says, and none is used after its end',
  async (t) => {
    const { client, double, seen } = await started(t)
    const upload = await client.begin(object, undefined)
    const refusals = ['<Error><Code>AccessDenied</Code><Message>expired</Message></Error>', 'expired', '']
    for (const [index, body] of refusals.entries()) {
      double.requests.inject(/partNumber/, { answer: 403, body })
      await client.sendPart(upload, index + 1, Buffer.alloc(partLength), undefined)
    }
    t.equal(seen.tokens, 4)
    const { http, userAgent } = Reflect.get(client, 'options') as ConstructorParameters<typeof AliyunOss>[0]
    const lifetimes = [5 * 60_000, 61_000, -1000]
    const used: number[] = []
    const clock = performance.now.bind(performance)
    t.teardown(() => (performance.now = clock))
    for (const lifetime of lifetimes) {
      let tokens = 0
      const short = new AliyunOss({
        http,
        userAgent,
        requestToken: async () => {
          tokens++
          const { AccessKeyId: id, AccessKeySecret: secret, SecurityToken: securityToken } = double.issueToken()
          return { id, secret, securityToken, until: new Date(Date.now() + lifetime) }
        },
      })
      const ask = async (after: number) => {
        performance.now = () => clock() + after
        for await (const _part of short.parts(upload, undefined)) break
      }
      for (const after of [0, 30_000, 90_000]) await ask(after)
      performance.now = clock
      used.push(tokens)
    }
    t.same(used, [1, 2, 2], 'tokens, of minutes, of one minute, and of a server whose clock is wrong')
  },
)

await t.test('a part whose answer was lost has its tag, and a refused signature is made anew', async (t) => {
  const { client, double } = await started(t)
  const upload = await client.begin(object, undefined)
  const { http, userAgent } = Reflect.get(client, 'options') as ConstructorParameters<typeof AliyunOss>[0]
  const { AccessKeyId: id, AccessKeySecret: secret, SecurityToken: securityToken } = double.issueToken()
  const dates: (string | undefined)[] = []
  const signed = new AliyunOss({
    http,
    userAgent,
    sign: async (request) => {
      if (request.method !== 'PUT') throw new GatewayError('invalid', { reason: 'only parts are signed' })
      dates.push(request.headers.date)
      const isFirst = dates.length === 1
      return signedHeaders(request, { id, secret: isFirst ? 'of yesterday' : secret, securityToken })
    },
  })
  const bytes = Buffer.alloc(partLength, 'x')
  double.requests.inject(/partNumber=2/, { loseAnswer: true })
  const stored = [
    await signed.sendPart(upload, 1, bytes, undefined),
    await signed.sendPart(upload, 2, bytes, undefined),
  ]
  const listed = []
  for await (const part of client.parts(upload, undefined)) listed.push(part)
  t.same(stored, listed)
  t.equal(dates.length, 4)
})

await t.test('what completes an object is not sent twice', async (t) => {
  const { client, double, finished } = await started(t)
  double.requests.inject(/^PUT/, { loseAnswer: true })
  await t.rejects(client.put(object, Buffer.from('hello'), callback, undefined), { code: 'unavailable' })
  t.same([double.requests.log.length, finished.length], [1, 1])
})

await t.test('refusals are errors with the code of the store, and without its text', async (t) => {
  const { client, double } = await started(t)
  const upload = await client.begin(object, undefined)
  const fails = async (work: Promise<unknown>) => {
    const error: unknown = await work.then(
      () => undefined,
      (reason: unknown) => reason,
    )
    t.notMatch(String((error as Error).cause), /STS|x-oss/)
    return ossCodeOf(error)
  }
  t.equal(await fails(client.sendPart(upload, 2, Buffer.alloc(1), undefined)), 'PartNotSequential')
  await client.abort(upload, undefined)
  t.equal(await fails(client.sendPart(upload, 1, Buffer.alloc(1), undefined)), 'NoSuchUpload')
  await client.abort(upload, undefined)
  double.requests.inject(/^PUT/, { answer: 403, body: '<Error><Code>SignatureDoesNotMatch</Code></Error>' }, 2)
  t.equal(await fails(client.put(object, Buffer.alloc(1), callback, undefined)), 'SignatureDoesNotMatch')
  const elsewhere = { ...object, bucket: 'bucket/../other' }
  await t.rejects(client.put(elsewhere, Buffer.alloc(1), callback, undefined), { code: 'unavailable' })
})

await t.test('a refusal of the server that hands out tokens is not repeated', async (t) => {
  const { double, client } = await started(t)
  const upload = await client.begin(object, undefined)
  let requests = 0
  const refused = new GatewayError('unavailable', { cause: new Error('code 990009') })
  const http = Reflect.get(client, 'options') as ConstructorParameters<typeof AliyunOss>[0]
  const other = new AliyunOss({
    http: http.http,
    userAgent: http.userAgent,
    requestToken: async () => {
      requests++
      return Promise.reject(refused)
    },
  })
  await t.rejects(other.sendPart(upload, 1, Buffer.alloc(5), undefined), refused)
  t.same([requests, double.requests.matching(/partNumber/).length], [1, 0])
})

await t.test('an abort ends a part that is being sent', async (t) => {
  const { client, double } = await started(t)
  const upload = await client.begin(object, undefined)
  double.requests.inject(/partNumber/, { delay: 1000 })
  const controller = new AbortController()
  setTimeout(() => controller.abort(), 50)
  await t.rejects(client.sendPart(upload, 1, Buffer.alloc(5), controller.signal), { code: 'aborted' })
})

await t.test('answers without sense are errors, and end', { timeout: 20_000 }, async (t) => {
  const { client, double } = await started(t)
  const upload = await client.begin(object, undefined)
  const stored = (body: string) => {
    double.requests.inject(/uploadId/, { answer: 200, body }, 10)
    return contiguousParts(client.parts(upload, undefined), partLength, 6010).finally(() =>
      double.requests.clearFaults(),
    )
  }
  t.equal((await stored('<Part>'.repeat(500_000))).bytes, 0)
  t.equal((await stored('<Part><PartNumber>&#99999999;</PartNumber></Part>')).bytes, 0)
  const before = double.requests.log.length
  const markers = '<IsTruncated>true</IsTruncated><NextPartNumberMarker>7</NextPartNumberMarker>'
  t.equal((await stored(markers)).bytes, 0)
  t.equal(double.requests.log.length - before, 1, 'a page without parts is the last one')
  const address = { ...object, endpoint: '127.0.0.1' }
  await t.rejects(client.put(address, Buffer.alloc(1), callback, undefined), { code: 'unavailable' })
})
