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
  t.equal(options.status, 200, 'OPTIONS of its own is a question to the server')
  t.equal(options.headers.get('dav'), '1, 2, 3')
})
