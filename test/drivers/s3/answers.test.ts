/**
 * What the answers of servers mean: of those that refuse the credentials, of other servers, and for the entry of a
 * file.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { s3Fields, s3Type } from '../../../drivers/s3/index.js'
import { fileEntry } from '../../../drivers/s3/object-keys.js'
import { asPath } from '../../../src/base/path.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import { testEnv } from '../env.js'

const coded = (code: string) => `<?xml version="1.0"?><Error><Code>${code}</Code><Message>no</Message></Error>`
const page = '<!doctype html><html><body><p>Hello</body></html>'
const wrongKeys =
  'the S3 server does not accept the credentials of this storage: the access key or the secret key is wrong'
const noBucket = 'the server has no such bucket at this address, or hides it from these credentials'
const noServer =
  'the answer is not that of an S3 server: check the address, and whether it begins with http:// or https://'

const noObjects = '<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>'

/** The options of a storage on a server that answers with this status and body; `scheme` of its address. */
async function optionsFor(
  t: Test,
  answer: (request: IncomingMessage) => readonly [status: number, body: string],
  scheme = 'http://',
) {
  const server = createServer((request, response) => {
    const [status, body] = answer(request)
    response.writeHead(status).end(body)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return checkOptions(s3Fields, {
    bucket: 'bucket',
    endpoint: `${scheme}127.0.0.1:${(server.address() as AddressInfo).port}`,
    access_key_id: 'somebody',
    secret_access_key: 'secret',
    force_path_style: true,
  })
}

for (const [status, body, code, reason] of [
  [401, '', 'denied', wrongKeys],
  [401, coded('NoSuchKey'), 'denied', wrongKeys],
  [403, coded('NoSuchKey'), 'denied', wrongKeys],
  [403, coded('InvalidAccessKeyId'), 'denied', wrongKeys],
  [403, coded('ExpiredToken'), 'denied', 'the credentials of this storage have expired'],
  [403, coded('AccessDenied'), 'denied', 'the S3 server denied access'],
  [404, coded('NoSuchBucket'), 'unavailable', 'the bucket does not exist'],
  [404, coded('NoSuchKey'), 'unavailable', noBucket],
  [404, page, 'unavailable', noBucket],
  [301, '', 'unavailable', noServer],
  [400, page, 'unavailable', noServer],
  [200, 'hello', 'unavailable', noServer],
  [400, coded('InvalidPart'), 'unavailable', 'the S3 server refused the request: InvalidPart'],
] as const) {
  void t.test(`S3: the answer ${status} ${body.slice(0, 60)} to a listing is ${code}`, async (t) => {
    const options = await optionsFor(t, () => [status, body])
    await t.rejects(s3Type.open(options, testEnv()), { code, reason })
  })
}

for (const scheme of ['', 'https://']) {
  void t.test(`S3: the address "${scheme}host:port" of a server that does not speak TLS`, async (t) => {
    const options = await optionsFor(t, () => [200, page], scheme)
    const reason = 'the S3 server does not speak TLS: its address should begin with http://'
    await t.rejects(s3Type.open(options, testEnv()), { code: 'unavailable', reason })
  })
}

void t.test('S3: an error whose answer to HEAD names none is asked for again', async (t) => {
  for (const [code, meaning] of [
    ['KeyTooLongError', { code: 'invalid', reason: 'the path is too long' }],
    ['ExpiredToken', { code: 'denied', reason: 'the credentials of this storage have expired' }],
  ] as const) {
    const options = await optionsFor(t, ({ method, url = '' }) => {
      if (method === 'HEAD') return [400, '']
      return url.startsWith('/bucket/name') ? [400, coded(code)] : [200, noObjects]
    })
    const driver = await s3Type.open(options, testEnv())
    t.teardown(() => driver.close?.())
    await t.rejects(driver.stat(asPath('/name')), meaning)
  }
})

void t.test('S3: an empty ETag is no revision', async (t) => {
  for (const ETag of ['', '""', undefined]) t.equal(fileEntry('name', 1, { ETag }, false).revision, undefined)
  t.equal(fileEntry('name', 1, { ETag: 'W/"a"' }, false).revision, 'a')
})

void t.test('S3: the coding of an upload is not that of the object', async (t) => {
  for (const [header, coding] of [
    ['aws-chunked', undefined],
    ['aws-chunked,gzip', 'gzip'],
    ['GZIP, aws-chunked', 'gzip'],
    ['br, gzip', 'br, gzip'],
    ['identity', undefined],
    ['', undefined],
    ['no token', undefined],
  ] as const) {
    t.equal(fileEntry('name', 1, { ContentEncoding: header }, false).contentEncoding, coding, header)
  }
})
