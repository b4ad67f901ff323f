/** The protocol behind proxies and below a path. */
import t from 'tap'
import { startGateway } from '../../gateway.js'
import { propfind, sender, texts } from './dav-client.js'

const driver = { name: 'Memory' }

void t.test('hrefs and Destination are below the path of the site', async (t) => {
  const running = await startGateway(t, { driver, config: { site_url: 'https://files.example/store/' } })
  const send = sender(running, { prefix: '/store/dav' })
  t.equal((await send('PUT', '/a', {}, 'a')).status, 201)
  const { body } = await send('PROPFIND', '', { depth: '1' }, propfind('<D:displayname/>'))
  t.same(texts(body, 'href'), ['/store/dav/', '/store/dav/a'])
  const copy = async (destination: string) => (await send('COPY', '/a', { destination })).status
  t.equal(await copy('https://files.example/store/dav/b'), 201)
  t.equal(await copy('http://FILES.example:80/store/dav/b'), 204)
  t.equal(await copy('/store/dav/b'), 204)
  t.equal(await copy('https://files.example/dav/b'), 502)
  t.equal(await copy('https://files.example:8443/store/dav/b'), 502)
  t.equal(await copy('https://other.example/store/dav/b'), 502)
})

void t.test('behind TLS termination, Destination must have the host that the client uses', async (t) => {
  const running = await startGateway(t, { driver })
  const send = sender(running)
  await send('PUT', '/a', {}, 'a')
  const copy = async (destination: string, headers: Record<string, string>) =>
    (await send('COPY', '/a', { destination, ...headers })).status
  t.equal(await copy('https://dav.example/dav/b', { host: 'dav.example' }), 201)
  t.equal(await copy('https://dav.example:443/dav/b', { host: 'dav.example' }), 204)
  t.equal(await copy('https://dav.example/dav/b', { host: 'inside:5244' }), 502)
})

void t.test('forwarded hosts are accepted from trusted proxies only', async (t) => {
  const trusted = await startGateway(t, { driver, config: { trusted_proxies: ['127.0.0.0/8'] } })
  const others = await startGateway(t, { driver })
  const headers = { destination: 'https://dav.example/dav/b', host: 'inside', 'x-forwarded-host': 'dav.example' }
  for (const [running, status] of [
    [trusted, 201],
    [others, 502],
  ] as const) {
    const send = sender(running)
    await send('PUT', '/a', {}, 'a')
    t.equal((await send('COPY', '/a', headers)).status, status)
  }
})
