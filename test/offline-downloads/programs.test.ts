/** Downloads by the real aria2 and qBittorrent: the files reach the tree complete, even if the program is killed. */
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { lacks } from '../programs.js'
import { serve, type Envelope, type Served, type TaskShown } from '../protocols/http/served.js'
import { startAria2, type Aria2Server } from '../servers/aria2.js'
import { startQBittorrent, type QBittorrentServer } from '../servers/qbittorrent.js'
import { rangeStart, startScripted, type ScriptedServer } from './scripted-server.js'
import { startTracker, torrentOf } from './torrent-file.js'

// These tests spend most of their time waiting, each for its own program.
const jobs = 3
t.jobs = 2

const content = randomBytes(3_000_000)

/** Serves the content with ranges, `pace` bytes each tenth of a second. */
function startSlow(t: Test, pace = Infinity, more: ReadonlyMap<string, Buffer> = new Map()): Promise<ScriptedServer> {
  return startScripted(t, (request, answer) => {
    const file = more.get(request.url ?? '') ?? content
    const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? []
    const from = rangeStart(request) || Number(first ?? 0)
    const to = last === undefined || last === '' ? file.length : Number(last) + 1
    answer.writeHead(first === undefined ? 200 : 206, {
      'accept-ranges': 'bytes',
      'content-length': to - from,
      etag: '"one"',
      ...(first !== undefined && { 'content-range': `bytes ${from}-${to - 1}/${file.length}` }),
    })
    let at = from
    const send = () => {
      const until = Math.min(to, at + pace)
      answer.write(file.subarray(at, until))
      at = until
      if (at === to) answer.end()
      else setTimeout(send, 100)
    }
    send()
  })
}

async function served(t: Test): Promise<Served> {
  const admin = await serve(t)
  await admin.gateway.settings.set(new Map([['egress_networks', '127.0.0.1/32']]))
  return admin
}

async function withAria2(t: Test, ...options: readonly string[]): Promise<{ admin: Served; aria2: Aria2Server }> {
  const aria2 = await startAria2(...options)
  t.teardown(() => aria2.stop())
  const admin = await served(t)
  const { uri, secret } = aria2
  const answer = await admin.post('/api/admin/setting/set_aria2', { uri, secret })
  t.match(answer, { code: 200, data: /^aria2 version: \d/ })
  return { admin, aria2 }
}

async function withQBittorrent(t: Test, seedtime = '0'): Promise<{ admin: Served; torrents: QBittorrentServer }> {
  const torrents = await startQBittorrent()
  t.teardown(() => torrents.stop())
  const admin = await served(t)
  t.match(await admin.post('/api/admin/setting/set_qbit', { url: torrents.url, seedtime }), { code: 200, data: 'ok' })
  return { admin, torrents }
}

const tasksOf = ({ data }: Envelope) => (data as { tasks: TaskShown[] }).tasks

async function add(admin: Served, tool: string, url: string, policy = 'delete_on_upload_succeed'): Promise<TaskShown> {
  const answer = await admin.post('/api/fs/add_offline_download', {
    ...{ urls: [url], path: '/in', tool, delete_policy: policy },
  })
  const task = answer.code === 200 ? tasksOf(answer)[0] : undefined
  if (task === undefined) throw new Error(answer.message)
  return task
}

/** The bytes at the direct URL of a file. */
async function bytesOf(admin: Served, path: string): Promise<Buffer> {
  const { data, message } = await admin.post('/api/fs/get', { path })
  if (data === null) return Buffer.from(message)
  return Buffer.from(await (await fetch((data as { raw_url: string }).raw_url)).arrayBuffer())
}

/** Resolves once no folder of a download is left on the local disk: it is removed shortly after the task has ended. */
async function cleared(admin: Served, tool: string): Promise<void> {
  while ((await left(admin, tool)).length > 0) await delay(50)
}

async function left(admin: Served, tool: string): Promise<string[]> {
  const folder = join(admin.gateway.config.data, 'temp', tool)
  return existsSync(folder) ? readdir(folder) : []
}

async function underWay(admin: Served, share: number): Promise<void> {
  for (;;) {
    const [task] = (await admin.get('/api/task/offline_download/undone')).data as TaskShown[]
    if ((task?.progress ?? 0) >= share) return
    await delay(100)
  }
}

/** Resolves when the downloads and the transfers to the tree have ended. Returns all of them. */
async function stored(admin: Served): Promise<readonly TaskShown[]> {
  const downloads = await admin.ended('offline_download')
  return [...downloads, ...(await admin.ended('offline_download_transfer'))]
}

const whole = { state: 2, progress: 100, error: '' }

void t.test('aria2', { jobs, skip: lacks('aria2c') }, (t) => {
  void t.test('downloads into a folder of its own, and a second task stores the file', async (t) => {
    const { admin } = await withAria2(t)
    t.strictSame((await admin.get('/api/public/offline_download_tools')).data, ['SimpleHttp', 'aria2'])
    const server = await startSlow(t)
    await add(admin, 'aria2', `${server.url}/film.mp4`)
    t.match(await stored(admin), [
      { ...whole, total_bytes: content.length },
      { ...whole, total_bytes: content.length, name: 'transfer [](film.mp4) to [/](/in)' },
    ])
    t.ok((await bytesOf(admin, '/in/film.mp4')).equals(content))
    await cleared(admin, 'aria2')
  })

  void t.test('resumes a download after it was killed and restarted', async (t) => {
    const { admin, aria2 } = await withAria2(t, '--auto-save-interval=1')
    const server = await startSlow(t, 40_000)
    await add(admin, 'aria2', `${server.url}/film.mp4`)
    await underWay(admin, 30)
    await aria2.kill()
    await delay(1500)
    await aria2.restart()
    t.match(await stored(admin), [whole, whole])
    t.ok((await bytesOf(admin, '/in/film.mp4')).equals(content))
    const again = server.asked.map(({ range }) => Number(/^bytes=(\d+)/.exec(range ?? '')?.[1] ?? 0))
    t.ok(
      again.some((first) => first > 500_000),
      'the download did not start again from the beginning',
    )
    await cleared(admin, 'aria2')
  })

  void t.test('downloads a torrent with a web seed; the gateway fetches the torrent file', async (t) => {
    const { admin } = await withAria2(t)
    const files = new Map<string, Buffer>()
    const server = await startSlow(t, 1_000_000, files)
    files.set('/film.torrent', torrentOf('film.mp4', content, { 'url-list': `${server.url}/film.mp4` }).bytes)
    await add(admin, 'aria2', `${server.url}/film.torrent`)
    t.match(await stored(admin), [whole, { ...whole, name: 'transfer [](film.mp4) to [/](/in)' }])
    t.ok((await bytesOf(admin, '/in/film.mp4')).equals(content))
    await cleared(admin, 'aria2')
  })

  void t.test('downloads the files of a magnet link from peers', async (t) => {
    const { admin } = await withAria2(t)
    const files = new Map([
      ['sub/one.bin', content.subarray(0, 700_000)],
      ['two.bin', content.subarray(700_000, 1_500_000)],
    ])
    const tracker = await startTracker(t)
    const announce = `${tracker.url}/announce`
    const shared = torrentOf('shared', files, { announce })
    const seed = await startAria2('--seed-ratio=0.0', '--check-integrity=true')
    t.teardown(() => seed.stop())
    await seed.share(shared.bytes, 'shared', files)
    await add(admin, 'aria2', `magnet:?xt=urn:btih:${shared.hash}&dn=shared&tr=${encodeURIComponent(announce)}`)
    t.match(await stored(admin), [whole, { ...whole, name: 'transfer [](shared) to [/](/in)' }])
    t.ok((await bytesOf(admin, '/in/shared/sub/one.bin')).equals(content.subarray(0, 700_000)))
    t.ok((await bytesOf(admin, '/in/shared/two.bin')).equals(content.subarray(700_000, 1_500_000)))
    await cleared(admin, 'aria2')
  })

  void t.test('cancelling a task removes the download in aria2 and its files', async (t) => {
    const { admin, aria2 } = await withAria2(t)
    const server = await startSlow(t, 40_000)
    const { id } = await add(admin, 'aria2', `${server.url}/film.mp4`)
    await underWay(admin, 5)
    await admin.post(`/api/task/offline_download/cancel?tid=${id}`)
    t.match(await stored(admin), [{ state: 4, error: '' }])
    await cleared(admin, 'aria2')
    for (const method of ['tellActive', 'tellStopped']) {
      t.same(await aria2.call(`aria2.${method}`, method === 'tellStopped' ? [0, 10] : []), [])
    }
  })

  void t.test('receives no address that the egress guard rejects', async (t) => {
    const { admin, aria2 } = await withAria2(t)
    const server = await startSlow(t)
    for (const scheme of ['http', 'https', 'ftp', 'sftp']) {
      for (const host of ['127.0.0.2', '2130706434']) {
        const message = 'the address leads into a network that is not allowed'
        await t.rejects(add(admin, 'aria2', `${scheme}://${host}:${server.port}/secret`), { message })
      }
    }
    await admin.gateway.settings.set(new Map([['egress_networks', '']]))
    await add(admin, 'aria2', `http://localhost:${server.port}/secret`)
    const refusal = 'the address leads into a network that is not allowed, or nowhere'
    t.match(await stored(admin), [{ state: 7, error: refusal }])
    await t.rejects(add(admin, 'aria2', 'file:///etc/passwd'), { message: /does not fetch addresses of file/ })
    await t.rejects(add(admin, 'aria2', 'ftp://name:word@example.org/'), { message: /user name or password/ })
    t.same(server.asked, [])
    t.match(await aria2.call('aria2.getGlobalStat', []), { numStoppedTotal: '0', numActive: '0' })
  })

  void t.test('a redirect cannot lead to a forbidden address, whatever the configuration of aria2', async (t) => {
    const { admin } = await withAria2(t, '--http-proxy=127.0.0.1:1', '--no-proxy=127.0.0.0/8')
    const inside = await startScripted(t, (_request, answer) => answer.end('secret'), '127.0.0.2')
    const server = await startScripted(t, (_request, answer) => {
      answer.writeHead(302, { location: `${inside.url}/secret` }).end()
    })
    await add(admin, 'aria2', `${server.url}/innocent`)
    t.match(await stored(admin), [{ state: 7, error: 'the address leads into a network that is not allowed' }])
    t.equal(server.asked.length > 0, true)
    t.same(inside.asked, [])
    await cleared(admin, 'aria2')
  })

  void t.test(
    'egress_proxy off lets aria2 connect directly; a proxy address that cannot listen fails the task',
    async (t) => {
      const { admin, aria2 } = await withAria2(t)
      const proxy = (address: string) => admin.gateway.settings.set(new Map([['egress_proxy', address]]))
      const server = await startSlow(t, 100_000)
      const told = async () => {
        const [active] = (await aria2.call('aria2.tellActive', [['gid']])) as { gid: string }[]
        return active && ((await aria2.call('aria2.getOption', [active.gid])) as Record<string, string>)['all-proxy']
      }
      await add(admin, 'aria2', `${server.url}/one`)
      await underWay(admin, 5)
      t.match(await told(), /^http:\/\/127\.0\.0\.1:\d+\//)
      t.match(await stored(admin), [whole, whole])
      await proxy('off')
      await add(admin, 'aria2', `${server.url}/two`)
      await underWay(admin, 5)
      t.equal(await told(), undefined)
      t.match((await admin.ended('offline_download'))[1], whole)
      await proxy('192.0.2.1:0')
      const { id } = await add(admin, 'aria2', `${server.url}/three`)
      const undone = async () => (await admin.get('/api/task/offline_download/undone')).data as TaskShown[]
      while ((await undone())[0]?.error === '') await delay(50)
      t.match(await undone(), [{ error: /cannot listen on 192\.0\.2\.1:0/ }])
      await admin.post(`/api/task/offline_download/cancel?tid=${id}`)
      await admin.ended('offline_download')
    },
  )

  void t.test('files that are never deleted count against the limit of new downloads', async (t) => {
    const { admin } = await withAria2(t)
    const limit = (megabytes: string) => admin.gateway.settings.set(new Map([['spool_size_limit', megabytes]]))
    await limit('4')
    const server = await startSlow(t)
    await add(admin, 'aria2', `${server.url}/one`, 'delete_never')
    t.match(await stored(admin), [whole, whole])
    await add(admin, 'aria2', `${server.url}/two`)
    t.match((await admin.ended('offline_download'))[1], { state: 7, error: /spool_size_limit/ })
    await limit('2')
    await t.rejects(add(admin, 'aria2', `${server.url}/three`), { message: /spool_size_limit/ })
    t.same(await admin.names('/in'), ['one'])
  })

  void t.test('a file above the size limit fails', async (t) => {
    const { admin } = await withAria2(t)
    await admin.gateway.settings.set(new Map([['offline_download_size_limit', '1']]))
    const server = await startSlow(t, 40_000)
    await add(admin, 'aria2', `${server.url}/film.mp4`)
    t.match(await stored(admin), [{ state: 7, error: /larger than 1 MB/ }])
    await cleared(admin, 'aria2')
  })

  void t.test('the deletion policy decides whether downloaded files stay after the transfer', async (t) => {
    const { admin } = await withAria2(t)
    const server = await startSlow(t)
    await admin.put('/in/taken', 'mine')
    const failing = (policy: string) => add(admin, 'aria2', `${server.url}/taken`, policy)
    for (const policy of ['delete_on_upload_succeed', 'delete_on_upload_failed', 'delete_always', 'delete_never']) {
      await failing(policy)
      t.match((await stored(admin)).at(-1), { state: 7, error: '/in/taken: "taken" exists already' }, policy)
    }
    while ((await left(admin, 'aria2')).length > 2) await delay(50)
    await admin.post('/api/fs/remove', { dir: '/in', names: ['taken'] })
    const [first] = (await admin.get('/api/task/offline_download_transfer/done')).data as TaskShown[]
    await admin.post(`/api/task/offline_download_transfer/retry?tid=${first?.id}`)
    t.match(
      (await stored(admin))[4],
      { ...whole, id: first?.id },
      'a failed transfer can be retried with the file that stayed',
    )
    t.ok((await bytesOf(admin, '/in/taken')).equals(content))
    while ((await left(admin, 'aria2')).length > 1) await delay(50)
    t.match(await left(admin, 'aria2'), [/-kept$/])
    await admin.post('/api/task/offline_download_transfer/clear_done')
    t.equal((await left(admin, 'aria2')).length, 1)
  })
  t.end()
})

void t.test('qBittorrent', { jobs, skip: lacks('qbittorrent-nox') }, (t) => {
  void t.test('downloads a torrent with a web seed; the gateway fetches the torrent file', async (t) => {
    const { admin } = await withQBittorrent(t)
    t.strictSame((await admin.get('/api/public/offline_download_tools')).data, ['SimpleHttp', 'qBittorrent'])
    const files = new Map<string, Buffer>()
    const server = await startSlow(t, 1_000_000, files)
    const torrent = torrentOf('film.mp4', content, { 'url-list': `${server.url}/film.mp4` })
    files.set('/film.torrent', torrent.bytes)
    await add(admin, 'qBittorrent', `${server.url}/film.torrent`)
    t.match(await stored(admin), [{ ...whole, total_bytes: content.length }, whole])
    t.ok((await bytesOf(admin, '/in/film.mp4')).equals(content))
    await cleared(admin, 'qBittorrent')
  })

  void t.test('resumes a download after it was killed and restarted', async (t) => {
    const { admin, torrents } = await withQBittorrent(t)
    const files = new Map<string, Buffer>()
    const server = await startSlow(t, 40_000, files)
    files.set('/film', torrentOf('film.mp4', content, { 'url-list': `${server.url}/film.mp4` }).bytes)
    await add(admin, 'qBittorrent', `${server.url}/film`)
    await underWay(admin, 30)
    await delay(1500)
    await torrents.kill()
    await torrents.restart()
    t.match(await stored(admin), [whole, whole])
    t.ok((await bytesOf(admin, '/in/film.mp4')).equals(content))
    await cleared(admin, 'qBittorrent')
  })

  void t.test('downloads the files of a magnet link, seeds them, and removes the torrent', async (t) => {
    const { admin, torrents } = await withQBittorrent(t, '0.05')
    const tracker = await startTracker(t)
    const announce = `${tracker.url}/announce`
    const files = new Map([['a.bin', content.subarray(0, 1_000_000)]])
    const shared = torrentOf('shared', files, { announce })
    const seed = await startAria2('--seed-ratio=0.0', '--check-integrity=true')
    t.teardown(() => seed.stop())
    await seed.share(shared.bytes, 'shared', files)
    // The seed announces itself once, and then not again for minutes.
    while (tracker.asked.length === 0) await delay(50)
    await add(admin, 'qBittorrent', `magnet:?xt=urn:btih:${shared.hash}&tr=${encodeURIComponent(announce)}`)
    const seen = new Set<string>()
    for (;;) {
      const [task] = (await admin.get('/api/task/offline_download/undone')).data as TaskShown[]
      if (task === undefined) break
      seen.add(task.status)
      await delay(100)
    }
    t.ok(seen.has('offline download completed, waiting for seeding'), [...seen].join(', '))
    t.match(await stored(admin), [whole, whole])
    t.ok((await bytesOf(admin, '/in/shared/a.bin')).equals(files.get('a.bin') ?? content))
    await cleared(admin, 'qBittorrent')
    t.same(await torrents.names(), [], 'qBittorrent has no torrent left')
  })

  void t.test('receives neither files that are not torrents nor addresses that the egress guard rejects', async (t) => {
    const { admin, torrents } = await withQBittorrent(t)
    const files = new Map([['/page', Buffer.from('<html>')]])
    const server = await startSlow(t, Infinity, files)
    await add(admin, 'qBittorrent', `${server.url}/page`)
    t.match(await stored(admin), [{ state: 7, error: 'this is no torrent' }])
    const message = 'the address leads into a network that is not allowed'
    await t.rejects(add(admin, 'qBittorrent', `http://127.0.0.2:${server.port}/film.torrent`), { message })
    t.same(await torrents.names(), [])
    await t.rejects(add(admin, 'qBittorrent', 'ftp://example.org/x'), { message: /does not fetch addresses of ftp/ })
  })

  void t.test('a wrong password is reported, and the setting is unchanged', async (t) => {
    const { admin, torrents } = await withQBittorrent(t)
    const url = torrents.url.replace(/:[^:@]*@/, ':wrong@')
    t.match(await admin.post('/api/admin/setting/set_qbit', { url, seedtime: '0' }), {
      code: 500,
      message: 'qBittorrent refuses the user name or password',
    })
    t.equal(admin.gateway.settings.get('qbittorrent_url'), torrents.url)
  })
  t.end()
})
