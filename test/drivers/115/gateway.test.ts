/**
 * A gateway with storages of 115: where clients are redirected, what copies move, and offline downloads by 115 itself.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { start115 } from '../../doubles/115/index.js'
import { downloadHost } from '../../doubles/115/downloads.js'
import { startGateway } from '../../gateway.js'
import { mount } from '../../servers/remotes.js'
import { connect, ended } from '../../stories/task-client.js'

/** A gateway with two storages of one account, and one in memory. */
async function start(t: Test) {
  const double = await start115(t)
  const cookie = double.account.signIn()
  const gateway = await startGateway(t, { driver: { name: 'Memory' } })
  const storage = (folder: string) => ({
    mountPath: `/${folder}`,
    driver: '115 Cloud',
    addition: { cookie, limit_rate: 0, root_folder_id: double.makeFolder(folder) },
  })
  await mount(gateway, gateway.adminPassword, [storage('one'), storage('other')])
  return { double, gateway, client: await connect(gateway) }
}

await t.test('clients are redirected to a link for their User-Agent, unless it demands a cookie', async (t) => {
  const { double, gateway, client } = await start(t)
  await double.putFile('/one/file', 'content')
  const { sign } = (await client.post('/api/fs/get', { path: '/one/file' })) as { sign: string }
  const download = (userAgent: string) =>
    fetch(`${gateway.url}/d/one/file?sign=${sign}`, { redirect: 'manual', headers: { 'user-agent': userAgent } })
  for (const userAgent of ['a player', 'another player']) {
    const redirect = await download(userAgent)
    t.equal(redirect.status, 302)
    const location = redirect.headers.get('location') ?? ''
    t.equal(new URL(location).hostname, downloadHost)
    t.notMatch(location, /SEID|UID=/)
    t.equal(await (await fetch(location, { headers: { 'user-agent': userAgent } })).text(), 'content')
  }
  double.downloads.condition = '3'
  const sent = await download('a third player')
  t.equal(sent.status, 200, 'the gateway sends it')
  t.equal(await sent.text(), 'content')
  t.same(double.downloads.withAccountCookies, [])
})

await t.test('a copy from one storage of 115 to another moves no body', async (t) => {
  const { double, client } = await start(t)
  const names = Array.from({ length: 20 }, (_, index) => `file-${index}`)
  for (const name of names) await double.putFile(`/one/folder/${name}`, randomBytes(1000))
  await double.putFile('/one/folder/large', randomBytes(12 * 1024 * 1024))
  await client.post('/api/fs/copy', { src_dir: '/one', dst_dir: '/other', names: ['folder'] })
  for (const { state, error } of await ended(client, 'copy')) t.equal(state, 2, error)
  t.equal(double.drive.members(double.itemAt('/other/folder').id).length, 21)
  t.equal(double.uploads.oss.requests.bodyBytes(), 0, 'nothing was uploaded')
  const sentBytes = double.requests.log.filter(({ host }) => host === downloadHost).length
  t.equal(sentBytes, 21, 'only proofs were read')
})

await t.test('115 downloads by itself', async (t) => {
  const { double, client } = await start(t)
  const url = 'https://example.org/film'
  t.match(await client.get('/api/public/offline_download_tools'), /115 Cloud/)
  await client.post('/api/fs/add_offline_download', { urls: [url], path: '/one/films', tool: '115 Cloud' })
  while (double.offline.tasks.length === 0) await wait(20)
  double.offline.progress(url, 50)
  double.offline.finish(url, 'film.mkv', await double.contents.add('a film'))
  for (const { state, error } of await ended(client, 'offline_download')) t.equal(state, 2, error)
  t.equal(String(await client.read('/one/films/film.mkv')), 'a film')
})
