/** The client of Aliyun's object store: tokens that expire, parts whose answers are lost, and what is never sent twice. */
import { buffer } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { AliyunOss, ossCodeOf } from '../../../drivers/lib/aliyun-oss.js'
import { HttpClient } from '../../../drivers/lib/http-client.js'
import { contiguousParts } from '../../../drivers/lib/parts.js'
import { GatewayError } from '../../../src/contract/errors.js'
import { EgressGuard } from '../../../src/net/egress.js'
import { Contents } from '../../doubles/contents.js'
import { OssDouble, type FinishedObject } from '../../doubles/oss.js'
import { serveVendorHosts } from '../../services/vendor-hosts.js'

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
  double.requests.inject(/^PUT/, { answer: 403, body: '<Error><Code>SignatureDoesNotMatch</Code></Error>' })
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
