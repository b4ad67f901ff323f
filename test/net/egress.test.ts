/** The egress guard: it checks the address of each connection, whatever the host name. */
import type { LookupAddress } from 'node:dns'
import { once } from 'node:events'
import { createServer, request, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { GatewayError } from '../../src/base/errors.js'
import { parseNetworks } from '../../src/net/addresses.js'
import { EgressGuard, isAllowedAddress } from '../../src/net/egress.js'
import { startGateway } from '../gateway.js'

const none = parseNetworks('')

await t.test('without a setting, only public addresses are allowed', async (t) => {
  const refused = [
    ...['0.0.0.0', '10.1.2.3', '100.64.0.1', '100.100.100.200', '127.0.0.1', '127.255.255.254', '169.254.169.254'],
    ...['172.16.0.1', '172.31.255.255', '192.0.0.192', '192.168.1.1', '198.18.0.1', '224.0.0.1', '239.1.1.1'],
    ...['240.0.0.1', '255.255.255.255', '168.63.129.16'],
    ...[
      '::',
      '::1',
      '::127.0.0.1',
      'fe80::1',
      'fe80::1%eth0',
      'fec0::1',
      'fc00::1',
      'fd00:ec2::254',
      'ff02::1',
      '100::1',
    ],
    ...['2001:db8::1', '2001::1', '3fff::1'],
    ...['::ffff:127.0.0.1', '::ffff:169.254.169.254', '::ffff:a9fe:a9fe', '0:0:0:0:0:ffff:10.0.0.1'],
    ...['64:ff9b::127.0.0.1', '64:ff9b::a00:1', '64:ff9b:1::1', '2002:7f00:1::', '2002:a9fe:a9fe::1'],
    ...['localhost', '', '1.2.3', '2130706433', '0177.0.0.1'],
  ]
  for (const address of refused) t.equal(isAllowedAddress(address, none), false, `${address} is refused`)
  const allowed = [
    ...['1.1.1.1', '9.255.255.255', '11.0.0.0', '100.63.255.255', '100.128.0.0', '126.255.255.255', '172.15.255.255'],
    ...['172.32.0.0', '192.167.255.255', '223.255.255.255', '::ffff:8.8.8.8', '64:ff9b::8.8.8.8', '2002:808:808::1'],
    ...['2606:4700:4700::1111', '2a00::1', '2001:4860:4860::8888'],
  ]
  for (const address of allowed) t.equal(isAllowedAddress(address, none), true, `${address} is allowed`)
})

await t.test('addresses in the networks of the setting are allowed in every notation', async (t) => {
  const networks = parseNetworks('127.0.0.0/8, 10.0.0.7\nfd12::/16\n')
  for (const address of ['127.0.0.1', '::ffff:127.0.0.1', '::ffff:7f00:1', '64:ff9b::7f00:1', '10.0.0.7', 'fd12::9']) {
    t.equal(isAllowedAddress(address, networks), true, address)
  }
  for (const address of ['10.0.0.8', '192.168.0.1', '::1', 'fd13::9']) {
    t.equal(isAllowedAddress(address, networks), false, address)
  }
  for (const text of [
    '10.0.0.0/33',
    'fe80::/129',
    'localhost',
    '10.0.0/8',
    '10.0.0.0/8/8',
    '10.0.0.0/',
    'fe80::1%eth0',
  ]) {
    t.throws(() => parseNetworks(text), { code: 'invalid' }, text)
  }
})

async function fetched(guard: EgressGuard, address: string, more: object = {}): Promise<string> {
  const url = new URL(address)
  try {
    const asked = request(url, { agent: guard.agentFor(url), ...more }).end()
    const [answer] = (await once(asked, 'response')) as [IncomingMessage]
    answer.resume()
    return `status ${answer.statusCode ?? 0}`
  } catch (error) {
    if (error instanceof GatewayError) return error.code
    throw error
  }
}

await t.test('EgressGuard checks the address of a connection, whatever the notation of the host', async (t) => {
  const server = createServer((_request, answer) => answer.end('secret')).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  let networks = ''
  const guard = new EgressGuard(() => networks)
  const hosts = [
    ...['127.0.0.1', 'localhost', '127.1', '2130706433', '0x7f000001', '0177.0.0.1', '0', '[::1]'],
    ...['[::ffff:127.0.0.1]', '[::ffff:169.254.169.254]', '[::ffff:7f00:1]', '[64:ff9b::7f00:1]'],
  ]
  for (const host of hosts) t.equal(await fetched(guard, `http://${host}:${port}/`), 'denied', host)
  // Notations that are not valid in a URL reach the look-up as a name.
  t.equal(await fetched(guard, `http://example.org:${port}/`, { hostname: '0177.0.0.1' }), 'denied', 'octal')
  networks = '127.0.0.0/8'
  t.equal(await fetched(guard, `http://127.0.0.1:${port}/`), 'status 200', 'the network is allowed')
  t.equal(await fetched(guard, `http://localhost:${port}/`), 'status 200')
  networks = ''
  t.equal(await fetched(guard, `http://127.0.0.1:${port}/`), 'denied', 'no connection is reused')
})

await t.test(
  'EgressGuard checks the address that the connection uses, so that DNS rebinding gains nothing',
  async (t) => {
    const server = createServer((_request, answer) => answer.end('secret')).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => server.close())
    const address = `http://rebinding.example:${(server.address() as AddressInfo).port}/`
    const answers: LookupAddress[][] = []
    const resolved = new EgressGuard(
      () => '127.0.0.1/32',
      (_hostname, _options, done) => {
        done(null, answers.shift() ?? [])
      },
    )
    const as = (...addresses: string[]): LookupAddress[] =>
      addresses.map((each) => ({ address: each, family: each.includes(':') ? 6 : 4 }))
    answers.push(as('127.0.0.1'), as('127.0.0.2'), as('10.0.0.1', '127.0.0.2', 'fe80::1'), as())
    t.equal(await fetched(resolved, address), 'status 200', 'an allowed address')
    t.equal(await fetched(resolved, address), 'denied', 'the same name, now with a forbidden address')
    t.equal(await fetched(resolved, address), 'denied', 'several addresses, all forbidden')
    t.equal(await fetched(resolved, address), 'denied', 'no address')
    answers.push(as('127.0.0.2', '::1', '127.0.0.1'))
    t.equal(await fetched(resolved, address), 'status 200', 'only the allowed address is tried')
  },
)

await t.test('allowsHost() requires every address of a host to be allowed', async (t) => {
  const names = new Map([
    ['good.example', ['1.1.1.1', '2606:4700::1']],
    ['mixed.example', ['1.1.1.1', '10.0.0.1']],
    ['inside.example', ['::ffff:169.254.169.254']],
    ['empty.example', []],
  ])
  const guard = new EgressGuard(
    () => '',
    (hostname, _options, done) => {
      const addresses = names.get(hostname)
      if (!addresses) done(new Error('unknown'), [])
      else
        done(
          null,
          addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
        )
    },
  )
  for (const host of ['good.example', '1.1.1.1', '[2606:4700::1]']) {
    t.equal(await guard.allowsHost(new URL(`http://${host}/`)), true, host)
  }
  const refused = [
    'mixed.example',
    'inside.example',
    'empty.example',
    'unknown.example',
    '127.1',
    '[::1]',
    '2130706433',
  ]
  for (const host of refused) t.equal(await guard.allowsHost(new URL(`http://${host}/`)), false, host)
  for (const address of ['udp://10.0.0.1:80', 'ftp://127.0.0.1/', 'udp://good.example:80']) {
    t.equal(await guard.allowsHost(new URL(address)), address.includes('good'), address)
  }
})

await t.test('agentFor() rejects other schemes and addresses with credentials', async (t) => {
  const guard = new EgressGuard(() => '0.0.0.0/0')
  for (const address of [
    'file:///etc/passwd',
    'ftp://example.org/',
    'data:,x',
    'http://name:word@example.org/',
    'https://name@example.org',
  ]) {
    t.throws(() => guard.agentFor(new URL(address)), { code: 'invalid' }, address)
  }
})

await t.test('egress_networks rejects a value that is not a list of networks', async (t) => {
  const { gateway } = await startGateway(t)
  const set = (value: string) => gateway.settings.set(new Map([['egress_networks', value]]))
  await t.rejects(set('10.0.0.0/8 nonsense'), { code: 'invalid', message: /nonsense/ })
  t.equal(gateway.settings.get('egress_networks'), '')
  await set('10.0.0.0/8\n192.168.0.0/16')
})
