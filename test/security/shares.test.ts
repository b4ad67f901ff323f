/** What one user or one network can hold of what all share: a part is left for the others, and all of it comes back. */
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { permissionBits } from '../../src/accounts/principal.js'
import { startDaemon, startGateway, withoutNodes, type Daemon } from '../gateway.js'
import { flags, status } from '../protocols/sftp/packet-client.js'
import { addUser, basic, everyPermission, packets, post, send, signIn, store, unbound, userPassword } from './world.js'

/** A limit of descriptors that is small, so that it is soon reached. */
const descriptors = 256

/** A daemon with the file `/file`, and a user ada with all permissions. */
async function limitedDaemon(t: Test): Promise<Daemon> {
  const daemon = await startDaemon(t, { descriptors })
  const token = await signIn(daemon, 'admin', daemon.adminPassword)
  const permission = everyPermission.reduce((sum, each) => sum | permissionBits[each], 0)
  const ada = { username: 'ada', password: userPassword, base_path: '/', role: 0, permission }
  t.match(await post(daemon.url, '/api/admin/user/create', ada, token), { code: 200 })
  const admin = { authorization: basic('admin', daemon.adminPassword) }
  t.match(await send(daemon.url, 'PUT', '/dav/file', admin, 'content'), { status: 201 })
  return daemon
}

/** Another user, who has signed in over each protocol. */
async function another(t: Test, daemon: Daemon) {
  return { token: await signIn(daemon, 'ada'), client: await packets(t, daemon, 'ada') }
}

/** That another user downloads, uploads and lists over each protocol. */
async function assertServed(
  t: Test,
  { url }: Daemon,
  { token, client }: Awaited<ReturnType<typeof another>>,
): Promise<void> {
  const authorization = basic('ada')
  t.match(await send(url, 'GET', '/dav/file', { authorization }), { status: 200, text: 'content' })
  t.match(await send(url, 'PUT', '/dav/other', { authorization }, 'x'), { status: /20[14]/ })
  t.match(await send(url, 'PROPFIND', '/dav/', { authorization, depth: '1' }), { status: 207 })
  t.match(await post(url, '/api/fs/list', { path: '/' }, token), { code: 200 })
  t.equal(await client.get('/file'), 'content')
  const folder = await client.openFolder('/')
  t.equal(Buffer.isBuffer(folder) && (await client.close(folder)), status.ok)
}

async function openDescriptors({ pid }: Daemon): Promise<number> {
  return (await readdir(`/proc/${pid}/fd`)).length
}

const open = {
  'files to read': (client, _name) => client.open('/file', flags.read),
  'files to write': (client, name) => client.open(`/${name}`, flags.write | flags.create),
  folders: (client, _name) => client.openFolder('/'),
} satisfies Record<string, (client: Awaited<ReturnType<typeof packets>>, name: string) => Promise<Buffer | number>>

void t.test('handles of one user leave descriptors to others, and are opened again after the connection', async (t) => {
  const daemon = await limitedDaemon(t)
  const ada = await another(t, daemon)
  const authorization = basic('admin', daemon.adminPassword)
  for (const [kind, ask] of Object.entries(open)) {
    const before = await openDescriptors(daemon)
    const client = await packets(t, daemon, 'admin', daemon.adminPassword)
    let opened = 0
    let handle = await ask(client, 'new')
    for (; Buffer.isBuffer(handle); handle = await ask(client, `new ${opened}`)) opened++
    t.equal(handle, status.failure, kind)
    t.ok(opened > descriptors / 8 && opened < descriptors / 2, `${opened} ${kind}`)
    const own = await send(daemon.url, 'GET', '/dav/file', { authorization })
    t.match(own, { status: 503, headers: { 'retry-after': '1' } })
    await assertServed(t, daemon, ada)
    client.channel.destroy()
    await client.closed
    // Until the daemon has noticed the end of the connection, and has closed what was open, but for a few of its own.
    while ((await openDescriptors(daemon)) > before + 8) await wait(20)
    while ((await send(daemon.url, 'GET', '/dav/file', { authorization })).status !== 200) await wait(20)
  }
})

void t.test('connections of one network leave descriptors to others', async (t) => {
  const daemon = await limitedDaemon(t)
  const ada = await another(t, daemon)
  const sockets: Socket[] = []
  const connected = async (port: number): Promise<Socket> => {
    const socket = connect({ port, host: '127.0.0.1', localAddress: '127.0.0.2' })
    socket.on('error', () => undefined).resume()
    await once(socket, 'connect')
    sockets.push(socket)
    return socket
  }
  const { port } = new URL(daemon.url)
  while (sockets.length < descriptors && sockets.every(({ closed }) => !closed)) {
    await connected(Number(port))
    // A connection beyond the share is closed at once. The answer to another one shows that the daemon has accepted it.
    if (sockets.length % 16 === 0) await send(daemon.url, 'GET', '/ping')
  }
  const accepted = sockets.filter(({ closed }) => !closed).length
  t.ok(accepted > descriptors / 8 && accepted < descriptors / 2, `${accepted} connections`)
  await once(await connected(daemon.sftpPort), 'close')
  await assertServed(t, daemon, ada)
  t.equal((await packets(t, daemon, 'ada')).channel.closed, false)
  for (const socket of sockets) socket.destroy()
  t.match(daemon.log, /a network has too many connections/)
})

void t.test('all that was held is free after ended, cut and failed requests', { skip: withoutNodes }, async (t) => {
  const running = await startGateway(t)
  const { gateway, url } = running
  const id = await addUser(running, 'ada', everyPermission)
  await store(gateway.as(unbound()), '/folder/large', Buffer.alloc(32 * 1024 * 1024))
  await store(gateway.as(unbound()), '/folder/below/file', 'content')
  const authorization = basic('ada')
  const token = await signIn(running, 'ada')
  while (gateway.descriptors.held > 0) await wait(5)

  /** Reads the beginning of a response, or sends that of a body, and cuts the connection. */
  const cut = async (method: string, path: string, headers: Record<string, string>) => {
    const { hostname, port } = new URL(url)
    const sent = request({ hostname, port, method, path, headers, agent: false })
    sent.on('error', () => undefined)
    if (method === 'PUT') sent.write(Buffer.alloc(100_000))
    else {
      sent.end()
      await once(sent, 'response')
    }
    while (gateway.descriptors.held < 2) await wait(5)
    sent.destroy()
    while (gateway.descriptors.held > 0) await wait(5)
  }
  await cut('GET', '/dav/folder/large', { authorization })
  await cut('PUT', '/dav/folder/new', { authorization, 'content-length': '10000000' })
  const selection = { path: '/', names: ['folder'] }
  const link = (await post(url, '/api/fs/zip_link', selection, token)).data as { url: string } | null
  if (link) await cut('GET', link.url.slice(url.length), {})
  t.ok(link)
  for (const [method, path, headers] of [
    ['GET', '/dav/folder/large', { range: 'bytes=5-9' }],
    ['GET', '/dav/folder/large', { range: 'bytes=0-1,100000000-' }],
    ['GET', '/dav/folder/missing', {}],
    ['GET', '/dav/folder', {}],
    ['PUT', '/dav/missing/file', {}],
    ['PROPFIND', '/dav/', { depth: 'infinity' }],
    ['PROPFIND', '/dav/folder', { depth: '1' }],
    ['MOVE', '/dav/folder/below', { destination: '/dav/moved' }],
    ['GET', '/d/folder/large', {}],
  ] as const) {
    await send(url, method, path, { authorization, ...headers }, method === 'PUT' ? 'x' : undefined)
  }
  const client = await packets(t, running, 'ada')
  const handles = [
    await client.open('/folder/large', flags.read),
    await client.open('/folder/large', flags.read | flags.write),
    await client.open('/new', flags.write | flags.create),
    await client.openFolder('/folder'),
  ]
  t.ok(handles.every((handle) => Buffer.isBuffer(handle)))
  t.equal(await client.open('/missing', flags.read), status.noSuchFile)
  t.equal(await client.openFolder('/missing'), status.noSuchFile)
  t.ok(gateway.descriptors.heldBy(id) >= 6)
  client.channel.destroy()
  while (gateway.descriptors.held > 1) await wait(5)
  t.equal(gateway.descriptors.heldBy('127.0.0.1'), 1, 'the connection of that channel')
})
