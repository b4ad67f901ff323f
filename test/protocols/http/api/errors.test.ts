/** The code and message of each error in the API, as existing clients parse them, and which errors are logged. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import t from 'tap'
import { serveDownload } from '../../../../protocols/http/files/download.js'
import {
  badRequest,
  logUnexpected,
  refused,
  toErrorResponse,
  withResponses,
  worded,
} from '../../../../protocols/http/api/errors.js'
import type { HttpApi } from '../../../../protocols/http/api/http-api.js'
import { accessDenied, refusalsOf } from '../../../../protocols/http/api/refusals.js'
import { documentedEndpoints } from '../../../../protocols/http/endpoints.js'
import type { Log } from '../../../../src/base/log.js'
import { errorCodes, errorDetails, GatewayError, nameTaken } from '../../../../src/base/errors.js'
import { asPath, relativePathError } from '../../../../src/base/path.js'

const told = (error: unknown) => {
  const { code, message } = toErrorResponse(error)
  return `${code} ${message}`
}

void t.test('errors have the codes and messages that existing clients parse', async (t) => {
  const at = { op: 'list', path: '/secret/path' } as const
  for (const [error, expected] of [
    [new GatewayError('not_found', at), '500 object not found'],
    [new GatewayError('not_folder', at), '500 not a folder'],
    [new GatewayError('is_folder', at), '500 not a file'],
    [new GatewayError('parent_missing', at), '500 failed to get parent dir: object not found'],
    [new GatewayError('exists', at), '403 file exists'],
    [nameTaken('a b'), '403 file [a b] exists'],
    [new GatewayError('not_found', { detail: 'dangling_symlink' }), '500 object not found'],
    [new GatewayError('denied', { detail: 'dangling_symlink' }), '403 a symlink that leads nowhere'],
    [new GatewayError('denied', at), '403 permission denied'],
    [new GatewayError('denied', { detail: 'refresh_denied' }), '403 Refresh without permission'],
    [new GatewayError('hidden', at), '403 password is incorrect or you have no permission'],
    [new GatewayError('password_required', at), '403 password is incorrect or you have no permission'],
    [new GatewayError('unauthenticated', { detail: 'token_revoked' }), '401 token is invalidated'],
    [new GatewayError('locked', { reason: 'locked by ann' }), '423 locked by ann'],
    [new GatewayError('unsupported', at), '500 not support'],
    [new GatewayError('internal', { reason: '/etc/passwd' }), '500 internal error'],
    [new Error('/etc/passwd'), '500 internal error'],
    [relativePathError(), '403 using relative path is not allowed'],
    [
      new GatewayError('not_found', { detail: 'no_storage', path: asPath('/x') }),
      '500 failed get storage: storage not found; rawPath: /x',
    ],
    [
      new GatewayError('not_found', { detail: 'nothing_mounted' }),
      '500 failed get storage: storage not found; please add a storage first',
    ],
    [new GatewayError('denied', { detail: 'mount_moved' }), '500 move root folder is not allowed'],
    [
      new GatewayError('unavailable', { detail: 'storage_failed', subject: '/x', reason: 'refused' }).at(
        'list',
        '/x/y',
      ),
      '500 storage status: the storage /x does not work: refused: storage not init',
    ],
    [
      new GatewayError('invalid', { detail: 'driver_unknown', subject: 'X' }),
      '400 failed get driver new: no driver named: X',
    ],
    [
      new GatewayError('unavailable', { detail: 'tool_failed', subject: 'aria2', reason: 'no answer' }),
      '500 failed init offline download tool aria2: no answer',
    ],
    [
      new GatewayError('invalid', { detail: 'setting_refused', subject: 'search_index', reason: 'no' }),
      '500 failed to execute hook on search_index: no',
    ],
    [new GatewayError('exists', { detail: 'root_made' }), '500 the root folder cannot be made'],
    [new GatewayError('denied', { detail: 'mount_renamed' }), '500 rename root folder is not allowed'],
    [new GatewayError('invalid', { detail: 'in_place', subject: 'move' }), '500 move in place'],
    [
      new GatewayError('not_found', { detail: 'target_missing' }),
      '500 failed to get dst dir: failed to get obj: object not found',
    ],
    [new GatewayError('not_folder', { detail: 'target_not_folder' }), '500 failed to get dst dir: not a folder'],
    [new GatewayError('unsupported', { detail: 'size_required', reason: 'for logs' }), '500 not support'],
    [new GatewayError('unavailable', { detail: 'size_required', reason: 'no size' }), '500 no size'],
    [refused({ code: 404, text: 'no such endpoint', error: 'endpoint_missing' }), '404 no such endpoint'],
    [badRequest('EOF'), '400 EOF'],
  ] as const) {
    t.equal(told(error), expected)
  }
  t.match(toErrorResponse(new GatewayError('throttled', { retryAfter: 7 })), { code: 429, retryAfter: 7 })
})

void t.test('an endpoint may respond to a code or a detail in its own way, and keeps the original error', async (t) => {
  const responses = {
    code_required: { code: 402 },
    unauthenticated: { code: 400 },
    not_found: { code: 404, text: 'record not found', error: 'not_found' },
  }
  for (const [error, expected] of [
    [new GatewayError('unauthenticated', { detail: 'code_required' }), '402 Invalid 2FA code'],
    [new GatewayError('unauthenticated', { reason: 'no' }), '400 no'],
    [new GatewayError('not_found'), '404 record not found'],
  ] as const) {
    const thrown: unknown = await withResponses(responses, () => Promise.reject(error)).catch(
      (reason: unknown) => reason,
    )
    t.equal(told(thrown), expected)
    t.equal((thrown as Error).cause, error)
  }
  for (const error of [new GatewayError('denied'), new TypeError('x')]) {
    await t.rejects(
      withResponses(responses, () => {
        throw error
      }),
      error,
    )
  }
  t.equal(await withResponses(responses, () => 7), 7)
})

void t.test(
  'the name of a failure is the detail or the code of its error, and tells no more than its text',
  async (t) => {
    for (const [error, name] of [
      [new GatewayError('not_found'), 'not_found'],
      [new GatewayError('denied', { detail: 'refresh_denied' }), 'refresh_denied'],
      [new GatewayError('password_required'), 'password_required'],
      [new GatewayError('hidden'), 'password_required'],
      [new GatewayError('denied', { detail: 'parent_hidden' }), 'password_required'],
      [new GatewayError('unauthenticated', { detail: 'wrong_credentials' }), 'wrong_credentials'],
      [new GatewayError('not_found', { detail: 'dangling_symlink' }), 'not_found'],
      [new GatewayError('denied', { detail: 'dangling_symlink' }), 'dangling_symlink'],
      [new TypeError('x'), 'internal'],
      [worded(new GatewayError('denied'), accessDenied), 'password_required'],
      [worded(new GatewayError('invalid', { detail: 'code_required' }), { code: 402 }), 'code_required'],
      [badRequest('EOF'), 'invalid'],
    ] as const) {
      t.equal(toErrorResponse(error).error, name)
    }
  },
)

void t.test('nothing in the response to a refusal tells a hidden path from a wrong folder password', async (t) => {
  const expected = toErrorResponse(new GatewayError('hidden'))
  const denied = new GatewayError('denied')
  for (const error of [
    new GatewayError('password_required'),
    new GatewayError('hidden', { detail: 'parent_hidden' }),
    new GatewayError('password_required', { detail: 'parent_hidden' }),
    new GatewayError('denied', { detail: 'parent_hidden' }),
  ]) {
    t.strictSame(toErrorResponse(error), expected)
  }
  const { retryAfter: _, ...own } = expected
  t.strictSame(toErrorResponse(worded(denied, accessDenied)), own)
})

void t.test('failures that share a code and a text share a name', async (t) => {
  const nameOf = new Map<string, string>()
  const add = (code: number, text: string, name: string) => {
    const known = nameOf.get(`${code} ${text}`) ?? name
    t.equal(name, known, `${code} ${text}`)
    nameOf.set(`${code} ${text}`, known)
  }
  for (const code of errorCodes) {
    for (const detail of [undefined, ...errorDetails]) {
      const { code: sent, message, error } = toErrorResponse(new GatewayError(code, { detail }))
      add(sent, message, error)
    }
  }
  for (const { code, text, error } of documentedEndpoints.flatMap(refusalsOf)) {
    if (!text.includes('…')) add(code, text, error)
  }
  t.ok(nameOf.size > errorCodes.length + errorDetails.length)
})

void t.test('the HTTP status of a detail is that of its code, whatever the code of the envelope', async (t) => {
  for (const [error, code, status] of [
    [new GatewayError('denied', { detail: 'mount_moved' }), 500, 403],
    [new GatewayError('not_found', { detail: 'target_missing' }), 500, 404],
    [new GatewayError('invalid', { detail: 'setting_refused' }), 500, 400],
    [new GatewayError('invalid', { detail: 'relative_path' }), 403, 403],
    [new GatewayError('unavailable', { detail: 'search_off' }), 404, 404],
  ] as const) {
    t.match(toErrorResponse(error), { code, status })
  }
})

void t.test("the HTTP status of an endpoint's own response is that of the error, else that of its name", async (t) => {
  const statusOf = (error: unknown) => toErrorResponse(error).status
  t.equal(statusOf(worded(new GatewayError('unauthenticated'), { code: 400 })), 401)
  t.equal(statusOf(worded(new GatewayError('unavailable'), { code: 500 })), 502)
  t.equal(statusOf(worded(new GatewayError('invalid'), { code: 500, status: 500 })), 500)
  t.equal(statusOf(refused({ code: 500, text: 'record not found', error: 'not_found' })), 404)
  t.equal(statusOf(refused({ code: 409, text: 'x', error: 'busy' })), 409)
})

void t.test('the code of an error does not depend on its reason', async (t) => {
  const reason = 'move root folder is not allowed'
  t.match(toErrorResponse(new GatewayError('denied', { reason })), { code: 403, status: 403, message: reason })
  t.equal(told(new GatewayError('exists', { reason: 'file [a] exists' })), '403 file exists')
  t.equal(told(new GatewayError('not_found', { reason: 'storage not found' })), '500 object not found')
})

void t.test('every error code has an envelope code, a message and an HTTP status', async (t) => {
  for (const code of errorCodes) {
    const { code: wire, status, message } = toErrorResponse(new GatewayError(code))
    t.ok(wire >= 400 && wire < 600 && status >= 400 && status < 600 && message !== '', code)
  }
  t.equal(toErrorResponse(new GatewayError('not_found')).status, 404)
})

void t.test('only unexpected errors are logged, each once', async (t) => {
  const lines: unknown[] = []
  const add = (details: object, message: string) => void lines.push({ ...details, message })
  const log: Log = { debug: add, info: add, warn: add, error: add, child: () => log }
  const unexpected = new TypeError('x')
  const internal = new GatewayError('internal', { op: 'write', path: '/a', cause: unexpected })
  const checked = new GatewayError('internal', { op: 'stat', path: '/b', cause: unexpected })
  const own = refused({ code: 500, text: 'x', error: 'invalid' })
  const endpointErrors = [own, worded(checked, { code: 500 }), worded(checked, { code: 500 })]
  for (const error of [unexpected, internal, internal, new GatewayError('not_found'), ...endpointErrors]) {
    logUnexpected(log, error, { method: 'PUT' })
  }
  t.same(lines, [
    { method: 'PUT', err: unexpected, message: 'internal error' },
    { method: 'PUT', err: unexpected, message: 'write: /a: internal error' },
    { method: 'PUT', err: unexpected, message: 'stat: /b: internal error' },
  ])
})

void t.test('the line about an unexpected error of a download has its request, without the signature', async (t) => {
  const lines: unknown[] = []
  const log = { error: (details: object) => lines.push(details), debug: () => undefined }
  const unexpected = new TypeError('x')
  const clientOf = () => ({ address: '127.0.0.1' })
  const gateway = { log, signedUrls: { authorize: () => Promise.reject(unexpected) } }
  const api = { clientOf, gateway, protocol: { name: 'http' } }
  const request = { method: 'GET', url: '/d/a%20b?sign=secret' }
  const response = { headersSent: true, destroyed: true }
  await serveDownload(
    api as unknown as HttpApi,
    request as unknown as IncomingMessage,
    response as unknown as ServerResponse,
  )
  t.strictSame(lines, [{ protocol: 'http', method: 'GET', url: '/d/a%20b', err: unexpected }])
})
