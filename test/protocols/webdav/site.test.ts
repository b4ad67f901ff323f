/** The protocol behind proxies and below a path. */
import t from 'tap'
import { cleanPath } from '../../../src/base/path.js'
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

void t.test('slashes that follow one another are one, in every form of the target', async (t) => {
  for (const site of ['', '/files']) {
    const running = await startGateway(t, { driver, config: { site_url: site.replace('/', '//') } })
    const { gateway, url } = running
    for (const start of [`/${site}//`, `//${site}/`, `${url}/${site}//`]) {
      const send = sender(running, { prefix: '' })
      const target = `${start}dav//a%20b`
      t.equal((await send('PUT', target, {}, 'content')).status, 201, target)
      const { status, body } = await send('PROPFIND', target, { depth: '0' }, propfind('<D:getcontentlength/>'))
      t.equal(status, 207)
      t.same(texts(body, 'href'), [`${site}/dav/a%20b`])
      t.equal((await send('COPY', target, { destination: `${url}/${site}//dav/b` })).status, 201)
      t.equal(
        (await send('GET', `${start}d//a%20b?sign=${gateway.signedUrls.sign(cleanPath('/a b'))}`)).body,
        'content',
      )
      t.equal((await send('GET', `${start}d//a%20b?sign=${gateway.signedUrls.sign(cleanPath('/b'))}`)).status, 401)
      t.equal((await send('GET', `${start}ping`)).body, 'pong')
      t.match((await send('GET', `${start}api/nothing`)).body, /^\{"code":/)
      t.equal((await send('OPTIONS', `${start}dav/`)).headers.dav, '1, 2, 3')
      t.equal((await send('DELETE', target)).status, 204)
      t.equal((await send('DELETE', `${start}dav/b`)).status, 204)
    }
  }
})

void t.test('no Location begins with two slashes', async (t) => {
  const running = await startGateway(t, { config: { site_url: '//files' } })
  const send = sender(running, { prefix: '' })
  await send('PUT', '/files/dav/a', {}, 'a')
  const [storage] = running.gateway.storages.list()
  if (!storage) throw new Error('there is no storage')
  const proxied = { webProxy: true, webdavPolicy: 'use_proxy_url', downProxyUrl: '//proxy.example' } as const
  await running.gateway.storages.update(storage.id, { ...storage, ...proxied })
  await running.gateway.settings.set(new Map([['favicon', '//icons.example/i.png']]))
  const sign = running.gateway.signedUrls.sign(cleanPath('/a'))
  const { host } = new URL(running.url)
  for (const [target, expected] of [
    ['/', '/files/'],
    ['//', '/files/'],
    ['/files/favicon.ico', 'http://icons.example/i.png'],
    ['/files/dav/a', `/files/proxy.example/a?sign=${sign}`],
    [`/files/d/a?sign=${sign}`, `http://${host}/files/proxy.example/a?sign=${sign}`],
  ] as const) {
    const { status, headers } = await send('GET', target)
    t.equal(status, 302, target)
    t.equal(headers.location, expected)
  }
})
