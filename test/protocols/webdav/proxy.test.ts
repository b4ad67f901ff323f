/**
 * Behind a reverse proxy that terminates TLS, on a path: all URLs in requests and responses are those of the client.
 */
import { execFile } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { asPath } from '../../../src/base/path.js'
import type { ConfigInput } from '../../../src/installation/config.js'
import { newStorage } from '../../../src/database/new-storage.js'
import { startGateway, type RunningGateway } from '../../gateway.js'
import { lacks } from '../../programs.js'
import { directUrlType } from '../http/files/direct-url-driver.js'
import { lockinfo, propfind, sender, texts, tokenOf, type Send } from './dav-client.js'
import { litmusPasses } from './litmus.js'
import { startNginx, type Proxy } from './nginx.js'

const run = promisify(execFile)
const missing = lacks('nginx', 'openssl')

interface Setting {
  readonly title: string
  readonly config: (proxy: Proxy) => ConfigInput
  /** Headers that the proxy sends to the gateway. */
  readonly headers: Readonly<Record<string, string>>
  /** Whether even a Destination with the host of the proxy is rejected, as are all other hosts. */
  readonly stranger?: boolean
}

const forwarded = {
  Host: 'backend.internal',
  'X-Forwarded-For': '$proxy_add_x_forwarded_for',
  'X-Forwarded-Proto': '$scheme',
  'X-Forwarded-Host': '$http_host',
}

const settings: readonly Setting[] = [
  {
    title: 'a proxy that passes on the Host header',
    config: () => ({ site_url: '/files' }),
    headers: { Host: '$http_host' },
  },
  {
    title: 'a trusted proxy that sends X-Forwarded headers',
    config: () => ({ site_url: '/files', trusted_proxies: ['127.0.0.1'] }),
    headers: forwarded,
  },
  {
    title: 'a trusted proxy that sends the Forwarded header of RFC 7239',
    config: () => ({ site_url: '/files', trusted_proxies: ['127.0.0.0/8'] }),
    headers: { Host: 'backend.internal', Forwarded: '"for=$remote_addr;proto=$scheme;host=\\"$http_host\\""' },
  },
  {
    title: 'a proxy without headers, and a site with a configured URL',
    config: ({ url }) => ({ site_url: `${url}/files` }),
    headers: { Host: 'backend.internal' },
  },
  {
    title: 'an untrusted proxy that sends X-Forwarded headers',
    config: () => ({ site_url: '/files' }),
    headers: forwarded,
    stranger: true,
  },
]

void t.test('WebDAV behind nginx', { skip: missing }, async (t) => {
  const proxy = await startNginx(t)
  const start = async (config: ConfigInput, headers: Setting['headers']) => {
    const directUrls = { directUrl: () => ({ url: '/d/direct' }), asked: 0 }
    const running = await startGateway(t, { config, driverTypes: [directUrlType(directUrls)] })
    await proxy.serve({ path: '/files/', backend: running.url, headers })
    return running
  }

  for (const { title, config, headers, stranger = false } of settings) {
    await t.test(title, async (t) => {
      const running = await start(config(proxy), headers)
      const send = secureSender(proxy, running)
      const here = `${proxy.url}/files/dav`
      t.equal((await send('PUT', '/ä b', {}, 'content')).status, 201)

      const asked = await send('PROPFIND', '/', { depth: '1' }, propfind('<D:displayname/>'))
      t.ok(texts(asked.body, 'href').includes('/files/dav/%C3%A4%20b'), 'hrefs are below the path of the site')

      const moved = await send('MOVE', '/ä b', { destination: `${here}/moved` })
      t.equal(moved.status, stranger ? 502 : 201, 'Destination with the URL of the proxy')
      const byPath = await send('COPY', stranger ? '/ä b' : '/moved', { destination: '/files/dav/copied' })
      t.equal(byPath.status, 201, 'Destination without a host')
      for (const other of [`https://other.example/files/dav/x`, `${proxy.url}/dav/x`, `${proxy.url}/files/d/x`]) {
        t.equal((await send('COPY', '/copied', { destination: other })).status, 502, other)
      }

      const locked = await send('LOCK', '/copied', {}, lockinfo('exclusive'))
      t.match(locked.body, '<D:lockroot><D:href>/files/dav/copied</D:href></D:lockroot>')
      const refused = await send('PUT', '/copied', {}, 'x')
      t.match(refused, { status: 423, body: /<D:href>\/files\/dav\/copied<\/D:href>/ })
      const token = tokenOf(locked)
      const tag = stranger ? '/files/dav/copied' : `${here}/copied`
      t.equal((await send('PUT', '/copied', { if: `<${tag}> (${token})` }, 'x')).status, 204, 'a tagged list')
      const deleted = await send('DELETE', '/', {})
      t.not(deleted.status, 204, 'the root cannot be deleted')

      await mountWithDirectUrls(running)
      await send('PUT', '/linked/file', {}, 'x')
      const direct = await send('GET', '/linked/file')
      t.match(direct, { status: 302, headers: { location: '/files/d/direct' } })
    })
  }

  await t.test('litmus passes through the proxy', { skip: lacks('litmus') }, async (t) => {
    const running = await start({ site_url: '/files' }, { Host: '$http_host' })
    await litmusPasses(t, `${proxy.url}/files/dav/`, running.adminPassword)
  })

  await t.test(
    'rclone syncs through the proxy, and a second sync transfers nothing',
    { skip: lacks('rclone') },
    async (t) => {
      const running = await start({ site_url: '/files', trusted_proxies: ['127.0.0.1'] }, forwarded)
      const folder = t.testdir()
      await mkdir(join(folder, 'in', 'a #1%'), { recursive: true })
      for (const name of ['one', 'ü & <two>.txt']) await writeFile(join(folder, 'in', 'a #1%', name), name.repeat(1000))
      const environment = {
        ...process.env,
        RCLONE_CONFIG: join(folder, 'none.conf'),
        RCLONE_CONFIG_T_TYPE: 'webdav',
        RCLONE_CONFIG_T_URL: `${proxy.url}/files/dav`,
        RCLONE_CONFIG_T_VENDOR: 'owncloud',
        RCLONE_CONFIG_T_USER: 'admin',
        RCLONE_CONFIG_T_PASS: (await run('rclone', ['obscure', running.adminPassword])).stdout.trim(),
      }
      const rclone = async (...words: readonly string[]) =>
        (await run('rclone', ['--no-check-certificate', '-v', ...words], { env: environment })).stderr
      await rclone('sync', join(folder, 'in'), 'T:up')
      t.notMatch(await rclone('sync', join(folder, 'in'), 'T:up'), /Copied/)
      await rclone('moveto', 'T:up/a #1%/one', 'T:up/renamed one')
      await rclone('sync', 'T:up', join(folder, 'out'))
      t.equal(await readFile(join(folder, 'out', 'renamed one'), 'utf8'), 'one'.repeat(1000))
      t.equal(await readFile(join(folder, 'out', 'a #1%', 'ü & <two>.txt'), 'utf8'), 'ü & <two>.txt'.repeat(1000))
    },
  )
})

async function mountWithDirectUrls({ gateway }: RunningGateway): Promise<void> {
  const linked = newStorage({ mountPath: asPath('/linked'), driver: 'DirectUrls', addition: '{}' })
  await gateway.storages.create({ ...linked, webdavPolicy: '302_redirect' })
}

function secureSender({ port }: Proxy, { adminPassword }: RunningGateway): Send {
  const send = sender({ url: `https://127.0.0.1:${port}`, adminPassword }, { prefix: '/files/dav' })
  return (method, path, headers, body) => send(method, encodeURI(path), headers, body)
}
