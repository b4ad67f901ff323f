/** Uploads in chunks by the API: order, repetition, resumption, refusals, and what remains of those that end early. */
import { createHash, randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { mock } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { permissionBits } from '../../../../src/accounts/principal.js'
import { UploadSession } from '../../../../src/uploads/upload-session.js'
import { until } from '../../../until.js'
import { assertDeclared } from '../declared.js'
import { serve, Served, type Envelope } from '../served.js'

const mebibyte = 1024 * 1024

const receive = mock.method(UploadSession.prototype, 'receive')

/** Sends what `begin` does, and resolves when so many more requests for chunks have reached their sessions. */
async function begun<T>(count: number, begin: () => T): Promise<{ readonly sent: T }> {
  const before = receive.mock.callCount()
  const sent = begin()
  await until(() => receive.mock.callCount() >= before + count)
  return { sent }
}

interface Snapshot {
  readonly upload_id: string
  readonly state: string
  readonly attempt: number
  readonly chunk_size: number
  readonly total_chunks: number
  readonly received: readonly (readonly number[])[]
  readonly received_bytes: number
  readonly frontier: number
  readonly storage_progress: number
  readonly resumed?: boolean
  readonly error?: string
}

type Answer = Envelope & { readonly data: Snapshot }

/** The requests of one upload. */
class Upload {
  id = ''

  constructor(
    readonly served: Served,
    readonly path: string,
    readonly content: Buffer,
    readonly chunkSize = mebibyte,
  ) {}

  async ask(method: string, target: string, headers: Record<string, string>, body?: Uint8Array): Promise<Answer> {
    const sent = { authorization: this.served.token, 'x-upload-id': this.id, ...headers }
    const response = await fetch(this.served.url + target, { method, headers: sent, ...(body && { body }) })
    const answer = (await response.json()) as Answer
    assertDeclared(method, target, answer)
    return answer
  }

  async init(headers: Record<string, string> = {}): Promise<Answer> {
    const answer = await this.ask('POST', '/api/fs/multipart/init', {
      'file-path': encodeURIComponent(this.path),
      'x-file-size': String(this.content.length),
      'x-chunk-size': String(this.chunkSize),
      'last-modified': '1715961936465',
      'x-file-head-sha256': createHash('sha256').update(this.content.subarray(0, mebibyte)).digest('hex'),
      ...headers,
    })
    if (answer.code === 200) this.id = answer.data.upload_id
    return answer
  }

  chunk(index: number, body: Uint8Array = this.part(index)): Promise<Answer> {
    return this.ask('PUT', '/api/fs/multipart/chunk', { 'x-chunk-index': String(index) }, body)
  }

  part(index: number): Buffer {
    return this.content.subarray(index * this.chunkSize, (index + 1) * this.chunkSize)
  }

  complete(): Promise<Answer> {
    return this.ask('POST', '/api/fs/multipart/complete', {})
  }

  status(query = `upload_id=${this.id}`): Promise<Answer> {
    return this.ask('GET', `/api/fs/multipart/status?${query}`, {})
  }

  abort(): Promise<Answer> {
    return this.ask('POST', '/api/fs/multipart/abort', {})
  }

  async stored(): Promise<Buffer | undefined> {
    const { data } = await this.served.post('/api/fs/get', { path: this.path })
    if (data === null) return undefined
    const response = await fetch((data as { raw_url: string }).raw_url)
    return Buffer.from(await response.arrayBuffer())
  }
}

const empty = {
  upload_id: '',
  state: '',
  attempt: 0,
  path: '',
  size: 0,
  chunk_size: 0,
  total_chunks: 0,
  received: [],
  received_bytes: 0,
  frontier: 0,
  storage_progress: 0,
}

void t.test('a file is stored chunk by chunk, when it is completed', async (t) => {
  const upload = new Upload(await serve(t), '/new/ä b', randomBytes(2.5 * mebibyte))
  const { data } = await upload.init()
  t.strictSame(data, {
    upload_id: upload.id,
    state: 'receiving',
    attempt: 1,
    path: '/new/ä b',
    size: 2.5 * mebibyte,
    chunk_size: mebibyte,
    total_chunks: 3,
    received: [],
    received_bytes: 0,
    frontier: 0,
    storage_progress: 0,
    resumed: false,
  })
  t.match(await upload.chunk(0), { code: 200, data: { received: [[0, 0]], received_bytes: mebibyte, frontier: 1 } })
  t.match(await upload.complete(), {
    code: 400,
    message: `cannot complete: ${mebibyte} of ${2.5 * mebibyte} bytes received`,
    data: { upload_id: upload.id, state: 'receiving', received: [[0, 0]] },
  })
  await upload.chunk(1)
  t.match(await upload.chunk(2), { code: 200, data: { received: [[0, 2]], frontier: 3, state: 'receiving' } })
  await delay(50)
  t.equal(await upload.stored(), undefined, 'not yet')
  const done = { code: 200, data: { state: 'completed', storage_progress: 100, received_bytes: 2.5 * mebibyte } }
  t.match(await upload.complete(), done)
  t.ok((await upload.stored())?.equals(upload.content))
  t.match(await upload.complete(), done, 'again')
  t.match(await upload.chunk(1), done, 'a late chunk')
  t.match(await upload.status(), done)
  t.match((await upload.served.post('/api/fs/get', { path: '/new/ä b' })).data, {
    modified: '2024-05-17T16:05:36.465Z',
  })
})

void t.test('chunks are sent in any order and more than once', async (t) => {
  const upload = new Upload(await serve(t), '/file', randomBytes(6 * mebibyte))
  await upload.init()
  const { sent: late } = await begun(4, () => [3, 2, 5, 1].map((index) => upload.chunk(index)))
  t.match(await upload.chunk(2), { code: 409, message: 'the chunk is being received', data: { received: [] } })
  t.match(await upload.chunk(0), { code: 200 })
  t.match(await upload.chunk(0), { code: 200 }, 'once more')
  t.match(await upload.chunk(4), { code: 200 })
  for (const answer of await Promise.all(late)) t.equal(answer.code, 200)
  t.match(await upload.complete(), { code: 200 })
  t.ok((await upload.stored())?.equals(upload.content))
})

void t.test('an upload is resumed by the same file only', async (t) => {
  const upload = new Upload(await serve(t), '/file', randomBytes(3 * mebibyte))
  await upload.init()
  await upload.chunk(0)
  const first = upload.id
  t.match(await upload.init(), { data: { upload_id: first, resumed: true, received: [[0, 0]], attempt: 1 } })
  const hashes = { 'x-file-md5': createHash('md5').update(upload.content).digest('hex') }
  for (const [title, headers] of [
    ['another time', { 'last-modified': '1715961936466' }],
    ['another head', { 'x-file-head-sha256': '0'.repeat(64) }],
    ['no head', { 'x-file-head-sha256': '' }],
    ['no head again', { 'x-file-head-sha256': '' }],
    ['a digest', hashes],
    ['another wish to overwrite', { ...hashes, overwrite: 'false' }],
  ] as const) {
    const old = upload.id
    const { data } = await upload.init(headers)
    t.match(data, { resumed: false, received: [] }, title)
    t.not(data.upload_id, old, title)
    t.match(await upload.status(`upload_id=${old}`), { code: 404, message: 'upload not found', data: empty })
    await upload.chunk(0)
  }
  t.match(await upload.status(`path=%2Ffile&size=${3 * mebibyte}`), { data: { upload_id: upload.id } })
  t.match(await upload.status(`path=%2Ffile&size=${mebibyte}`), { code: 404, data: empty })
  await upload.chunk(1)
  await upload.chunk(2)
  t.match(await upload.complete(), { code: 200 })
  t.match(await upload.init({ ...hashes, overwrite: 'false' }), { code: 403, message: 'file exists' })
  t.match(await upload.status(`path=%2Ffile&size=${3 * mebibyte}`), { code: 404 })
})

void t.test('a guest resumes only the upload whose id it sends', async (t) => {
  const admin = await serve(t)
  const { users } = admin.gateway.accounts
  const permission = permissionBits.write
  await users.update(users.byUniqueRole('guest')?.id ?? 0, { disabled: false, permission })
  const guest = new Served(admin.url, admin.gateway)
  const content = randomBytes(2 * mebibyte)
  const [one, other] = [new Upload(guest, '/file', content), new Upload(guest, '/file', content)]
  await one.init()
  await one.chunk(0)
  t.match(await other.status(`path=%2Ffile&size=${content.length}`), { code: 404, data: empty })
  t.match(await other.init(), { data: { resumed: false, received: [] } })
  t.not(other.id, one.id)
  t.match(await one.init(), { data: { upload_id: one.id, resumed: true, received: [[0, 0]] } })
  t.match(await one.chunk(1), { code: 200 })
  t.match(await one.complete(), { code: 200 })
  t.match(await other.abort(), { code: 200 })
})

void t.test('a chunk whose connection was lost is sent again', async (t) => {
  const upload = new Upload(await serve(t), '/file', randomBytes(2 * mebibyte))
  await upload.init()
  for (const size of [1000, 300_000, mebibyte - 1]) {
    await cut(upload, 0, upload.part(0).subarray(0, size))
  }
  t.match(await upload.status(), { data: { received: [], frontier: 0 } })
  t.match(await upload.chunk(0), { code: 200 })
  await cut(upload, 1, upload.part(1).subarray(0, 5000))
  t.match(await upload.init(), { data: { resumed: true, received: [[0, 0]] } })
  t.match(await upload.chunk(1), { code: 200 })
  t.match(await upload.complete(), { code: 200 })
  t.ok((await upload.stored())?.equals(upload.content))
})

/** Sends the beginning of a chunk, disconnects, and waits until the server has noticed. */
async function cut({ served, id, chunkSize }: Upload, index: number, beginning: Buffer): Promise<void> {
  const socket = connect(Number(new URL(served.url).port), '127.0.0.1')
  socket.on('error', () => undefined)
  const head = `PUT /api/fs/multipart/chunk HTTP/1.1\r\nHost: x\r\nAuthorization: ${served.token}\r\n`
  await begun(1, () => {
    socket.write(`${head}X-Upload-Id: ${id}\r\nX-Chunk-Index: ${index}\r\nContent-Length: ${chunkSize}\r\n\r\n`)
    socket.write(beginning)
  })
  socket.end()
  await receive.mock.calls.at(-1)?.result?.catch(() => undefined)
}

void t.test('a chunk that is not the one of before ends the upload', async (t) => {
  const upload = new Upload(await serve(t), '/file', randomBytes(2 * mebibyte))
  await upload.init()
  await cut(upload, 0, upload.part(0).subarray(0, 5000))
  const changed = { state: 'failed_permanent', error: 'the chunk has other bytes than before: the file has changed' }
  t.match(await upload.chunk(0, randomBytes(mebibyte)), { code: 400, message: changed.error, data: changed })
  t.match(await upload.chunk(0), { code: 400, data: changed })
  t.match(await upload.complete(), { code: 400, data: changed })
  t.match(await upload.init(), { data: { resumed: false, state: 'receiving' } })
  t.match(await upload.chunk(0), { code: 200 })
})

void t.test('chunks are refused', async (t) => {
  const upload = new Upload(await serve(t), '/file', randomBytes(2.5 * mebibyte))
  await upload.init()

  await t.test('with a wrong index or length', async (t) => {
    const { id } = upload
    for (const index of ['-1', '3', '1.5', 'x', '', '9'.repeat(30)]) {
      t.match(await upload.ask('PUT', '/api/fs/multipart/chunk', { 'x-chunk-index': index }, upload.part(0)), {
        code: 400,
        message: index === '' ? 'X-Chunk-Index is missing' : 'the upload has 3 chunks, counted from 0',
        data: { upload_id: id },
      })
    }
    const nameless = await upload.ask('POST', '/api/fs/multipart/complete', { 'x-upload-id': '' })
    t.match(nameless, { code: 400, message: 'X-Upload-Id is missing', data: { upload_id: '', state: '' } })
    for (const size of [0, 1, mebibyte - 1, mebibyte + 1, 2.5 * mebibyte]) {
      const message = `chunk 0 has ${mebibyte} bytes, not ${size}`
      t.match(await upload.chunk(0, upload.content.subarray(0, size)), { code: 400, message, data: { received: [] } })
    }
    t.match(await upload.chunk(2, upload.content.subarray(0, mebibyte)), { code: 400 }, 'the last one is shorter')
  })
  await t.test('with a wrong length that was not announced', async (t) => {
    for (const size of [10, mebibyte - 1, mebibyte + 1, 2 * mebibyte]) {
      const body = new Blob([upload.content.subarray(0, size)]).stream()
      const headers = { authorization: upload.served.token, 'x-upload-id': upload.id, 'x-chunk-index': '0' }
      const init = { method: 'PUT', headers, body, duplex: 'half' } as RequestInit
      const response = await fetch(`${upload.served.url}/api/fs/multipart/chunk`, init)
      t.match(await response.json(), { code: 400, data: { received: [], state: 'receiving' } }, String(size))
    }
    t.match(await upload.chunk(0), { code: 200 })
  })
  await t.test('of an unknown upload and of another user', async (t) => {
    const ann = new Upload(await upload.served.as('ann', ['write']), '/file', upload.content)
    for (const ask of [() => ann.chunk(1), () => ann.complete(), () => ann.status(), () => ann.abort()]) {
      ann.id = 'unknown'
      t.match(await ask(), { code: 404, message: 'upload not found', data: empty })
      ann.id = upload.id
      t.match(await ask(), { code: 403, message: 'the upload belongs to another user', data: empty })
    }
    t.match(await ann.status(`path=%2Ffile&size=${2.5 * mebibyte}`), { code: 404 })
  })
  await t.test('far ahead of the next one', async (t) => {
    const far = new Upload(upload.served, '/far', randomBytes(20 * mebibyte))
    await far.init()
    const { sent: waiting } = await begun(8, () => Array.from({ length: 8 }, (_, index) => far.chunk(index + 1)))
    const refused = await far.chunk(9)
    t.match(refused, { code: 429, message: 'too many chunks are waiting, try again', data: { frontier: 0 } })
    t.match(await far.chunk(0), { code: 200 }, 'the next one is received nevertheless')
    for (const answer of await Promise.all(waiting)) t.equal(answer.code, 200)
    t.match(await far.abort(), { code: 200, data: { state: 'aborted' } })
    t.match(await far.chunk(9), { code: 404 })
  })
})

void t.test('init refuses', async (t) => {
  const served = await serve(t)
  const upload = new Upload(served, '/a/file', randomBytes(mebibyte))
  await served.put('/a/file', 'old')

  await t.test('what put refuses', async (t) => {
    t.match(await upload.init({ overwrite: 'false' }), { code: 403, message: 'file exists', data: empty })
    const ann = new Upload(await served.as('ann', ['remove']), '/a/file', upload.content)
    t.match(await ann.init(), { code: 403, message: 'permission denied' })
    t.match(await upload.init({ 'file-path': '/a' }), { code: 500 }, 'a folder')
    t.match(await upload.init({ 'file-path': '/../x' }), { code: 403, message: 'using relative path is not allowed' })
    await served.rule('/closed', { password: 'secret', passwordSub: true })
    const bob = new Upload(await served.as('bob', ['write']), '/closed/file', upload.content)
    t.match(await bob.init(), { code: 403, message: /password is incorrect/ })
    t.match(await bob.init({ password: 'secret' }), { code: 200 })
  })
  await t.test('a size of zero, or none', async (t) => {
    for (const size of ['', '0', '000', '-1', '1.5', 'x']) {
      t.match(await upload.init({ 'x-file-size': size }), { code: 400, message: /^X-File-Size/ }, size)
    }
    t.match(await upload.init({ 'x-chunk-size': 'many' }), { code: 400, message: 'X-Chunk-Size is not an integer' })
  })
  await t.test('everything while the setting is off', async (t) => {
    await served.gateway.settings.set(new Map([['multipart_enabled', 'false']]))
    t.match(await upload.init(), { code: 400, message: 'multipart upload is disabled' })
    await served.gateway.settings.set(new Map([['multipart_enabled', 'true']]))
  })
  await t.test('more than 32 uploads of a user', async (t) => {
    const ids: string[] = []
    const cat = await served.as('cat', ['write'])
    for (let number = 0; number < 32; number++) {
      const each = new Upload(cat, `/many/${number}`, upload.content)
      t.equal((await each.init()).code, 200)
      ids.push(each.id)
    }
    const more = new Upload(cat, '/many/more', upload.content)
    t.match(await more.init(), { code: 429, message: 'too many uploads are open' })
    const one = new Upload(cat, '/many/0', upload.content)
    t.match(await one.init(), { code: 200, data: { resumed: true } })
    t.match(await upload.init(), { code: 200 }, 'others may')
    for (const id of ids) {
      one.id = id
      t.match(await one.abort(), { code: 200 })
    }
    t.match(await more.init(), { code: 200 })
  })
})

void t.test('the size of chunks is that of the setting, or less', async (t) => {
  const served = await serve(t)
  const sizeFor = async (asked: string) =>
    (await new Upload(served, '/file', randomBytes(100)).init({ 'x-chunk-size': asked })).data.chunk_size
  t.equal(await sizeFor(''), 10 * mebibyte)
  t.equal(await sizeFor(String(3 * mebibyte)), 3 * mebibyte)
  t.equal(await sizeFor('5'), mebibyte)
  t.equal(await sizeFor(String(30 * mebibyte)), 10 * mebibyte)
  await served.gateway.settings.set(new Map([['multipart_chunk_size', '2']]))
  t.equal(await sizeFor(''), 2 * mebibyte)
})

void t.test('the content is compared with its digests', async (t) => {
  const upload = new Upload(await serve(t), '/file', randomBytes(2 * mebibyte))
  await upload.init({ 'x-file-sha256': '0'.repeat(64) })
  await upload.chunk(0)
  await upload.chunk(1)
  const message = 'the content does not have the announced sha256'
  t.match(await upload.complete(), { code: 400, message, data: { state: 'failed_permanent', error: message } })
  t.equal(await upload.stored(), undefined)
  await upload.init({ 'x-file-sha256': createHash('sha256').update(upload.content).digest('hex') })
  await upload.chunk(0)
  await upload.chunk(1)
  t.match(await upload.complete(), { code: 200 })
  t.ok((await upload.stored())?.equals(upload.content))
})

void t.test('what is allowed is judged again when the file is published', async (t) => {
  const served = await serve(t)
  const ready = async (user: string, path: string, headers: Record<string, string> = {}) => {
    const upload = new Upload(await served.as(user, ['write']), path, randomBytes(mebibyte))
    await upload.init(headers)
    await upload.chunk(0)
    return upload
  }
  const created = await ready('ann', '/ann', { overwrite: 'false' })
  await served.put('/ann', 'meanwhile')
  t.match(await created.complete(), { code: 400, message: 'file exists', data: { state: 'failed_permanent' } })
  t.equal(await served.content('/ann'), 'meanwhile')

  const ruled = await ready('bob', '/ruled/bob')
  await served.rule('/ruled', { writeUsers: [1], writeUsersSub: true })
  t.match(await ruled.complete(), { code: 400, message: 'permission denied' })
  t.equal(await new Upload(served, '/ruled/bob', Buffer.of()).stored(), undefined)

  const ended = await ready('cat', '/cat')
  const cat = served.gateway.accounts.users.byName('cat')
  await served.gateway.accounts.users.update(cat?.id ?? 0, { password: 'another' })
  await delay(50)
  t.match(await ended.complete(), { code: 401 })
  t.equal(await new Upload(served, '/cat', Buffer.of()).stored(), undefined)
  const token = await served.gateway.accounts.signIn.issueToken({
    username: 'cat',
    password: { plain: 'another' },
    code: undefined,
    address: '127.0.0.1',
  })
  ended.served.token = token
  t.match(await ended.complete(), { code: 400, data: { state: 'failed_retriable' } })
  t.match(await ended.init(), { code: 200, data: { resumed: true, attempt: 2, received: [] } })
  await ended.chunk(0)
  t.match(await ended.complete(), { code: 200 })
})

void t.test('an upload that is aborted leaves nothing', async (t) => {
  const served = await serve(t)
  await served.put('/a/file', 'old')
  const upload = new Upload(served, '/a/file', randomBytes(3 * mebibyte))
  await upload.init()
  await upload.chunk(0)
  const { sent: waiting } = await begun(1, () => upload.chunk(2))
  t.match(await upload.abort(), { code: 200, data: { state: 'aborted' } })
  t.match(await waiting, { code: 404, message: 'upload not found', data: { state: 'aborted' } })
  t.match(await upload.complete(), { code: 404 })
  t.equal(await served.content('/a/file'), 'old')
  t.same(await served.names('/a'), ['file'])
})
