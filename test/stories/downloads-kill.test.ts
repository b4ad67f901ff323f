/** The daemon is killed during offline downloads. After a restart it resumes them. */
import { randomBytes } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { startScripted } from '../offline-downloads/scripted-server.js'
import { torrentOf } from '../offline-downloads/torrent-file.js'
import { startDaemon, startGateway, withoutNodes } from '../gateway.js'
import { lacks } from '../programs.js'
import { startAria2 } from '../servers/aria2.js'
import { startQBittorrent } from '../servers/qbittorrent.js'

const content = randomBytes(2_000_000)

interface TaskShown {
  readonly state: number
  readonly progress: number
  readonly error: string
}

/** Signed in as admin. */
async function connect(url: string, password: string) {
  const post = async (path: string, body: unknown, token = ''): Promise<unknown> => {
    const headers = { 'content-type': 'application/json', authorization: token }
    const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    const { code, data, message } = (await response.json()) as { code: number; data: unknown; message: string }
    if (code !== 200) throw new Error(`${path}: ${code} ${message}`)
    return data
  }
  const { token } = (await post('/api/auth/login', { username: 'admin', password })) as { token: string }
  const tasks = async (kind: string, verb: 'undone' | 'done'): Promise<readonly TaskShown[]> => {
    const response = await fetch(`${url}/api/task/${kind}/${verb}`, { headers: { authorization: token } })
    return ((await response.json()) as { data: readonly TaskShown[] }).data
  }
  const ended = async (kind: string) => {
    while ((await tasks(kind, 'undone')).length > 0) await delay(100)
    return tasks(kind, 'done')
  }
  return { post: (path: string, body: unknown) => post(path, body, token), tasks, ended }
}

void t.test('downloads of every tool survive kill -9', { skip: lacks('aria2c', 'qbittorrent-nox') }, async (t) => {
  const [aria2, torrents] = [await startAria2(), await startQBittorrent()]
  t.teardown(() => Promise.all([aria2.stop(), torrents.stop()]))
  const files = new Map<string, Buffer>()
  const server = await startScripted(t, (request, answer) => {
    const file = files.get(request.url ?? '') ?? content
    const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? []
    const [from, to] = [Number(first ?? 0), last === undefined || last === '' ? file.length : Number(last) + 1]
    const range = first === undefined ? {} : { 'content-range': `bytes ${from}-${to - 1}/${file.length}` }
    answer.writeHead(first === undefined ? 200 : 206, { 'content-length': to - from, etag: '"one"', ...range })
    const send = (at: number) => {
      if (at >= to) answer.end()
      else
        answer.write(file.subarray(at, Math.min(to, at + 20_000)), () => void delay(100).then(() => send(at + 20_000)))
    }
    send(from)
  })
  files.set('/shared', torrentOf('c.bin', content, { 'url-list': `${server.url}/c.bin` }).bytes)

  const first = await startDaemon(t)
  const admin = await connect(first.url, first.adminPassword)
  await admin.post('/api/admin/setting/save', [{ key: 'egress_networks', value: '127.0.0.1/32' }])
  await admin.post('/api/admin/setting/set_aria2', { uri: aria2.uri, secret: aria2.secret })
  await admin.post('/api/admin/setting/set_qbit', { url: torrents.url, seedtime: '0' })
  for (const [tool, name] of [
    ['SimpleHttp', 'a.bin'],
    ['aria2', 'b.bin'],
    ['qBittorrent', 'shared'],
  ]) {
    const asked = { urls: [`${server.url}/${name}`], path: '/in', tool, delete_policy: 'delete_on_upload_succeed' }
    await admin.post('/api/fs/add_offline_download', asked)
  }
  for (;;) {
    const tasks = await admin.tasks('offline_download', 'undone')
    if (tasks.length === 3 && tasks.every(({ progress }) => progress > 5)) break
    await delay(100)
  }
  await first.kill()

  const second = await startDaemon(t, { dataFolder: first.dataFolder })
  const again = await connect(second.url, second.adminPassword)
  const whole = { state: 2, progress: 100, error: '' }
  t.match(await again.ended('offline_download'), [whole, whole, whole])
  t.match(await again.ended('offline_download_transfer'), [whole, whole])
  const folder = join(first.dataFolder, 'files', 'in')
  t.same((await readdir(folder)).sort(), ['a.bin', 'b.bin', 'c.bin'])
  for (const name of ['a.bin', 'b.bin', 'c.bin']) t.ok((await readFile(join(folder, name))).equals(content), name)
  const starts = server.asked
    .filter(({ url }) => url === '/b.bin')
    .map(({ range }) => Number(range?.match(/\d+/)?.[0] ?? 0))
  t.ok(Math.max(...starts) > 50_000, 'aria2 resumed its download')
  for (const tool of ['aria2', 'qBittorrent']) {
    const temporary = join(first.dataFolder, 'temp', tool)
    while ((await readdir(temporary)).length > 0) await delay(50)
  }
  t.equal(await second.stop(), 0)
})

void t.test(
  'a download that was stored before a kill is not stored a second time',
  { skip: withoutNodes },
  async (t) => {
    const server = await startScripted(t, (_request, answer) => answer.end(content))
    const first = await startGateway(t)
    const { gateway } = first
    await gateway.settings.set(new Map([['egress_networks', '127.0.0.1/32']]))
    const admin = await connect(first.url, first.adminPassword)
    const asked = { urls: [`${server.url}/a.bin`], path: '/in', tool: 'SimpleHttp', delete_policy: '' }
    await admin.post('/api/fs/add_offline_download', asked)
    t.match(await admin.ended('offline_download'), [{ state: 2 }])
    const [row] = await gateway.store.tasks.all()
    if (!row) throw new Error('there is no task')
    await gateway.store.tasks.update({ ...row, state: 'running', ended: undefined })
    await first.stop()

    const second = await startGateway(t, { dataFolder: first.dataFolder })
    const again = await connect(second.url, second.adminPassword)
    t.match(await again.ended('offline_download'), [{ state: 2, progress: 100, error: '' }])
    t.equal(server.asked.length, 2)
    t.same(await readdir(join(first.dataFolder, 'files', 'in')), ['a.bin'])
  },
)
