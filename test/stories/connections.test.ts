/** Admins see who is connected, and end connections. */
import { once } from 'node:events'
import { Agent, request, type IncomingMessage } from 'node:http'
import ssh2 from 'ssh2'
import t from 'tap'
import { allPermissions } from '../../src/accounts/principal.js'
import { startGateway } from '../gateway.js'
import { packetClient } from '../protocols/sftp/packet-client.js'
import { until } from '../until.js'

interface Listed {
  readonly id: string
  readonly protocol: string
  readonly username: string | null
  readonly received: number
  readonly sent: number
}

void t.test('SFTP sessions and running requests are listed, and ended', async (t) => {
  const { url, davUrl, sftpPort, gateway, adminPassword } = await startGateway(t, { driver: { name: 'Memory' } })
  const account = { basePath: '/', role: 'general', permission: allPermissions, disabled: false, ssoId: '' } as const
  await gateway.accounts.users.create({ username: 'ada', password: 'password', ...account })
  const send = async (path: string, body: unknown, authorization = '') => {
    const headers = { 'content-type': 'application/json', authorization }
    const response = await fetch(url + path, {
      method: body === undefined ? 'GET' : 'POST',
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    return (await response.json()) as { code: number; data: unknown }
  }
  const tokenOf = async (username: string, password: string) =>
    ((await send('/api/auth/login', { username, password })).data as { token: string }).token
  const admin = await tokenOf('admin', adminPassword)
  const call = (path: string, body?: unknown) => send(path, body, admin)
  const listed = async () =>
    ((await call('/api/admin/connection/list')).data as { connections: readonly Listed[] }).connections
  t.strictSame(await listed(), [], 'the own request is not shown')

  const client = new ssh2.Client()
  t.teardown(() => client.end())
  client.connect({ host: '127.0.0.1', port: sftpPort, username: 'ada', password: 'password', ident: packetClient })
  await once(client, 'ready')
  const basic = `Basic ${Buffer.from('ada:password').toString('base64')}`
  /** An upload whose body does not end. */
  const upload = (to: string, headers: Readonly<Record<string, string>>) => {
    const open = request(to, { method: 'PUT', headers: { ...headers, 'transfer-encoding': 'chunked' } })
    // Its connection is cut.
    const ended = new Promise((resolve) => open.once('error', resolve))
    open.write('x'.repeat(1000))
    return { ended, more: () => void open.write('x'.repeat(1000)) }
  }
  const uploads = [
    upload(`${davUrl}dav`, { authorization: basic }),
    upload(`${url}/api/fs/put`, { authorization: await tokenOf('ada', 'password'), 'file-path': '/api' }),
  ]
  t.ok(await until(async () => (await listed()).length === 3))
  const all = await listed()
  t.match(
    [...all].sort((one, other) => (one.protocol < other.protocol ? -1 : 1)),
    [{ protocol: 'http' }, { protocol: 'sftp' }, { protocol: 'webdav' }].map((each) => ({ ...each, username: 'ada' })),
  )
  const session = all.find(({ protocol }) => protocol === 'sftp')
  for (const { more } of uploads) more()
  t.ok((session?.received ?? 0) > 100 && (session?.sent ?? 0) > 100)
  t.ok(
    await until(async () => (await listed()).some(({ protocol, received }) => protocol === 'webdav' && received > 900)),
  )

  const closed = Promise.all([once(client, 'close'), ...uploads.map(({ ended }) => ended)])
  for (const { id } of all) t.match(await call('/api/admin/connection/end', { id }), { code: 200 })
  await closed
  t.ok(await until(async () => (await listed()).length === 0))

  // A proxy sends requests of different users by one connection.
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const putAda = (name: string) =>
    request(`${davUrl}${name}`, { method: 'PUT', agent, headers: { authorization: basic, 'content-length': '2' } })
  const first = putAda('first')
  first.write('1')
  t.ok(await until(async () => (await listed()).length === 1))
  const [{ id: earlier } = { id: '' }] = await listed()
  first.end('2')
  const [answer] = (await once(first, 'response')) as [IncomingMessage]
  answer.resume()
  await once(answer, 'end')
  const second = putAda('second')
  second.write('1')
  t.ok(await until(async () => (await listed()).length === 1))
  t.match(await call('/api/admin/connection/end', { id: earlier }), { code: 404 }, 'the next request is another one')
  second.end('2')
  const [stored] = (await once(second, 'response')) as [IncomingMessage]
  t.equal(stored.statusCode, 201)
  t.ok(second.reusedSocket)
  stored.resume()
  await call('/api/fs/remove', { dir: '/', names: ['first', 'second'] })
  t.match(await call('/api/admin/connection/end', { id: session?.id }), { code: 404 })
  t.match(await call('/api/fs/list', { path: '/' }), { data: { total: 0 } }, 'no upload is stored')
})

void t.test('the sessions of all browsers are listed, and one of them is ended', async (t) => {
  const { url, adminPassword } = await startGateway(t, { driver: { name: 'Memory' } })
  const signIn = async () => {
    const response = await fetch(`${url}/api/auth/session`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'user-agent': 'Browser/1' },
      body: JSON.stringify({ username: 'admin', password: adminPassword }),
    })
    return response.headers.getSetCookie()[0]?.split(';')[0] ?? ''
  }
  const [first, second] = [await signIn(), await signIn()]
  const call = async (cookie: string, path: string, method = 'GET') =>
    (await (await fetch(url + path, { method, headers: { cookie } })).json()) as { code: number; data: unknown }
  const { data } = await call(second, '/api/admin/session/list')
  t.match(data, { total: 2, content: [{ username: 'admin', user_agent: 'Browser/1' }, { username: 'admin' }] })
  const [, { id }] = (data as { content: [unknown, { id: number }] }).content
  t.match(await call(second, `/api/admin/session/delete?id=${id}`, 'POST'), { code: 200 })
  t.match(await call(second, `/api/admin/session/delete?id=${id}`, 'POST'), { code: 404 })
  t.match(await call(first, '/api/me'), { code: 401 })
  t.match(await call(second, '/api/me'), { code: 200 })
})
