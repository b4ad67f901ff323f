/** The double of Quark and UC: an upload as the vendor describes it, and what it refuses. */
import { createHash, randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { startQuark, startUc, type QuarkDouble } from './quark.js'

const ossUserAgent = 'aliyun-sdk-js/6.6.1 Chrome 98.0.4758.80 on Windows 10 64-bit'
const partSize = 128 * 1024

interface Answer {
  readonly status: number
  readonly code: number
  readonly message: string
  readonly data: Readonly<Record<string, unknown>>
  readonly metadata: Readonly<Record<string, number>>
  readonly cookies: readonly string[]
}

interface Upload {
  readonly task_id: string
  readonly upload_id: string
  readonly obj_key: string
  readonly upload_url: string
  readonly fid: string
  readonly bucket: string
  readonly callback: object
  readonly auth_info: string
}

/** A client that does what the vendor demands, where a test does not tell it otherwise. */
class Client {
  constructor(
    readonly double: QuarkDouble,
    readonly cookie = double.session.cookie,
  ) {}

  get headers(): Record<string, string> {
    const { referer, userAgent } = this.double.vendor
    const accept = 'application/json, text/plain, */*'
    return { cookie: this.cookie, accept, referer, 'user-agent': userAgent }
  }

  async call(
    path: string,
    options: { query?: Record<string, string>; json?: object; headers?: Record<string, string> } = {},
  ): Promise<Answer> {
    const { vendor } = this.double
    const query = new URLSearchParams({ pr: vendor.product, fr: 'pc', ...options.query })
    const isPost = options.json !== undefined
    const response = await fetch(`https://${vendor.api}/1/clouddrive/${path}?${query.toString()}`, {
      method: isPost ? 'POST' : 'GET',
      headers: { ...this.headers, ...(isPost && { 'content-type': 'application/json' }), ...options.headers },
      ...(isPost && { body: JSON.stringify(options.json) }),
    })
    const answer = (await response.json()) as Omit<Answer, 'data'> & Partial<Answer>
    return { ...answer, data: answer.data ?? {}, cookies: response.headers.getSetCookie() }
  }

  async list(folder: string, query: Record<string, string> = {}): Promise<readonly Record<string, unknown>[]> {
    const fixed = { _fetch_total: '1', fetch_all_file: '1', fetch_risk_file_name: '1', _page: '1', _size: '100' }
    const { data } = await this.call('file/sort', { query: { pdir_fid: folder, ...fixed, ...query } })
    return data.list as readonly Record<string, unknown>[]
  }

  async begin(name: string, bytes: Buffer, hashes = bytes): Promise<{ upload: Upload; isKnown: boolean }> {
    const now = Date.now()
    const { data } = await this.call('file/upload/pre', {
      json: {
        ...{ ccp_hash_update: true, dir_name: '', file_name: name, format_type: 'text/plain', size: bytes.length },
        ...{ l_created_at: now, l_updated_at: now, pdir_fid: '0' },
      },
    })
    const upload = data as unknown as Upload
    const [md5, sha1] = ['md5', 'sha1'].map((hash) => createHash(hash).update(hashes).digest('hex'))
    const hashed = await this.call('file/update/hash', { json: { task_id: upload.task_id, md5, sha1 } })
    return { upload, isKnown: hashed.data.finish === true }
  }

  async sign({ task_id, auth_info }: Upload, lines: readonly string[]): Promise<Answer> {
    return this.call('file/upload/auth', { json: { task_id, auth_info, auth_meta: lines.join('\n') } })
  }

  /** `over`: headers to send instead of those that were signed. */
  async put(upload: Upload, number: number, bytes: Buffer, over: Record<string, string> = {}, date = now()) {
    const resource = `/${upload.bucket}/${upload.obj_key}?partNumber=${number}&uploadId=${upload.upload_id}`
    const lines = ['PUT', '', 'text/plain', date, `x-oss-date:${date}`, `x-oss-user-agent:${ossUserAgent}`, resource]
    const { data } = await this.sign(upload, lines)
    const response = await fetch(this.objectUrl(upload, `?partNumber=${number}&uploadId=${upload.upload_id}`), {
      method: 'PUT',
      headers: { ...this.storeHeaders(String(data.auth_key), date), 'content-type': 'text/plain', ...over },
      body: bytes,
    })
    return { status: response.status, etag: response.headers.get('etag') ?? '', text: await response.text() }
  }

  async commit(upload: Upload, parts: readonly (readonly [number, string])[], callback: object = upload.callback) {
    const items = parts.map(([number, etag]) => `<Part><PartNumber>${number}</PartNumber><ETag>${etag}</ETag></Part>`)
    const xml = `<?xml version="1.0" encoding="UTF-8"?><CompleteMultipartUpload>${items.join('')}</CompleteMultipartUpload>`
    const md5 = createHash('md5').update(xml).digest('base64')
    const encoded = Buffer.from(JSON.stringify(callback)).toString('base64')
    const date = now()
    const resource = `/${upload.bucket}/${upload.obj_key}?uploadId=${upload.upload_id}`
    const signed = [`x-oss-callback:${encoded}`, `x-oss-date:${date}`, `x-oss-user-agent:${ossUserAgent}`]
    const { data } = await this.sign(upload, ['POST', md5, 'application/xml', date, ...signed, resource])
    const headers = { 'content-md5': md5, 'content-type': 'application/xml', 'x-oss-callback': encoded }
    const response = await fetch(this.objectUrl(upload, `?uploadId=${upload.upload_id}`), {
      method: 'POST',
      headers: { ...this.storeHeaders(String(data.auth_key), date), ...headers },
      body: xml,
    })
    return { status: response.status, text: await response.text() }
  }

  finish({ task_id, obj_key }: Upload): Promise<Answer> {
    return this.call('file/upload/finish', { json: { task_id, obj_key } })
  }

  async link(fid: string, headers: Record<string, string> = {}): Promise<string> {
    const { data } = await this.call('file/download', { json: { fids: [fid] }, headers })
    return String((data as unknown as readonly { download_url: string }[])[0]?.download_url)
  }

  objectUrl({ bucket, upload_url, obj_key }: Upload, query: string): string {
    return `https://${bucket}.${upload_url.replace('http://', '')}/${obj_key}${query}`
  }

  storeHeaders(authorization: string, date: string): Record<string, string> {
    // The Referer is that of Quark for UC too.
    const referer = 'https://pan.quark.cn/'
    return { authorization, referer, 'x-oss-date': date, 'x-oss-user-agent': ossUserAgent }
  }
}

function now(): string {
  return new Date().toUTCString()
}

async function opened(t: Test, options: Parameters<typeof startQuark>[1] = {}) {
  const double = await startQuark(t, { partSize, ...options })
  return { double, client: new Client(double) }
}

for (const start of [startQuark, startUc]) {
  await t.test(`an upload of ${start === startUc ? 'UC' : 'Quark'} in parts is listed and downloaded`, async (t) => {
    const double = await start(t, { partSize })
    const client = new Client(double)
    const content = randomBytes(2 * partSize + 17)
    const { upload, isKnown } = await client.begin('a & b', content)
    t.equal(isKnown, false)
    const parts: [number, string][] = []
    for (let number = 1; number <= 3; number++) {
      const { etag } = await client.put(upload, number, content.subarray((number - 1) * partSize, number * partSize))
      parts.push([number, etag])
    }
    t.match(await client.finish(upload), { code: 31002 }, 'not before it is complete')
    t.equal((await client.commit(upload, parts)).status, 200)
    t.same(await client.list('0'), [], 'not before it is finished')
    t.match(await client.finish(upload), { code: 0 })
    t.match(await client.list('0'), [{ fid: upload.fid, file_name: 'a &amp; b', size: content.length, file: true }])
    const url = await client.link(upload.fid)
    const range = { range: `bytes=${partSize}-${partSize + 9}` }
    const response = await fetch(url, { headers: { ...client.headers, ...range } })
    t.equal(response.status, 206)
    t.ok(Buffer.from(await response.arrayBuffer()).equals(content.subarray(partSize, partSize + 10)))
    for (const [name, value] of [
      ['cookie', 'a=b'],
      ['user-agent', 'another'],
      ['referer', 'https://example.org'],
    ] as const) {
      t.equal((await fetch(url, { headers: { ...client.headers, [name]: value } })).status, 403, name)
    }
    t.equal(double.requests.bodyBytes(/^PUT /), content.length)
  })
}

await t.test('a known file and an empty one need no bytes', async (t) => {
  const { double, client } = await opened(t)
  const content = randomBytes(1000)
  await double.learn(content)
  const { upload, isKnown } = await client.begin('known', content)
  t.equal(isKnown, true)
  t.equal((await client.begin('empty', Buffer.alloc(0))).isKnown, true)
  t.equal((await client.begin('longer', Buffer.alloc(5), content)).isKnown, false, 'of another size')
  t.match(await client.list('0'), [{ fid: upload.fid }, { file_name: 'empty', size: 0 }])
  t.equal(double.requests.matching(/^PUT /).length, 0)
})

await t.test('a call without what the vendor demands is refused', async (t) => {
  const { double, client } = await opened(t)
  t.match(await client.call('config'), { status: 200, code: 0 })
  for (const [name, value] of [
    ['referer', 'https://example.org'],
    ['accept', '*/*'],
  ] as const) {
    t.match(await client.call('config', { headers: { [name]: value } }), { status: 400 }, name)
  }
  for (const query of [{ pr: 'other' }, { fr: 'web' }]) t.match(await client.call('config', { query }), { status: 400 })
  for (const cookie of ['', '__puus=x', client.cookie.replace(/__pus=\w+; /, ''), `${client.cookie}; Path=/`]) {
    t.match(await new Client(double, cookie).call('config'), { code: 31001, message: 'require login [guest]' })
  }
  t.match(await client.call('file/sort', { query: { pdir_fid: '0' } }), { status: 400 })
  t.match(await client.call('file/download', { json: { fids: ['x'] } }), { status: 404 })
  t.match(await client.call('file/download', { json: { fids: ['x'] }, headers: { 'user-agent': 'x' } }), {
    status: 400,
  })
  double.session.end()
  t.match(await client.call('config'), { code: 31001 })
})

await t.test('the store refuses what was not signed, and parts that do not fit', async (t) => {
  const { client } = await opened(t)
  const content = randomBytes(2 * partSize)
  const { upload } = await client.begin('file', content)
  const [one, two] = [content.subarray(0, partSize), content.subarray(partSize)]
  const first = await client.put(upload, 1, one)
  t.equal(first.status, 200)
  t.match(await client.put(upload, 2, two, { authorization: 'OSS a:b' }), {
    status: 403,
    text: /SignatureDoesNotMatch/,
  })
  t.match(await client.put(upload, 2, two, { 'x-oss-date': 'Tue, 14 Nov 2023 22:13:20 GMT' }), { status: 403 })
  t.match(await client.put(upload, 2, two, {}, 'Tue, 14 Nov 2023 22:13:20 GMT'), { text: /RequestTimeTooSkewed/ })
  t.match(await client.put(upload, 2, two, { referer: 'https://example.org' }), { status: 403 })
  t.match(await client.put(upload, 2, two.subarray(1)), { status: 400 }, 'a part of another size')
  t.match(await client.put({ ...upload, upload_id: 'other' }, 2, two), { status: 404 })
  const wrongInfo = await client.sign({ ...upload, auth_info: 'x' }, ['PUT'])
  t.match(wrongInfo, { status: 400 })
  const other = [`PUT`, '', '', now(), `/other/${upload.obj_key}?partNumber=1&uploadId=${upload.upload_id}`]
  t.match(await client.sign(upload, other), { status: 400 }, 'another object')
  const second = await client.put(upload, 2, two)
  const parts = [[1, first.etag] as const, [2, second.etag] as const]
  t.match(await client.commit(upload, [...parts].reverse()), { status: 400, text: /InvalidPartOrder/ })
  t.match(await client.commit(upload, [[1, second.etag]]), { status: 400, text: /InvalidPart/ })
  t.match(await client.commit(upload, parts, { callbackUrl: 'https://example.org' }), { status: 203 })
  t.match(await client.finish(upload), { status: 400 })
})

await t.test('content that does not have the announced hashes is refused', async (t) => {
  const { client } = await opened(t)
  const { upload } = await client.begin('file', Buffer.from('hello'), Buffer.from('other'))
  const { etag } = await client.put(upload, 1, Buffer.from('hello'))
  t.match(await client.commit(upload, [[1, etag]]), { status: 203 })
  t.match(await client.finish(upload), { status: 400 })
  t.same(await client.list('0'), [])
})

await t.test('an answer renews the cookie, and the old one is void when the new one was used', async (t) => {
  const { double, client } = await opened(t)
  double.session.renew()
  const { cookies } = await client.call('config')
  const value = /^__puus=(\w+);/.exec(cookies[0] ?? '')?.[1]
  t.equal(cookies.length, 1)
  t.match(await client.call('config'), { code: 0 }, 'a call that was made before')
  const renewed = new Client(double, client.cookie.replace(/__puus=\w+/, `__puus=${value}`))
  t.match(await renewed.call('config'), { code: 0, cookies: [] })
  t.match(await client.call('config'), { code: 31001 })
  t.equal(double.session.renewals, 1)
})

await t.test('folders, names, moves and removals', async (t) => {
  const { client } = await opened(t)
  const fields = { dir_init_lock: false, dir_path: '', pdir_fid: '0' }
  const make = (name: string) => client.call('file', { json: { ...fields, file_name: name } })
  const { data } = await make('folder')
  t.match(await make('folder'), { status: 400, message: 'file is doloading[同名冲突]' })
  const { upload } = await client.begin('empty', Buffer.alloc(0))
  t.match(await client.call('file/rename', { json: { fid: upload.fid, file_name: 'folder' } }), { status: 400 })
  const entries = { action_type: 1, exclude_fids: [], filelist: [upload.fid] }
  t.match(await client.call('file/move', { json: { ...entries, to_pdir_fid: String(data.fid) } }), { code: 0 })
  t.match(await client.list(String(data.fid)), [{ fid: upload.fid }])
  t.match(await client.call('file/delete', { json: { ...entries, filelist: [data.fid] } }), { code: 0 })
  t.match(await client.call('file/rename', { json: { fid: upload.fid, file_name: 'x' } }), { status: 404 })
  const usage = { fetch_subscribe: 'false', _ch: 'home', fetch_identity: 'false' }
  t.match((await client.call('member', { query: usage })).data, { use_capacity: 0 })
})

await t.test('listings come in pages of at most a hundred entries, in the wanted order, and may lag', async (t) => {
  const { double, client } = await opened(t, { lag: 300 })
  for (let index = 0; index < 150; index++) double.drive.create('0', `name ${String(index).padStart(3, '0')}`)
  t.equal((await client.list('0', { _size: '1000' })).length, 0)
  await new Promise((resolve) => setTimeout(resolve, 350))
  t.equal((await client.list('0', { _size: '1000' })).length, 100)
  const last = await client.list('0', { _page: '2', _sort: 'file_type:asc,file_name:desc' })
  t.match(last.at(-1), { file_name: 'name 000' })
  t.equal(last.length, 50)
})

for (const [sameName, names] of [
  ['refuse', ['a.txt']],
  ['rename', ['a.txt', 'a(1).txt']],
  ['allow', ['a.txt', 'a.txt']],
] as const) {
  await t.test(`a taken name, with the option ${sameName}`, async (t) => {
    const { client } = await opened(t, { sameName })
    for (let index = 0; index < 2; index++) await client.begin('a.txt', Buffer.alloc(0))
    const listed = await client.list('0')
    t.same(
      listed.map((item) => item.file_name),
      names,
    )
  })
}

await t.test('download URLs may be good for one use, or redirect to a host that needs no cookie', async (t) => {
  const { double, client } = await opened(t)
  const { fid } = double.drive.create('0', 'film.mp4', await double.learn('hello'))
  const { headers } = client
  double.downloads.areSingleUse = true
  const once = await client.link(fid)
  t.equal((await fetch(once, { headers })).status, 200)
  t.equal((await fetch(once, { headers })).status, 412)
  double.downloads.areRedirected = true
  const redirected = await fetch(await client.link(fid), { headers, redirect: 'manual' })
  t.equal(redirected.status, 302)
  t.equal(await (await fetch(redirected.headers.get('location') ?? '')).text(), 'hello')
  const fields = { resolutions: 'low,normal,high,super,2k,4k', supports: 'fmp4_av,m3u8,dolby_vision' }
  const { data } = await client.call('file/v2/play/project', { json: { fid, ...fields } })
  const list = data.video_list as readonly { video_info: { url: string } }[]
  t.match(await (await fetch(list[0]?.video_info.url ?? '')).text(), /^low of /)
})

await t.test('faults are injected, and every request is in the log', async (t) => {
  const { double, client } = await opened(t)
  const { requests } = double
  requests.inject(/clouddrive\/config/, { answer: 429, headers: { 'retry-after': '3' }, body: '{}' })
  await client.call('config')
  t.match(requests.log.at(-1), { host: 'drive.quark.cn', method: 'GET', status: 429, hasCredentials: true })
  const { upload } = await client.begin('file', randomBytes(partSize))
  requests.inject(/^PUT /, { cutAfter: 1000 })
  await t.rejects(client.put(upload, 1, randomBytes(partSize)))
  requests.inject(/POST .*clouddrive\/file\?/, { loseAnswer: true })
  const fields = { dir_init_lock: false, dir_path: '', pdir_fid: '0', file_name: 'lost' }
  await t.rejects(client.call('file', { json: fields }))
  t.match(await client.list('0'), [{ file_name: 'lost' }], 'the folder was made')
})
