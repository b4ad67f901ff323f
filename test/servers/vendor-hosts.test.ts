/** Connections to the names of a vendor lead to servers on loopback, also those of another process. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { HttpClient } from '../../drivers/lib/http/http-client.js'
import { EgressGuard } from '../../src/net/egress.js'
import { refuses } from '../driver-conformance/subject.js'
import { serveVendorHosts } from './vendor-hosts.js'

const names = ['api.vendor.example', '*.objects.example']

await t.test('a client reaches the hosts by their names, and no other name', async (t) => {
  await serveVendorHosts(t, {
    'api.vendor.example': (_request, response) => response.end('api'),
    '*.objects.example': (request, response) => response.end(request.headers.host),
  })
  const client = new HttpClient({
    server: 'vendor',
    address: new URL('https://api.vendor.example/'),
    domains: ['objects.example'],
    verifiesCertificate: true,
    egress: new EgressGuard(() => ''),
  })
  t.teardown(() => client.close())
  const get = async (url: string) => {
    const { body } = await client.request({ method: 'GET', url: new URL(url) })
    return (await body.toArray()).join('')
  }
  t.equal(await get('https://api.vendor.example/'), 'api')
  t.equal(await get('https://bucket.objects.example/key'), 'bucket.objects.example')
  await refuses(t, () => get('https://other.vendor.example/'), 'unavailable', 'a name that nobody serves')
})

await t.test('so does another process', async (t) => {
  const environment = await serveVendorHosts(
    t,
    Object.fromEntries(names.map((name) => [name, (_request, response) => response.end('from here')])),
  )
  const script = "fetch('https://api.vendor.example/').then((r) => r.text()).then(console.log)"
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', script], {
    env: { ...process.env, ...environment },
  })
  t.equal(stdout.trim(), 'from here')
})
