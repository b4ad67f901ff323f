/** Bytes that are not UTF-8, in every kind of text that a client sends: they are refused, and never replaced. */
import { Readable } from 'node:stream'
import t from 'tap'
import { asPath } from '../../src/base/path.js'
import { basic, post, send, sendRaw, signIn, startWorld, store, type World } from './world.js'

async function members({ all }: World, folder: string): Promise<readonly string[]> {
  const { entries } = await all.list(asPath(folder))
  return entries.map(({ name }) => name).sort()
}

const latin1 = (text: string) => Buffer.from(text, 'latin1')
const form = { 'content-type': 'application/x-www-form-urlencoded' }
const json = { 'content-type': 'application/json' }
const multipart = { 'content-type': 'multipart/form-data; boundary=b' }
const part = (disposition: string, content: string, headers = '') =>
  latin1(`--b\r\nContent-Disposition: form-data; ${disposition}\r\n${headers}\r\n${content}\r\n--b--\r\n`)

void t.test('a header that is not UTF-8 is read as Latin-1', async (t) => {
  const world = await startWorld(t)
  const authorization = await signIn(world, 'mallory')
  for (const name of ['caf\xe9.txt', 'caf\xe8.txt']) {
    const reply = await send(world.url, 'PUT', '/api/fs/put', { authorization, 'file-path': `/open/${name}` }, name)
    t.match(reply.text, /"code":200/)
  }
  t.same(await members(world, '/team/open'), ['café.txt', 'cafè.txt', 'sub'].sort())
})

void t.test('any other text that is not UTF-8 is refused with status 400', async (t) => {
  const world = await startWorld(t)
  const { url } = world
  await store(world.all, '/team/open/caf', 'the file of the user')
  const before = await members(world, '/team/open')
  const authorization = await signIn(world, 'mallory')
  const api = (endpoint: string, headers: Record<string, string>, body: string | Buffer) =>
    send(url, 'POST', `/api/${endpoint}`, { authorization, ...headers }, Buffer.from(body as string))
  const dav = (method: string, target: string, headers: Record<string, string> = {}) =>
    send(url, method, target, { authorization: basic('mallory'), ...headers })
  const raw = async (target: string) => {
    const head = `GET ${target} HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\nConnection: close\r\n\r\n`
    return { status: 0, text: await sendRaw(url, latin1(head)) }
  }
  const requests: Readonly<Record<string, () => Promise<{ status: number; text: string }>>> = {
    'a path in JSON': () => api('fs/mkdir', json, latin1('{"path":"/open/caf\xe9"}')),
    'a path in JSON that ends within a character': () => api('fs/mkdir', json, latin1('{"path":"/open/caf\xc3"}')),
    'half of a surrogate pair in JSON': () => api('fs/mkdir', json, '{"path":"/open/caf\\ud800"}'),
    'half of a surrogate pair in a password': () =>
      api('auth/login', json, '{"username":"mallory","password":"\\uDC00"}'),
    'half of a surrogate pair in a list': () => api('fs/remove', json, '{"dir":"/open","names":["caf\\ud83d\\u0020"]}'),
    'a password in JSON': () => api('auth/login', json, latin1('{"username":"mallory","password":"\xe9"}')),
    'a user name in JSON': () => api('auth/login', json, latin1('{"username":"\xe9","password":"x"}')),
    'a form': () => api('fs/mkdir', form, latin1('path=/open/caf\xe9')),
    'an escape of a form': () => api('fs/mkdir', form, 'path=%2Fopen%2Fcaf%E9'),
    'the escape of a surrogate': () => api('fs/mkdir', form, 'path=%2Fopen%2Fcaf%ED%A0%80'),
    'an overlong escape': () => api('fs/list', form, 'path=%2Fopen%C0%AFcaf'),
    'an escape of a query': () => send(url, 'GET', '/api/fs/list?path=/open/caf%E9', { authorization }),
    'an escape of a query beside a body': () => api('fs/mkdir?path=/open/caf%e9', json, ''),
    'a byte of a query': () => raw('/api/fs/list?path=/open/caf\xe9'),
    'a password in a query': () => send(url, 'GET', '/api/fs/list?path=/open&password=%FF', { authorization }),
    'a field of a multipart form': () => api('fs/mkdir', multipart, part('name="path"', '/open/caf\xe9')),
    'a field of a multipart form with its charset': () =>
      api('fs/mkdir', multipart, part('name="path"', '/open/caf\xe9', 'Content-Type: text/plain; charset=utf-8\r\n')),
    'the name of a field': () => api('fs/mkdir', multipart, part('name="p\xe9"', '/open/caf')),
    'the name of a file in a form': () =>
      send(
        url,
        'PUT',
        '/api/fs/form',
        { authorization, ...multipart, 'file-path': '/open/caf' },
        part('name="file"; filename="\xe9"', 'replaced'),
      ),
    'an escape of File-Path': () =>
      send(url, 'PUT', '/api/fs/put', { authorization, 'file-path': '/open/caf%E9' }, 'replaced'),
    'an escape of a download': () => send(url, 'GET', '/d/open/caf%E9'),
    'a byte of a download': () => raw('/d/open/caf\xe9'),
    'the query of a download': () => send(url, 'GET', '/d/open/caf?x=%E9'),
    'an escape of a WebDAV target': () => dav('PUT', '/dav/open/caf%E9'),
    'an escape of a Destination': () => dav('MOVE', '/dav/open/caf', { destination: '/dav/open/caf%E9' }),
    'a byte of a Destination': () => dav('MOVE', '/dav/open/caf', { destination: '/dav/open/caf\xe9' }),
    'a Basic password': () =>
      dav('PROPFIND', '/dav/', { authorization: `Basic ${latin1('mallory:\xe9').toString('base64')}` }),
    'a Basic user name': () =>
      dav('PROPFIND', '/dav/', { authorization: `Basic ${latin1('\xe9:x').toString('base64')}` }),
  }
  for (const [title, ask] of Object.entries(requests)) {
    const { status, text } = await ask()
    t.ok(status === 400 || /"code":400,|^HTTP\/1\.1 400 /m.test(text), title, { status, text: text.slice(0, 300) })
  }
  t.same(await members(world, '/team/open'), before)
  const content = await world.all.read(asPath('/team/open/caf'))
  t.equal(Buffer.concat(await Readable.from(content).toArray()).toString(), 'the file of the user')
})

void t.test('escapes of UTF-8 are read, and a percent sign that begins none stands for itself', async (t) => {
  const world = await startWorld(t)
  const { url } = world
  const authorization = await signIn(world, 'mallory')
  await store(world.all, '/team/open/café/100%/x', 'x')
  const ask = async (path: string) => [
    await send(url, 'GET', `/api/fs/list?path=${path}`, { authorization }),
    await send(url, 'POST', '/api/fs/list', { authorization, ...form }, `path=${path}`),
  ]
  for (const path of ['/open/caf%C3%A9/100%25', '/open/caf%c3%a9/100%']) {
    for (const { text } of await ask(path)) t.match(text, /"name":"x"/, path)
  }
})

void t.test('a new user name or password must be decoded text', async (t) => {
  const world = await startWorld(t)
  const token = await signIn(world, 'admin', world.adminPassword)
  const user = { username: 'eve', password: 'good', base_path: '/', role: 0, permission: 0 }
  for (const fault of [{ username: 'e\ufffd' }, { password: 'e\ufffd' }]) {
    t.match(await post(world.url, '/api/admin/user/create', { ...user, ...fault }, token), {
      code: 400,
      message: /U\+FFFD/,
    })
  }
  t.equal((await post(world.url, '/api/admin/user/create', user, token)).code, 200)
})
