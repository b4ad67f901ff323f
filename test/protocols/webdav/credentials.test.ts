/** The Authorization header, and the statuses, texts and headers of error responses. */
import t from 'tap'
import { parseAuthorization } from '../../../protocols/webdav/credentials.js'
import { errorResponses, toErrorResponse } from '../../../protocols/webdav/errors.js'
import { errorCodes, GatewayError } from '../../../src/base/errors.js'

const basic = (text: string, encoding: BufferEncoding = 'base64') => `Basic ${Buffer.from(text).toString(encoding)}`

void t.test('a Basic password may contain colons, UTF-8, and any character of base64', async (t) => {
  for (const password of ['a:b:c', 'pässwörd 世界', '>>>???~~~', '', ' lead and trail ', 'ÿþ']) {
    const expected = { scheme: 'basic', username: 'müller', password }
    t.same(parseAuthorization(basic(`müller:${password}`)), expected)
    t.same(parseAuthorization(basic(`müller:${password}`, 'base64url')), expected)
  }
  t.same(parseAuthorization(`basic   ${Buffer.from('a:é').toString('base64')} `), {
    scheme: 'basic',
    username: 'a',
    password: 'é',
  })
})

void t.test('Basic credentials that are not UTF-8 are invalid', async (t) => {
  for (const text of ['a:\xe9', '\xe9:a', 'a:\xc3']) {
    const header = `Basic ${Buffer.from(text, 'latin1').toString('base64')}`
    t.throws(() => parseAuthorization(header), { code: 'invalid' }, text)
  }
})

void t.test('a Bearer token is passed on unchanged', async (t) => {
  t.same(parseAuthorization('Bearer abc.def-ghi_j'), { scheme: 'bearer', token: 'abc.def-ghi_j' })
})

void t.test('malformed credentials are treated as missing', async (t) => {
  for (const header of ['', 'Basic', 'Basic !!', 'Digest x', basic('no colon'), 'Basic a b']) {
    t.throws(() => parseAuthorization(header), { code: 'unauthenticated' }, header)
  }
})

void t.test('every error code has a suitable status', async (t) => {
  for (const code of errorCodes) {
    const refusal = toErrorResponse(new GatewayError(code))
    t.equal(refusal.status, errorResponses[code].status)
    t.ok(refusal.status >= 400 && refusal.status < 600, code)
  }
})

void t.test('the response to an unexpected error reveals no details', async (t) => {
  t.match(toErrorResponse(new TypeError('secret detail')), { status: 500, message: 'internal error' })
})

void t.test('a symlink that leads nowhere has the text of a missing file', async (t) => {
  const at = { op: 'read', path: '/link' } as const
  t.match(toErrorResponse(new GatewayError('not_found', { ...at, detail: 'dangling_symlink' })).message, /^not found$/)
})

void t.test('throttled and busy errors have a Retry-After header', async (t) => {
  t.same(toErrorResponse(new GatewayError('throttled', { retryAfter: 12.3 })).headers, { 'retry-after': '13' })
  t.same(toErrorResponse(new GatewayError('busy')).headers, { 'retry-after': '1' })
})
