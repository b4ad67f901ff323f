/** Uploads by the API, as a body, as a form, or as a task. One that is rejected or interrupted keeps the old file. */
import { createHash, randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { serve, type Envelope, type Served } from '../served.js'
import { until } from '../../../until.js'

const done = { code: 200, message: 'success', data: null }

async function form(served: Served, path: string, body: FormData, headers: Record<string, string> = {}) {
  const sent = { authorization: served.token, 'file-path': encodeURIComponent(path), ...headers }
  const response = await fetch(`${served.url}/api/fs/form`, { method: 'PUT', body, headers: sent })
  return (await response.json()) as Envelope
}

function withFile(content: string | Buffer): FormData {
  const body = new FormData()
  body.append('file', new Blob([content]), 'ignored name.bin')
  return body
}

void t.test('put stores the body of the request', async (t) => {
  const served = await serve(t)
  t.strictSame(await served.put('/new/folder/ä b+c.txt', 'hello', { 'last-modified': '1715961936465' }), done)
  t.equal(await served.content('/new/folder/ä b+c.txt'), 'hello')
  t.match((await served.post('/api/fs/get', { path: '/new/folder/ä b+c.txt' })).data, {
    modified: '2024-05-17T16:05:36.465Z',
  })
  t.strictSame(await served.put('/new/empty', ''), done)
  t.equal(await served.content('/new/empty'), '')
  t.strictSame(await served.put('/new/empty', 'no longer'), done, 'replaces')
  t.equal(await served.content('/new/empty'), 'no longer')
  const raw = { 'file-path': Buffer.from('/世界').toString('latin1') }
  t.strictSame(await served.put('', 'x', raw), done)
  t.equal(await served.content('/世界'), 'x')
})

void t.test('put rejects', async (t) => {
  const served = await serve(t)
  await served.put('/a/file', 'old')

  await t.test('an existing file if Overwrite is false', async (t) => {
    t.match(await served.put('/a/file', 'new', { overwrite: 'false' }), { code: 403, message: 'file exists' })
    t.strictSame(await served.put('/a/file2', 'new', { overwrite: 'false' }), done)
  })
  await t.test('paths that do not name a file', async (t) => {
    for (const path of ['', '/']) t.match(await served.put(path, 'x'), { code: 400 }, path)
    for (const path of ['/../x', '/a/../x', '/a/..', '..\\x']) {
      t.match(await served.put(path, 'x'), { code: 403, message: 'using relative path is not allowed' }, path)
    }
    for (const path of ['/a/x\0', '/a/x\n']) t.match(await served.put(path, 'x'), { code: 400 }, JSON.stringify(path))
    t.match(await served.put('', 'x', { 'file-path': '/a/%zz' }), { code: 400 })
    t.match(await served.put('/a', 'x'), { code: 500 }, 'a folder')
    t.match(await served.put('/a/file/below', 'x'), { code: 500 })
    t.match(await served.put(`/a/${'x'.repeat(300)}`, 'x'), { code: 400 })
  })
  await t.test('a part of a file, and keeps the old file', async (t) => {
    const refused = { code: 400, message: 'an upload of a part is not supported' }
    const part = { 'content-range': 'bytes 1-2/3' }
    t.match(await served.put('/a/file', 'ew', part), refused)
    t.match(await served.put('/a/file', 'ew', { ...part, 'as-task': 'true' }), refused)
    t.match(await form(served, '/a/file', withFile('ew'), part), refused)
    t.equal(await served.content('/a/file'), 'old')
  })
  await t.test('content with another size or digest than declared, and keeps the old file', async (t) => {
    const digest = (name: string) => createHash(name).update('new').digest('hex')
    for (const name of ['md5', 'sha1', 'sha256']) {
      const wrong = { [`x-file-${name}`]: digest(name).replace(/./, (first) => (first === '0' ? '1' : '0')) }
      t.match(await served.put('/a/file', 'new', wrong), { code: 400, message: new RegExp(name) })
      t.match(await form(served, '/a/file', withFile('new'), wrong), { code: 400, message: new RegExp(name) })
      t.match(await served.put('/a/none', 'new', wrong), { code: 400 })
    }
    t.match(await served.put('/a/file', 'new', { 'x-file-md5': 'short' }), { code: 400 })
    t.match(await served.put('/a/file', 'new', { 'x-file-size': 'many' }), { code: 400 })
    t.equal(await served.content('/a/file'), 'old')
    t.same(await served.names('/a'), ['file', 'file2'])
    const right = { 'x-file-md5': digest('md5').toUpperCase(), 'x-file-sha256': digest('sha256') }
    t.strictSame(await served.put('/a/file', 'new', right), done)
    t.equal(await served.content('/a/file'), 'new')
  })
  await t.test('a user without write permission, also with a large body', async (t) => {
    const ann = await served.as('ann', ['rename', 'move', 'copy', 'remove'])
    const large = randomBytes(20_000_000)
    t.match(await ann.put('/a/large', large), { code: 403, message: 'permission denied' })
    t.match(await form(ann, '/a/large', withFile(large)), { code: 403, message: 'permission denied' })
    const nobody = { authorization: '' }
    t.match(await served.put('/a/large', large, nobody), { code: 401 })
    await served.rule('/a/closed', { password: 'secret', passwordSub: true })
    const bob = await served.as('bob', ['write'])
    t.match(await bob.put('/a/closed/x', 'x'), { code: 403, message: /password is incorrect/ })
    t.match(await bob.put('/a/closed/x', 'x', { password: 'secret' }), { code: 200 })
  })
  await t.test('system files if the setting is on', async (t) => {
    t.strictSame(await served.put('/a/.DS_Store', 'x'), done)
    await served.gateway.settings.set(new Map([['ignore_system_files', 'true']]))
    for (const name of ['.DS_Store', 'Thumbs.db', '._x']) {
      t.match(await served.put(`/a/${name}`, 'x'), { code: 403, message: 'system file upload ignored' })
    }
  })
})

void t.test('an upload with a precondition replaces only the expected file', async (t) => {
  const served = await serve(t)
  const tagOf = async () => ((await served.post('/api/fs/get', { path: '/a/file' })).data as { etag: string }).etag
  const upload = (path: string, body: string, headers: Record<string, string>) =>
    fetch(`${served.url}/api/fs/put`, {
      method: 'PUT',
      body,
      headers: { authorization: served.token, 'file-path': path, ...headers },
    })
  const created = await upload('/a/file', 'one', { 'if-none-match': '*' })
  t.match(await created.json(), done)
  const first = await tagOf()
  t.match(first, /^"[^"]+"$/)
  t.equal(created.headers.get('etag'), first)
  const exists = { code: 412, message: 'If-None-Match does not hold' }
  t.match(await served.put('/a/file', 'two', { 'if-none-match': '*' }), exists)
  t.match(await served.put('/a/file', 'two', { 'if-none-match': first }), exists)
  t.strictSame(await served.put('/a/file', 'second', { 'if-match': `"other", ${first}` }), done)
  const changed = { code: 412, message: 'If-Match does not hold' }
  t.match(await served.put('/a/file', 'lost', { 'if-match': first }), changed)
  t.match(await form(served, '/a/file', withFile('lost'), { 'if-match': first }), changed)
  t.match(await served.put('/a/file', 'lost', { 'if-match': 'faulty' }), changed)
  t.match(await served.put('/a/none', 'lost', { 'if-match': '*' }), changed)
  t.equal(await served.content('/a/file'), 'second')
  const second = await tagOf()
  t.not(second, first)
  const raw = (await served.post('/api/fs/get', { path: '/a/file' })).data as { raw_url: string }
  t.equal((await fetch(raw.raw_url)).headers.get('etag'), second, 'the same as of the download')
  t.strictSame(await form(served, '/a/file', withFile('third'), { 'if-match': second }), done)
  t.match((await served.post('/api/fs/get', { path: '/a' })).data, { etag: '' })
  const asTask = { code: 400, message: 'a task has no preconditions' }
  t.match(await served.put('/a/file', 'lost', { 'as-task': 'true', 'if-match': second }), asTask)
  t.match(await served.put('/a/new', 'lost', { 'as-task': 'true', 'if-none-match': '*' }), asTask)
  t.equal(await served.content('/a/file'), 'third')
  t.same(await served.names('/a'), ['file'])
})

void t.test('an interrupted upload keeps the old file and leaves nothing else', async (t) => {
  const served = await serve(t)
  await served.put('/a/file', 'old')
  const { port } = new URL(served.url)
  const boundary = '--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
  for (const [call, type, content] of [
    ['put', 'text/plain', 'half'],
    ['form', 'multipart/form-data; boundary=b', `${boundary}half`],
  ] as const) {
    for (const path of ['/a/file', '/a/new']) {
      const socket = connect(Number(port), '127.0.0.1')
      socket.on('error', () => undefined)
      const head = `PUT /api/fs/${call} HTTP/1.1\r\nHost: x\r\nAuthorization: ${served.token}\r\nFile-Path: ${path}\r\n`
      socket.write(`${head}Content-Type: ${type}\r\nContent-Length: 100000\r\n\r\n${content}`)
      await delay(100)
      socket.destroy()
    }
  }
  await delay(100)
  t.same(await served.names('/a'), ['file'])
  t.equal(await served.content('/a/file'), 'old')
})

void t.test('form stores one part of the request', async (t) => {
  const served = await serve(t)
  const content = randomBytes(2_000_000)
  t.strictSame(await form(served, '/new/name.bin', withFile(content)), done)
  const { data } = await served.post('/api/fs/get', { path: '/new/name.bin' })
  const stored = await fetch((data as { raw_url: string }).raw_url)
  t.ok(Buffer.from(await stored.arrayBuffer()).equals(content))
  t.match(await form(served, '/new/x', new FormData()), { code: 500, message: 'http: no such file' })
  t.match(await form(served, '/new/name.bin', withFile('x'), { overwrite: 'false' }), {
    code: 403,
    message: 'file exists',
  })
  const plain = await fetch(`${served.url}/api/fs/form`, {
    method: 'PUT',
    body: 'x',
    headers: { authorization: served.token, 'file-path': '/x', 'content-type': 'text/plain' },
  })
  t.match(await plain.json(), { code: 400, message: 'the form is malformed' })
  t.same(await served.names('/'), ['new'])
})

void t.test('As-Task responds when the whole body is received', async (t) => {
  const served = await serve(t)
  await served.put('/a/taken', 'old')
  const answer = await served.put('/a/b/file', 'content', { 'as-task': 'true' })
  t.match(answer, {
    code: 200,
    data: {
      task: {
        id: /^[\w-]+$/,
        name: 'upload file to [/](/a/b)',
        creator: 'admin',
        creator_role: 2,
        state: 0,
        progress: 0,
        total_bytes: 7,
        error: '',
        start_time: null,
        end_time: null,
      },
    },
  })
  await until(async () => (await served.content('/a/b/file')) === 'content')
  t.equal(await served.content('/a/b/file'), 'content')
  const as = { 'as-task': 'true' }
  t.match(await served.put('/a/taken', 'x', { ...as, overwrite: 'false' }), { code: 403, message: 'file exists' })
  t.match(await served.put('/a/taken', 'x', { ...as, 'x-file-md5': '0'.repeat(32) }), { code: 400 })
  const ann = await served.as('ann', [])
  t.match(await ann.put('/a/new', 'x', as), { code: 403, message: 'permission denied' })
  t.match((await form(served, '/a/form', withFile('form'), as)).data, { task: { name: 'upload form to [/](/a)' } })
  await served.gateway.tasks.close()
  t.equal(await served.content('/a/taken'), 'old')
})

void t.test('an upload as a task leaves nothing in the spool, after success, failure or cancellation', async (t) => {
  const served = await serve(t)
  const as = { 'as-task': 'true' }
  const { folder } = served.gateway.spool
  const { data } = await served.put('/a', 'content', as)
  await served.put('/a/b', 'content', as)
  const tasks = await served.ended('upload')
  t.match(tasks, [
    { state: 2, progress: 100, total_bytes: 7 },
    { state: 7, error: 'not a folder' },
  ])
  t.match(data, { task: { id: tasks[0]?.id, status: 'uploading' } })
  await until(async () => (await readdir(folder)).length === 0)
  t.same(await readdir(folder), [])
  const refused = { code: 500, message: 'the received bytes are gone: upload the file again' }
  t.match(await served.post(`/api/task/upload/retry?tid=${tasks[1]?.id}`), refused)
  t.match(await served.post('/api/task/upload/retry_some', [tasks[1]?.id]), {
    data: { [tasks[1]?.id ?? '']: refused.message },
  })
  t.match(await served.post('/api/task/upload/retry_failed'), { code: 200 })
  t.match((await served.ended('upload'))[1], { state: 7, error: 'not a folder' }, 'the error of its run is kept')
  await served.gateway.settings.set(new Map([['spool_size_limit', '1']]))
  t.match(await served.put('/large', randomBytes(2_000_000), as), { code: 507, message: /spool_size_limit/ })
  t.equal(
    (await served.put('/large', randomBytes(2_000_000))).code,
    200,
    'an upload without a task needs no space there',
  )
  t.same(await readdir(folder), [])
})
