/** The API of offline downloads, with the gateway itself as the tool. */
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { rangeStart, startScripted } from '../../../offline-downloads/scripted-server.js'
import { serve, type Envelope, type Served, type TaskShown } from '../served.js'

// The tests mostly wait, each for its own gateway.
t.jobs = 3

const content = randomBytes(300_000).toString('hex')
const tool = 'SimpleHttp'

async function onLoopback(t: Test): Promise<Served> {
  const served = await serve(t)
  await served.gateway.settings.set(new Map([['egress_networks', '127.0.0.1/32']]))
  return served
}

function add(served: Served, urls: readonly string[], fields: object = {}): Promise<Envelope> {
  return served.post('/api/fs/add_offline_download', { urls, path: '/in', tool, delete_policy: '', ...fields })
}

const tasksOf = ({ data }: Envelope) => (data as { tasks: TaskShown[] }).tasks

void t.test('a file is downloaded into a folder that is created for it', async (t) => {
  const served = await onLoopback(t)
  const server = await startScripted(t, (_request, answer) => {
    answer.writeHead(200, { 'content-disposition': 'attachment; filename="../../film.mp4"' }).end(content)
  })
  const answer = await add(served, [` ${server.url}/x?y=z `, '', ' '], { path: '/in/new' })
  t.match(answer, {
    code: 200,
    data: { tasks: [{ name: `download ${server.url}/x?y=z to (/in/new)`, creator: 'admin', state: 0, status: '' }] },
  })
  t.equal(tasksOf(answer).length, 1)
  t.match(await served.ended('offline_download'), [{ state: 2, progress: 100, total_bytes: 600_000, error: '' }])
  t.same(await served.names('/in/new'), ['film.mp4'])
  t.equal(await served.content('/in/new/film.mp4'), content)
  t.strictSame((await served.get('/api/task/offline_download_transfer/done')).data, [])
  t.strictSame(tasksOf(await add(served, [])), [])
})

void t.test('progress is exact, also after a connection breaks', async (t) => {
  const served = await onLoopback(t)
  let release: () => void = () => undefined
  const released = new Promise<void>((resolve) => (release = resolve))
  const server = await startScripted(t, (request, answer, turn) => {
    const from = rangeStart(request)
    const headers = { etag: '"one"', 'content-length': content.length - from }
    answer.writeHead(from > 0 ? 206 : 200, {
      ...headers,
      ...(from > 0 && { 'content-range': `bytes ${from}-${content.length - 1}/${content.length}` }),
    })
    if (turn === 1) answer.write(content.slice(0, 150_000), () => void delay(50).then(() => answer.destroy()))
    else void released.then(() => answer.end(content.slice(from)))
  })
  await add(served, [`${server.url}/half`])
  while (server.asked.length < 2) await delay(10)
  t.match((await served.get('/api/task/offline_download/undone')).data, [
    { state: 1, progress: 25, total_bytes: content.length, status: '[SimpleHttp]: downloading' },
  ])
  t.notOk((await served.names('/')).includes('half'))
  release()
  t.match(await served.ended('offline_download'), [{ state: 2 }])
  t.equal(server.asked[1]?.range, 'bytes=150000-')
  t.equal(await served.content('/in/half'), content)
})

void t.test('an address that is too long is refused, because the name of a task repeats it', async (t) => {
  const served = await onLoopback(t)
  const refusal = { code: 500, message: 'an address has at most 16384 characters' }
  t.match(await add(served, [`http://127.0.0.1/${'a'.repeat(20_000)}`]), refusal)
  t.match(await add(served, [`magnet:?xt=${'a'.repeat(20_000)}`], { tool: 'aria2' }), refusal)
  t.same((await served.get('/api/task/offline_download/undone')).data, [])
})

void t.test('a download does not replace an existing file', async (t) => {
  const served = await onLoopback(t)
  const server = await startScripted(t, (_request, answer) => answer.end(content))
  await served.put('/in/file', 'mine')
  await add(served, [`${server.url}/file`])
  t.match(await served.ended('offline_download'), [{ state: 7, error: '"file" exists already' }])
  t.equal(await served.content('/in/file'), 'mine')
})

void t.test('invalid downloads are rejected before a task is created', async (t) => {
  const served = await onLoopback(t)
  const refused = (answer: Envelope, code: number, message: RegExp | string, title: string) =>
    t.match(answer, { code, message, data: null }, title)
  const address = 'https://example.org/file'
  await served.put('/file', 'x')
  refused(await add(served, [address], { path: '/file' }), 500, 'not a folder', 'a file')
  refused(await add(served, [address], { tool: 'Nothing' }), 500, 'tool Nothing not found', 'an unknown tool')
  refused(await add(served, [address], { path: '/../x' }), 403, 'using relative path is not allowed', 'a path')
  const other = [
    'file:///etc/passwd',
    'ftp://example.org/x',
    'magnet:?xt=urn:btih:x',
    'data:,x',
    'gopher://example.org',
  ]
  for (const url of other) refused(await add(served, [url]), 500, /only addresses of http and https/, url)
  refused(await add(served, ['nothing']), 500, 'this is no address', 'no address')
  for (const url of ['http://name:word@example.org/', 'https://name@example.org/']) {
    refused(await add(served, [url]), 500, /user name or password/, url)
  }
  await served.gateway.settings.set(new Map([['aria2_uri', 'http://127.0.0.1:1/jsonrpc']]))
  const dead = await add(served, [address], { tool: 'aria2' })
  refused(dead, 500, 'failed init offline download tool aria2: aria2 does not answer', 'a dead tool')
  t.strictSame((await served.get('/api/task/offline_download/done')).data, [])
  t.strictSame((await served.get('/api/public/offline_download_tools')).data, ['SimpleHttp'])
})

void t.test('a download requires its permission and write access to the folder', async (t) => {
  const served = await onLoopback(t)
  const server = await startScripted(t, (_request, answer) => answer.end('x'))
  const ann = await served.as('ann', ['offlineDownload'])
  const bob = await served.as('bob', ['write', 'copy', 'move', 'remove'])
  for (const urls of [[`${server.url}/a`], [], [' ']]) {
    t.match(await add(bob, urls), { code: 403, message: 'permission denied', data: null }, `${urls.length} addresses`)
  }
  t.match(await add(ann, [`${server.url}/a`]), { code: 200 })
  t.match(await ann.ended('offline_download'), [{ state: 2, creator: 'ann' }])
  t.equal(await ann.content('/in/a'), 'x')
  t.match(await add(ann, [' ']), { code: 200, data: { tasks: [] } }, 'no task without an address')
  const { users } = served.gateway.accounts
  await served.rule('/in', { writeUsers: [users.byName('bob')!.id] })
  for (const urls of [[`${server.url}/b`], []]) {
    t.match(await add(ann, urls), { code: 403, message: 'permission denied' }, `${urls.length} addresses`)
  }
  await served.rule('/closed', { password: 'word' })
  t.match(await add(ann, [`${server.url}/b`], { path: '/closed' }), { code: 403 })
  const opened = { urls: [`${server.url}/b`], path: '/closed', tool, delete_policy: '' }
  await ann.post('/api/fs/add_offline_download', opened, { password: 'word' })
  t.match((await ann.ended('offline_download'))[1], { state: 2 })
  const eve = await served.as('eve', ['offlineDownload'], '/home')
  t.match(tasksOf(await add(eve, [`${server.url}/c`])), [{ name: `download ${server.url}/c to (/home/in)` }])
  t.match(await eve.ended('offline_download'), [{ state: 2 }])
  t.equal(await served.content('/home/in/c'), 'x')
})

void t.test('a download fails if its user loses the permission meanwhile', async (t) => {
  const served = await onLoopback(t)
  const ann = await served.as('ann', ['offlineDownload'])
  const server = await startScripted(t, (_request, answer) => {
    answer.writeHead(200, { 'content-length': 10 }).write('x')
  })
  await add(ann, [`${server.url}/a`])
  while (server.asked.length < 1) await delay(10)
  await delay(50)
  await served.gateway.accounts.users.update(served.gateway.accounts.users.byName('ann')!.id, { permission: 0 })
  t.match(await served.ended('offline_download'), [{ state: 7, error: 'permission denied' }])
})

void t.test('a tool of an unsupported service is accepted, and its task fails', async (t) => {
  const served = await onLoopback(t)
  t.match(await add(served, ['ed2k://anything'], { tool: '115 Cloud' }), { code: 200, data: { tasks: [{ state: 0 }] } })
  t.match(await served.ended('offline_download'), [
    { state: 7, error: 'unsupported storage driver for offline download, only 115 Cloud is supported' },
  ])
})

void t.test('a download from a network that is not allowed fails', async (t) => {
  const served = await onLoopback(t)
  const refusal = 'the address leads into a network that is not allowed'
  const inside = await startScripted(t, (_request, answer) => answer.end('secret'))
  const redirecting = await startScripted(t, (_request, answer) =>
    answer.writeHead(302, { location: `http://127.0.0.2:${inside.port}/secret` }).end(),
  )
  t.equal(tasksOf(await add(served, [`${redirecting.url}/innocent`])).length, 1)
  t.match(await served.ended('offline_download'), [{ state: 7, error: refusal }])
  await served.gateway.settings.set(new Map([['egress_networks', '']]))
  t.equal(tasksOf(await add(served, [`http://localhost:${inside.port}/`])).length, 1)
  t.match(await served.ended('offline_download'), [{}, { state: 7, error: refusal }])
  t.equal(inside.asked.length, 0)
  t.strictSame((await served.names('/')).includes('in'), false)
})

void t.test(
  'IP addresses that are not allowed are refused before a task is created, with one line in the log',
  async (t) => {
    const served = await onLoopback(t)
    const allowed = 'https://example.org/file'
    for (const [host, shown] of [
      ['127.0.0.2', '127.0.0.2'],
      ['2130706434', '127.0.0.2'],
      ['0x7f.2', '127.0.0.2'],
      ['0177.0.0.2.', '127.0.0.2'],
      ['%31%30.1.1.1', '10.1.1.1'],
      ['169.254.169.254', '169.254.169.254'],
      ['[::1]', '[::1]'],
      ['[fe80::1]', '[fe80::1]'],
      ['[::ffff:169.254.169.254]', '[::ffff:a9fe:a9fe]'],
      ['[64:ff9b::10.0.0.1]', '[64:ff9b::a00:1]'],
      ['[2002:c0a8:101::]', '[2002:c0a8:101::]'],
    ]) {
      const warnings = t.capture(served.gateway.log, 'warn')
      const url = `http://${host}:8080/x`
      t.match(await add(served, [allowed, ...Array.from({ length: 99 }, () => url)]), {
        ...{ code: 400, data: null },
        message: 'address 2 of 100 leads into a network that is not allowed',
      })
      t.match(warnings(), [{ args: [{ account: 'admin', host: shown, addresses: 99 }, 'offline downloads refused'] }])
      warnings.restore()
    }
    const many = Array.from({ length: 101 }, () => allowed)
    t.match(await add(served, many), { code: 400, message: 'urls: must be 100 URLs at most', data: null })
    t.same((await served.get('/api/task/offline_download/undone')).data, [])
    t.same((await served.get('/api/task/offline_download/done')).data, [])
  },
)

void t.test('downloads do not exceed max_server_download_speed', async (t) => {
  const served = await onLoopback(t)
  await served.gateway.settings.set(new Map([['max_server_download_speed', '400']]))
  const server = await startScripted(t, (_request, answer) => answer.end(content))
  const began = Date.now()
  await add(served, [`${server.url}/slow`])
  t.match(await served.ended('offline_download'), [{ state: 2 }])
  const seconds = (Date.now() - began) / 1000
  t.ok(seconds > 1.2 && seconds < 10, `${content.length} bytes took ${seconds} s`)
})

void t.test('a file larger than the limit is not stored', async (t) => {
  const served = await onLoopback(t)
  await served.gateway.settings.set(new Map([['offline_download_size_limit', '2']]))
  const server = await startScripted(t, (_request, answer) => {
    const more = () => answer.write(content, (error) => error ?? more())
    more()
  })
  await add(served, [`${server.url}/endless`])
  t.match(await served.ended('offline_download'), [{ state: 7, error: /larger than 2 MB/ }])
  t.notOk((await served.names('/in')).includes('endless'))
})

void t.test('a slow server does not delay other downloads', async (t) => {
  const served = await onLoopback(t)
  const slow = await startScripted(t, (_request, answer) => {
    const timer = setInterval(() => answer.write('x'), 20)
    answer.once('close', () => clearInterval(timer))
  })
  const server = await startScripted(t, (_request, answer) => answer.end(content))
  const [task] = tasksOf(await add(served, [`${slow.url}/slow`]))
  while (slow.asked.length < 1) await delay(10)
  await add(served, [`${server.url}/a`, `${server.url}/b`, `${server.url}/c`])
  while ((await served.names('/in')).length < 3) await delay(20)
  await served.post(`/api/task/offline_download/cancel?tid=${task?.id}`)
  t.same((await served.ended('offline_download')).map(({ state }) => state).sort(), [2, 2, 2, 4])
})

void t.test('a canceled download stores nothing', async (t) => {
  const served = await onLoopback(t)
  const server = await startScripted(t, (_request, answer) => {
    answer.writeHead(200, { 'content-length': 1_000_000 }).write(content)
  })
  const [task] = tasksOf(await add(served, [`${server.url}/a`]))
  while (server.asked.length < 1) await delay(10)
  await delay(50)
  await served.post(`/api/task/offline_download/cancel?tid=${task?.id}`)
  t.match(await served.ended('offline_download'), [{ state: 4, error: '' }])
  t.notOk((await served.names('/in')).includes('a'))
})

void t.test('a download that fails temporarily is retried', async (t) => {
  const served = await onLoopback(t)
  const server = await startScripted(t, (_request, answer, turn) => {
    if (turn === 1) answer.writeHead(503).end()
    else answer.end(content)
  })
  await add(served, [`${server.url}/a`])
  t.match(await served.ended('offline_download'), [{ state: 2 }])
  t.equal(await served.content('/in/a'), content)
})

void t.test('the address of a tool is not stored if the tool does not answer there', async (t) => {
  const served = await onLoopback(t)
  const dead = 'http://127.0.0.1:1/'
  const web = await startScripted(t, (_request, answer) => answer.end('hello'))
  for (const [uri, message] of [
    ['nothing', 'aria2_uri is no address'],
    [dead, 'aria2 does not answer'],
    [web.url, 'what answers there is not aria2'],
  ] as const) {
    const answer = await served.post('/api/admin/setting/set_aria2', { uri, secret: 'x' })
    t.match(answer, { code: 500, message }, uri)
  }
  for (const [url, message] of [
    ['nothing', 'qbittorrent_url is no address'],
    [dead, 'qBittorrent does not answer'],
  ] as const) {
    const answer = await served.post('/api/admin/setting/set_qbit', { url, seedtime: '0' })
    t.match(answer, { code: 500, message }, url)
  }
  t.equal(served.gateway.settings.get('aria2_uri'), 'http://localhost:6800/jsonrpc')
  t.equal(served.gateway.settings.get('aria2_secret'), '')
  t.match(served.gateway.settings.get('qbittorrent_url'), /localhost:8080/)
})

void t.test('egress_proxy must be an address, off or empty', async (t) => {
  const served = await onLoopback(t)
  const save = (value: string) => served.post('/api/admin/setting/save', [{ key: 'egress_proxy', value }])
  t.match(await save('nowhere'), { code: 500, message: /must be HOST:PORT, off, or empty/ })
  for (const value of ['127.0.0.1:0', '[::1]:5246', 'gateway:5246', 'off', '']) {
    t.match(await save(value), { code: 200 }, value)
  }
})

void t.test('offline_download_temp_dir must be an absolute path or empty', async (t) => {
  const served = await onLoopback(t)
  const save = (value: string) => served.post('/api/admin/setting/save', [{ key: 'offline_download_temp_dir', value }])
  t.match(await save('relative/path'), { code: 500, message: /must be an absolute path/ })
  t.match(await save('/srv/downloads'), { code: 200 })
  t.match(await save(''), { code: 200 })
})
