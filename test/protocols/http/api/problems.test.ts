/** Clients that name problem documents (RFC 9457) in Accept receive them for failures. */
import t from 'tap'
import { serve } from '../served.js'

const problem = 'application/problem+json'

void t.test('a failure is a problem document where Accept names its type, and an envelope elsewhere', async (t) => {
  const { url, token } = await serve(t)
  const ask = (accept: string, path = '/none', authorization = token) =>
    fetch(`${url}/api/fs/get`, {
      method: 'POST',
      headers: { accept, authorization, 'content-type': 'application/json' },
      body: JSON.stringify({ path }),
    })
  for (const accept of [problem, 'application/json, Application/Problem+JSON;q=0.5', `${problem}; charset=utf-8`]) {
    const response = await ask(accept)
    t.equal(response.status, 404, accept)
    t.equal(response.headers.get('content-type'), problem)
    t.match(response.headers.get('vary'), /\bAccept\b/)
    t.strictSame(await response.json(), {
      type: 'about:blank',
      title: 'Not Found',
      status: 404,
      detail: 'object not found',
      error: 'not_found',
    })
  }
  const envelope = { code: 500, message: 'object not found', data: null, error: 'not_found' }
  for (const accept of ['*/*', 'application/*', 'application/json', `${problem};q=0`, `${problem}; q=0.000`]) {
    const response = await ask(accept)
    t.equal(response.status, 200, accept)
    t.match(response.headers.get('vary'), /\bAccept\b/)
    t.strictSame(await response.json(), envelope)
  }
  const success = await ask(problem, '/')
  t.equal(success.status, 200)
  t.strictSame(Object.keys((await success.json()) as object), ['code', 'message', 'data'])
  const unauthenticated = await ask(problem, '/', 'wrong')
  t.equal(unauthenticated.status, 401)
  t.equal(unauthenticated.headers.get('www-authenticate'), 'Bearer')
  t.match(await unauthenticated.json(), { title: 'Unauthorized', status: 401, error: 'token_revoked' })
})

void t.test('a problem document has the data of the failure, and masks what the settings hide', async (t) => {
  const { url, token, gateway } = await serve(t)
  await gateway.settings.set(new Map([['privacy_regs', 'out of \\w+']]))
  const response = await fetch(`${url}/api/admin/storage/create`, {
    method: 'POST',
    headers: { accept: problem, authorization: token, 'content-type': 'application/json' },
    body: JSON.stringify({ mount_path: '/broken', driver: 'Broken', addition: '{}' }),
  })
  t.equal(response.status, 502)
  const { detail, data, error } = (await response.json()) as { detail: string; data: { id: number }; error: string }
  t.equal(error, 'storage_created')
  t.equal(data.id, 2)
  t.match(detail, /already created: failed init storage: \*+$/)
})

void t.test('a path without an endpoint is a problem document too, and a download an HTML page', async (t) => {
  const { url } = await serve(t)
  const headers = { accept: problem }
  const missing = await fetch(`${url}/api/nothing`, { headers })
  t.equal(missing.status, 404)
  t.match(await missing.json(), { detail: 'no such endpoint', error: 'endpoint_missing' })
  const download = await fetch(`${url}/d/none`, { headers })
  t.equal(download.headers.get('content-type'), 'text/html; charset=utf-8')
})

void t.test('Retry-After is sent with a problem document', async (t) => {
  const { url } = await serve(t)
  const attempt = () =>
    fetch(`${url}/api/auth/login`, {
      method: 'POST',
      headers: { accept: problem, 'content-type': 'application/json' },
      body: JSON.stringify({ username: 'admin', password: 'wrong' }),
    })
  let response = await attempt()
  t.equal(response.status, 401)
  t.match(await response.json(), { error: 'wrong_credentials', detail: 'Invalid username or password' })
  for (let tries = 0; response.status === 401 && tries < 20; tries++) response = await attempt()
  t.equal(response.status, 429)
  t.ok(Number(response.headers.get('retry-after')) > 0)
  t.match(await response.json(), { title: 'Too Many Requests', error: 'sign_in_throttled' })
})
