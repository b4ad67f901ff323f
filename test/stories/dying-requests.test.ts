/**
 * Clients that disconnect at every stage of a request, or never complete it: they leave nothing, and do not delay
 * others.
 */
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { startDaemon, type Daemon } from '../gateway.js'
import { processorTimeOf } from '../processor-time.js'
import { basic, lockinfo, propfind, proppatch, sender, texts } from '../protocols/webdav/dav-client.js'
import { resident } from '../resident-memory.js'
import { until } from '../until.js'

const old = 'old '.repeat(50_000)
const fresh = 'new '.repeat(50_000)

interface Request {
  readonly method: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** `stage`: a MOVE that is still running when its stage ends must not affect the next one. */
const requestsOf = (stage: string): readonly Request[] => [
  { method: 'PUT', path: '/put', body: fresh },
  { method: 'PUT', path: '/put-new', body: fresh },
  { method: 'PROPPATCH', path: '/kept', body: proppatch(`<p xmlns="urn:p">${'x'.repeat(50_000)}</p>`) },
  {
    method: 'LOCK',
    path: '/kept',
    headers: { timeout: 'Second-2' },
    body: lockinfo('exclusive').replace('someone', 'x'.repeat(50_000)),
  },
  { method: 'PROPFIND', path: '/', headers: { depth: '1' }, body: propfind('<D:displayname/>'.repeat(900)) },
  { method: 'COPY', path: '/kept', headers: { destination: '/dav/copied' } },
  { method: 'MOVE', path: `/moving-${stage}`, headers: { destination: `/dav/moved-${stage}` } },
  { method: 'GET', path: '/kept' },
]

/** Stages at which a request is cut off, as a number of sent bytes. */
const stages = [
  { title: 'before the first byte', part: () => 0 },
  { title: 'in the request line', part: () => 8 },
  { title: 'in the headers', part: (head: number) => head - 20 },
  { title: 'after the headers', part: (head: number) => head },
  { title: 'in the body', part: (head: number, all: number) => head + Math.floor((all - head) / 2) },
  { title: 'one byte before the end', part: (_head: number, all: number) => all - 1 },
  { title: 'before the response', part: (_head: number, all: number) => all },
] as const

function bytesOf({ method, path, headers = {}, body }: Request, daemon: Daemon): { head: Buffer; all: Buffer } {
  const lines = [
    `${method} /dav${path} HTTP/1.1`,
    'host: x',
    `authorization: ${basic('admin', daemon.adminPassword)}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    ...(body === undefined ? [] : [`content-length: ${body.length}`]),
  ]
  const head = Buffer.from(`${lines.join('\r\n')}\r\n\r\n`)
  return { head, all: Buffer.concat([head, Buffer.from(body ?? '')]) }
}

function dial(daemon: Daemon): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(daemon.url).port), '127.0.0.1', () => resolve(socket))
    socket.on('error', reject)
  })
}

/** Sends the bytes and disconnects, by FIN or by RST. */
async function cutOff(daemon: Daemon, bytes: Buffer, reset: boolean): Promise<void> {
  const socket = await dial(daemon)
  socket.on('error', () => undefined)
  await new Promise<void>((resolve) => socket.write(bytes, () => resolve()))
  if (reset) socket.resetAndDestroy()
  else socket.destroy()
}

async function handles({ pid }: Daemon): Promise<number> {
  return (await readdir(`/proc/${pid}/fd`)).length
}

/** Temporary and partial files. */
async function litter({ dataFolder }: Daemon): Promise<readonly string[]> {
  const names = await readdir(dataFolder, { recursive: true, withFileTypes: true })
  return names
    .filter((each) => each.isFile() && /staging|spool|temp/.test(each.parentPath))
    .map((each) => join(each.parentPath, each.name))
}

void t.test('requests that are cut off', async (t) => {
  const daemon = await startDaemon(t)
  const send = sender(daemon)
  for (const file of ['/put', '/kept']) await send('PUT', file, {}, old)
  await wait(100)
  const atFirst = await handles(daemon)

  for (const [index, { title, part }] of stages.entries()) {
    await t.test(`${title}: no temporary and no partial files remain`, async (t) => {
      const [moving, moved] = [`/moving-${index}`, `/moved-${index}`]
      await send('PUT', moving, {}, old)
      for (const request of requestsOf(String(index))) {
        const { head, all } = bytesOf(request, daemon)
        const bytes = all.subarray(0, part(head.length, all.length))
        await Promise.all([1, 2, 3].flatMap(() => [cutOff(daemon, bytes, true), cutOff(daemon, bytes, false)]))
      }
      // Connections of the test's HTTP client remain open for its next request.
      t.ok(await until(async () => (await handles(daemon)) <= atFirst + 2), 'no file descriptor is left open')
      // A staged file is removed after it is closed. A connection may still wait to be accepted.
      t.ok(await until(async () => (await litter(daemon)).length === 0), 'no temporary file is left')
      for (const file of ['/put', '/put-new', '/kept', '/copied', moving, moved]) {
        const { status, body } = await send('GET', file)
        t.ok(status === 404 || body === old || body === fresh, `${file} is complete or missing`)
      }
      // Requests that were received completely may still be running.
      const soonIf = (mayRun: boolean) => (what: () => Promise<boolean>) => (mayRun ? until(what) : what())
      const soon = soonIf(title === 'before the response')
      // MOVE has no body, so it is complete after the headers.
      const soonMoved = soonIf(part(100, 100) === 100)
      const isMovedOnce = async () => {
        const [from, to] = await Promise.all([moving, moved].map(async (path) => (await send('GET', path)).status))
        return (from === 200 && to === 404) || (from === 404 && to === 200)
      }
      t.ok(await soonMoved(isMovedOnce), 'the moved file has exactly one path')
      const locks = async () => {
        const { body } = await send('PROPFIND', '/', { depth: '1' }, propfind('<D:lockdiscovery/>'))
        return texts(body, 'activelock').length
      }
      // A response may have arrived before the disconnect: such a lock remains until its timeout.
      t.ok(await soon(async () => (await locks()) === 0), 'no lock is left whose token was not sent')
      for (const file of ['/put', '/kept', moving, moved, '/copied', '/put-new']) {
        t.ok(await soon(async () => (await send('PUT', file, {}, old)).status < 300), `${file} is free`)
      }
      await send('DELETE', '/put-new')
      await send('DELETE', moved)
      await send('DELETE', '/copied')
    })
  }

  await t.test('slow bodies and slow header sections do not delay other requests', async (t) => {
    const sockets: Socket[] = []
    for (const request of requestsOf('slow')) {
      const { head, all } = bytesOf(request, daemon)
      for (let index = 0; index < 25; index++) {
        const socket = await dial(daemon)
        socket.on('error', () => undefined)
        const end = index % 2 === 0 ? head.length - 10 : Math.max(head.length, all.length - 5)
        socket.write(all.subarray(0, request.body === undefined ? head.length - 10 : end))
        sockets.push(socket)
      }
    }
    const drops = setInterval(() => {
      for (const socket of sockets) socket.write('x')
    }, 200)
    const began = Date.now()
    for (let index = 0; index < 20; index++) {
      t.equal((await send('PUT', '/put', {}, `${index}`)).status, 204)
      t.equal((await send('PROPFIND', '/', { depth: '1' })).status, 207)
    }
    t.ok(Date.now() - began < 30_000, `${Date.now() - began} ms`)
    clearInterval(drops)
    for (const socket of sockets) socket.destroy()
    t.ok(await until(async () => (await handles(daemon)) <= atFirst + 2))
    t.same(await litter(daemon), [])
  })

  await t.test('a hundred clients that request the whole tree and read nothing do not delay others', async (t) => {
    for (let folder = 0; folder < 40; folder++) {
      const at = join(daemon.dataFolder, 'files', 'tree', `folder-${folder}`)
      await mkdir(at, { recursive: true })
      for (let file = 0; file < 100; file++) await writeFile(join(at, `a file with a name of some length, ${file}`), '')
    }
    const { status, body } = await send('PROPFIND', '/tree', { depth: 'infinity' })
    t.equal(status, 207)
    t.equal(body.match(/<D:response>/g)?.length, 4041)
    const before = (await resident(daemon)) / 2 ** 20
    const { all } = bytesOf({ method: 'PROPFIND', path: '/tree', headers: { depth: 'infinity' } }, daemon)
    const sockets = await Promise.all(Array.from({ length: 100 }, () => dial(daemon)))
    for (const socket of sockets) {
      socket.on('error', () => undefined).pause()
      socket.write(all)
    }
    const began = await processorTimeOf(daemon.pid)
    t.equal((await send('GET', '/kept')).status, 200)
    const waited = (await processorTimeOf(daemon.pid)) - began
    t.comment(`another client waited for ${waited} ms of work`)
    t.ok(waited < 5000)
    await wait(3000)
    const grown = (await resident(daemon)) / 2 ** 20 - before
    t.comment(`${Math.round(grown)} MiB for ${Math.round((100 * body.length) / 2 ** 20)} MiB of answers`)
    t.ok(grown < 150, `${grown} MiB`)
    for (const socket of sockets) socket.destroy()
    t.ok(await until(async () => (await handles(daemon)) <= atFirst + 2))
  })

  await t.test('bodies that are small on the wire and large in memory are rejected', async (t) => {
    const question = (content: string) => `<D:propfind xmlns:D="DAV:"><D:prop>${content}</D:prop></D:propfind>`
    const bodies: readonly [string, string, number][] = [
      ['elements', question('<a/>'.repeat(200_000)), 413],
      ['attributes', question(`<a ${Array.from({ length: 50_000 }, (_, at) => `a${at}=""`).join(' ')}/>`), 413],
      ['names', question(Array.from({ length: 5_000 }, (_, at) => `<a${at}/>`).join('')), 413],
      ['depth', question('<a>'.repeat(100_000)), 400],
      ['entities', `<!DOCTYPE a [<!ENTITY b "${'c'.repeat(1000)}">]>${question('&b;'.repeat(1000))}`, 400],
      ['an outer file', `<!DOCTYPE a SYSTEM "file:///etc/passwd">${question('')}`, 400],
      ['an unknown entity', question('<a>&b;</a>'), 400],
      ['size', question(' '.repeat(1024 * 1024)), 413],
    ]
    for (const [what, body, expected] of bodies) {
      const began = await processorTimeOf(daemon.pid)
      const replies = await Promise.all(Array.from({ length: 5 }, () => send('PROPFIND', '/', { depth: '0' }, body)))
      for (const { status } of replies) t.equal(status, expected, what)
      const took = (await processorTimeOf(daemon.pid)) - began
      t.ok(took < 3000, `${what}: ${took} ms`)
    }
  })

  await t.test('unknown methods and too many headers are rejected', async (t) => {
    for (const method of ['REPORT', 'SEARCH', 'BIND', 'ACL', 'MKCALENDAR', 'CHECKOUT']) {
      t.match(await send(method, '/kept'), { status: 501, headers: { allow: /PROPFIND/ } }, method)
    }
    t.equal((await send('POST', '/kept')).status, 405)
    t.equal((await send('GET', '/kept', { 'x-flood': 'x'.repeat(60_000) })).status, 431)
    const many = Object.fromEntries(Array.from({ length: 1500 }, (_, index) => [`x-${index}`, 'y']))
    t.equal((await send('GET', '/kept', many)).status, 400)
    t.equal((await send('PUT', '/kept', { if: `(<${'x'.repeat(20_000)}>)` }, 'x')).status, 412)
    t.equal((await send('PUT', '/kept', { if: '('.repeat(20_000) }, 'x')).status, 400)
    t.equal((await send('GET', '/kept')).status, 200)
  })
})
