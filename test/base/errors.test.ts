/** The messages, details and conversions of errors. */
import t from 'tap'
import {
  errorCodes,
  GatewayError,
  hasDetail,
  isGatewayError,
  nameTaken,
  toGatewayError,
  TreeError,
} from '../../src/base/errors.js'
import { asPath } from '../../src/base/path.js'

void t.test('the message of a GatewayError holds the operation, the path and the reason', async (t) => {
  t.equal(new GatewayError('not_empty', { op: 'move', path: '/a/b' }).message, 'move: /a/b: not empty')
  t.equal(new GatewayError('not_empty').message, 'not empty')
  const inner = new GatewayError('locked', { path: '/mnt/ada/a', reason: 'locked by bob', retryAfter: 3 })
  const outer = inner.at('move', '/a')
  t.match(outer, { code: 'locked', path: '/a', op: 'move', retryAfter: 3, message: 'move: /a: locked by bob' })
  t.notMatch(outer.message, 'mnt')
  const taken = nameTaken('a').at('move', '/a')
  t.match(taken, { code: 'exists', detail: 'name_taken', subject: 'a', message: 'move: /a: "a" exists already' })
  t.ok(hasDetail(taken, 'name_taken', 'into_itself'))
  t.notOk(hasDetail(taken, 'into_itself'))
  t.notOk(hasDetail(new GatewayError('exists'), 'name_taken'))
  for (const code of errorCodes) t.ok(new GatewayError(code).message.length > 0, code)
})

void t.test('the operations that an error can name are a closed list', async (t) => {
  // @ts-expect-error: not an operation
  const error = new GatewayError('exists', { op: 'frobnicate' })
  t.equal(error.message, 'frobnicate: already exists')
  t.equal(new GatewayError('exists').at(undefined, '/a').message, '/a: already exists', 'none may be known')
})

void t.test('toGatewayError() converts every thrown value to a GatewayError', async (t) => {
  const own = new GatewayError('busy')
  t.equal(toGatewayError(own), own)
  t.equal(toGatewayError(new DOMException('stop', 'AbortError')).code, 'aborted')
  t.equal(toGatewayError(Object.assign(new Error('x'), { code: 'ABORT_ERR' })).code, 'aborted')
  t.equal(toGatewayError(new DOMException('late', 'TimeoutError')).code, 'timeout')
  for (const value of [new Error('/etc/passwd'), 'text', undefined, null, 7]) {
    const error = toGatewayError(value)
    t.match(error, { code: 'internal', message: 'internal error' })
  }
  t.ok(isGatewayError(own, 'busy', 'locked'))
  t.notOk(isGatewayError(own, 'locked'))
  t.notOk(isGatewayError(new Error('x')))
})

void t.test('TreeError.converted() converts the paths of its failures', async (t) => {
  const failure = { path: asPath('/home/ada/x'), error: new GatewayError('locked', { retryAfter: 7 }) }
  const error = new TreeError([failure, { ...failure, path: asPath('/home/ada/y') }])
  const seen = error.converted((path) => asPath(path.slice('/home/ada'.length)))
  t.same(
    seen.failures.map(({ path }) => path),
    ['/x', '/y'],
  )
  t.equal(seen.code, 'locked')
  t.match(seen.message, 'and 1 more')
  t.equal(seen.at('copy', '/x').retryAfter, 7, 'when to try again is told')
})
