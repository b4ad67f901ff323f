/** The address, scheme and host of a client, with and without trusted proxies. */
import type { IncomingMessage } from 'node:http'
import t from 'tap'
import { clientOf } from '../../../protocols/lib/client.js'
import { configSchema } from '../../../src/installation/config.js'
import { protocols } from '../../../protocols/index.js'

function request(
  remoteAddress: string,
  headers: Record<string, string> = {},
  socket: Record<string, unknown> = {},
): IncomingMessage {
  return {
    headers: { host: 'files.example:5244', ...headers },
    socket: { remoteAddress, localAddress: '::ffff:10.9.9.9', localPort: 5244, ...socket },
  } as unknown as IncomingMessage
}

const trusting = (...proxies: readonly string[]) => ({
  trustedProxies: configSchema(protocols).parse({ trusted_proxies: proxies }).trusted_proxies,
  siteUrl: '',
})
const none = trusting()
const behind = trusting('10.0.0.0/8', '192.168.1.1', 'fd00::/8')

void t.test('without trusted proxies the address is that of the socket', async (t) => {
  const headers = {
    'x-forwarded-for': '1.2.3.4',
    'x-real-ip': '1.2.3.4',
    forwarded: 'for=1.2.3.4;proto=https;host=evil.example',
    'x-forwarded-proto': 'https',
    'x-forwarded-host': 'evil.example',
  }
  t.same(clientOf(request('::ffff:203.0.113.9', headers), none), {
    address: '203.0.113.9',
    secure: false,
    origin: 'http://files.example:5244',
    baseUrl: 'http://files.example:5244',
  })
  t.equal(clientOf(request('203.0.113.9', headers), behind).address, '203.0.113.9')
  t.equal(clientOf(request('fe80::1%eth0'), none).address, 'fe80::1')
})

void t.test('behind trusted proxies the address is the rightmost one that is not a trusted proxy', async (t) => {
  for (const [headers, address] of [
    [{ 'x-forwarded-for': '6.6.6.6, 203.0.113.9, 10.1.1.1' }, '203.0.113.9'],
    [{ 'x-forwarded-for': '203.0.113.9' }, '203.0.113.9'],
    [{ 'x-forwarded-for': '203.0.113.9:5555' }, '203.0.113.9'],
    [{ 'x-forwarded-for': '[2001:db8::1]:5555' }, '2001:db8::1'],
    [{ 'x-forwarded-for': '::ffff:203.0.113.9' }, '203.0.113.9'],
    [{ 'x-forwarded-for': '203.0.113.9, rubbish' }, '10.0.0.1'],
    [{ 'x-forwarded-for': '203.0.113.9, rubbish, 10.2.2.2' }, '10.2.2.2'],
    [{ 'x-forwarded-for': '10.3.3.3, fd00::5' }, '10.3.3.3'],
    [{ 'x-forwarded-for': '' }, '10.0.0.1'],
    [{ 'x-real-ip': '203.0.113.9' }, '203.0.113.9'],
    [{ 'x-real-ip': '6.6.6.6', 'x-forwarded-for': '203.0.113.9' }, '203.0.113.9'],
    [{ forwarded: 'for=6.6.6.6, for="[2001:db8::1]:4711";proto=https' }, '2001:db8::1'],
    [{ forwarded: 'for=_hidden', 'x-forwarded-for': '6.6.6.6' }, '10.0.0.1'],
    [{ forwarded: 'for=6.6.6.6', 'x-forwarded-for': '203.0.113.9' }, '10.0.0.1'],
    [{ forwarded: 'for=6.6.6.6', 'x-real-ip': '203.0.113.9' }, '10.0.0.1'],
    [{ forwarded: 'for=203.0.113.9', 'x-forwarded-for': '203.0.113.9' }, '203.0.113.9'],
    [{}, '10.0.0.1'],
  ] as [Record<string, string>, string][]) {
    t.equal(clientOf(request('10.0.0.1', headers), behind).address, address, JSON.stringify(headers))
  }
})

void t.test('scheme and host are taken from a trusted proxy if they are valid', async (t) => {
  const told = (headers: Record<string, string>) => clientOf(request('192.168.1.1', headers), behind).origin
  t.equal(told({ 'x-forwarded-proto': 'https', 'x-forwarded-host': 'a.example' }), 'https://a.example')
  t.equal(told({ 'x-forwarded-proto': 'HTTPS, http', 'x-forwarded-host': 'a.example, b.example' }), 'https://a.example')
  t.equal(told({ 'x-forwarded-proto': 'https' }), 'https://files.example:5244')
  t.equal(told({ 'x-forwarded-host': 'a.example/"><script>' }), 'http://files.example:5244')
  t.equal(told({ forwarded: 'proto=https;host="[::1]:8443"' }), 'https://[::1]:8443')
  t.equal(told({ 'x-forwarded-proto': 'gopher' }), 'http://files.example:5244')
  t.equal(clientOf(request('1.1.1.1', { host: 'a b' }), none).origin, 'http://10.9.9.9:5244')
  t.equal(clientOf(request('1.1.1.1', {}, { encrypted: true }), none).origin, 'https://files.example:5244')
})

void t.test('a configured site URL overrides headers', async (t) => {
  const at = (siteUrl: string) => clientOf(request('1.1.1.1'), { ...none, siteUrl })
  t.match(at('https://files.example.org/sub/'), {
    origin: 'https://files.example.org',
    baseUrl: 'https://files.example.org/sub',
  })
  t.match(at('/sub'), { origin: 'http://files.example:5244', baseUrl: 'http://files.example:5244/sub' })
  t.equal(at('/').baseUrl, 'http://files.example:5244')
})
