/** CORS for WebDAV clients in web pages of other origins; no header of the webdav-server library is sent. */
import t from 'tap'
import { startGateway } from '../../gateway.js'

void t.test('a web page of another origin may be a WebDAV client', async (t) => {
  const { davUrl, adminPassword } = await startGateway(t)
  const origin = 'https://app.example'
  const preflight = await fetch(davUrl, {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': 'PROPFIND',
      'access-control-request-headers': 'authorization,depth',
    },
  })
  t.equal(preflight.status, 204)
  t.equal(preflight.headers.get('access-control-allow-origin'), '*')
  t.equal(preflight.headers.get('access-control-allow-headers'), 'authorization,depth')
  const authorization = `Basic ${Buffer.from(`admin:${adminPassword}`).toString('base64')}`
  const listing = await fetch(davUrl, { method: 'PROPFIND', headers: { origin, authorization, depth: '0' } })
  t.equal(listing.status, 207)
  t.equal(listing.headers.get('access-control-allow-origin'), '*')
  const options = await fetch(davUrl, { method: 'OPTIONS', headers: { origin } })
  t.equal(options.status, 200, 'OPTIONS that is not a preflight request is handled by the protocol')
  t.equal(options.headers.get('dav'), '1, 2, 3')
})

void t.test('a response has no headers of webdav-server', async (t) => {
  const origin = 'https://app.example'
  const { davUrl, adminPassword } = await startGateway(t, { config: { cors_origins: [origin] } })
  const credentials = `Basic ${Buffer.from(`admin:${adminPassword}`).toString('base64')}`
  const cases = [
    { method: 'PROPFIND', authorization: credentials, status: 207 },
    { method: 'PROPFIND', authorization: 'Basic !!', status: 401 },
    { method: 'DELETE', authorization: credentials, status: 404 },
    { method: 'POST', authorization: credentials, status: 405 },
    { method: 'REPORT', authorization: 'Basic !!', status: 501 },
  ]
  for (const { method, authorization, status } of cases) {
    const path = method === 'DELETE' ? 'missing' : ''
    const request = (from: string) =>
      fetch(davUrl + path, {
        method,
        headers: { origin: from, authorization, depth: method === 'DELETE' ? 'infinity' : '0' },
      })
    const { headers, status: received } = await request(origin)
    t.equal(received, status, method)
    t.equal(headers.get('access-control-allow-origin'), origin)
    t.equal(headers.get('vary'), 'Origin')
    for (const name of ['server', 'dav', 'ms-author-via', 'access-control-allow-credentials'])
      t.notOk(headers.has(name), name)
    t.equal(headers.has('allow'), status > 404)
    t.notOk((await request('https://other.example')).headers.has('access-control-allow-origin'))
  }
})
