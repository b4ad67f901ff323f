/** The double of AliyundriveOpen answers as its published API does, and refuses what the service refuses. */
import { createHash, randomBytes } from 'node:crypto'
import t from 'tap'
import { client, proofOffset, startAliyundrive } from './aliyundrive.js'

type Json = Readonly<Record<string, unknown>>
type Double = Awaited<ReturnType<typeof startAliyundrive>>

const api = 'https://openapi.alipan.com'
const files = `${api}/adrive/v1.0/openFile`

async function post(url: string, body: Json, authorization?: string) {
  const headers = { 'content-type': 'application/json', ...(authorization !== undefined && { authorization }) }
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
  return { status: response.status, data: (await response.json()) as Json }
}

/** Calls as a client with a valid token, below the root of the default drive. */
function callsOf(double: Double) {
  const token = double.tokens.issue()
  const drive_id = double.drives.ids.default
  const call = async (name: string, body: Json) => post(`${files}/${name}`, { drive_id, ...body }, `Bearer ${token}`)
  const create = (body: Json) =>
    call('create', { parent_file_id: 'root', type: 'file', check_name_mode: 'ignore', ...body })
  const names = async () => {
    const { data } = await call('list', { parent_file_id: 'root', limit: 200 })
    return (data.items as readonly { readonly name: string }[]).map(({ name }) => name)
  }
  return { token, drive_id, call, create, names }
}

const refused = (code: string, status = 400) => ({ status, data: { code } })

const put = (url: string, body: Buffer, headers: Readonly<Record<string, string>> = {}) =>
  fetch(url, { method: 'PUT', body, headers })

const urlsOf = (data: Json) => (data.part_info_list as readonly { upload_url: string }[]).map((part) => part.upload_url)

const sha1 = (bytes: Buffer) => createHash('sha1').update(bytes).digest('hex')

await t.test('the offset of a proof is that of the published vectors', async (t) => {
  t.equal(proofOffset('tok', 1000), 999)
  t.equal(proofOffset('abc.def.ghi', 123_456_789), 66_820_281)
  t.equal(proofOffset('tok', 0), 0)
})

await t.test('a refresh token is good for one refresh, and only for a known client', async (t) => {
  const { tokens } = await startAliyundrive(t)
  const first = tokens.refreshToken
  const fields = { client_id: client.id, client_secret: client.secret, grant_type: 'refresh_token' }
  const refresh = (over: Json) => post(`${api}/oauth/access_token`, { ...fields, refresh_token: first, ...over })
  t.match(await refresh({ client_id: 'x' }), refused('InvalidClientId'))
  t.match(await refresh({ client_secret: 'x' }), refused('InvalidClientSecret'))
  t.match(await refresh({ grant_type: 'code' }), refused('InvalidParameter.GrantType'))
  const { status, data } = await refresh({})
  t.equal(status, 200)
  t.equal(data.refresh_token, tokens.refreshToken)
  t.not(data.refresh_token, first)
  const claims = (token: unknown) =>
    JSON.parse(Buffer.from(String(token).split('.')[1]!, 'base64url').toString()) as Json
  t.equal(claims(data.refresh_token).sub, claims(first).sub)
  t.match(await refresh({}), refused('InvalidParameter.RefreshToken'), 'it has been used')
  t.equal(tokens.refreshes, 1)
})

await t.test('the token services of others need no client', async (t) => {
  const { tokens } = await startAliyundrive(t)
  const old = await post('https://api.nn.ci/alist/ali_open/token', {
    grant_type: 'refresh_token',
    refresh_token: tokens.refreshToken,
  })
  t.match(old, { status: 200, data: { refresh_token: tokens.refreshToken } })
  const online = async (query: Record<string, string>) => {
    const response = await fetch(`https://api.oplist.org/alicloud/renewapi?${new URLSearchParams(query).toString()}`)
    return (await response.json()) as Json
  }
  const parameters = { refresh_ui: tokens.refreshToken, server_use: 'true' }
  t.match(await online(parameters), { text: 'missing parameters' })
  t.match(await online({ ...parameters, refresh_ui: 'x', driver_txt: 'alicloud_qr' }), { text: /invalid/ })
  t.match(await online({ ...parameters, driver_txt: 'alicloud_tv' }), { refresh_token: tokens.refreshToken })
})

await t.test('calls without a valid token are refused, each in its way', async (t) => {
  const double = await startAliyundrive(t)
  const { tokens } = double
  const { token, drive_id } = callsOf(double)
  const info = (authorization?: string) => post(`${api}/adrive/v1.0/user/getDriveInfo`, {}, authorization)
  t.match(await info(`Bearer ${token}`), { status: 200, data: { default_drive_id: drive_id } })
  t.match(await info(), refused('AccessTokenInvalid', 401))
  t.match(await info(token), refused('AccessTokenInvalid', 401), 'without the scheme')
  t.match(await info('Bearer nonsense'), refused('I400JD'))
  tokens.expire()
  t.match(await info(`Bearer ${token}`), refused('AccessTokenExpired', 401))
  tokens.revoke()
  t.match(await info(`Bearer ${token}`), refused('AccessTokenInvalid', 401))
  const get = await fetch(`${api}/adrive/v1.0/user/getDriveInfo`)
  t.equal(get.status, 405)
})

await t.test('folders: pages, names that are taken or not, and ids that are wrong', async (t) => {
  const double = await startAliyundrive(t)
  const { call, create, names } = callsOf(double)
  const folder = { type: 'folder', name: 'a', check_name_mode: 'refuse' }
  const { data: made } = await create(folder)
  t.match(await create(folder), { status: 200, data: { file_id: made.file_id, exist: true } })
  await create({ ...folder, check_name_mode: 'ignore' })
  await create({ ...folder, name: 'b' })
  t.same(await names(), ['a', 'a', 'b'], 'names need not differ')
  const page = await call('list', { parent_file_id: 'root', limit: 2, order_by: 'name', order_direction: 'DESC' })
  t.match(page.data, { items: [{ name: 'b', type: 'folder' }, { name: 'a' }], next_marker: /./ })
  const marker = page.data.next_marker
  const next = await call('list', {
    parent_file_id: 'root',
    limit: 2,
    marker,
    order_by: 'name',
    order_direction: 'DESC',
  })
  t.match(next.data, { items: [{ name: 'a' }], next_marker: '' })
  t.match(await call('list', { parent_file_id: 'root', limit: 201 }), refused('InvalidParameter.Limit'))
  t.match(await call('list', { parent_file_id: 'gone' }), refused('NotFound.File', 404))
  t.match(await call('update', { file_id: 'gone', name: 'x' }), refused('NotFound.File', 404))
  t.match(await call('recyclebin/trash', { file_id: 'root' }), refused('InvalidResource.Root'))
  const { file_id } = made
  t.match(await call('update', { file_id, name: 'c', check_name_mode: 'refuse' }), { data: { name: 'c' } })
  t.match(await call('move', { file_id, to_parent_file_id: file_id, check_name_mode: 'ignore' }), { status: 400 })
  await call('recyclebin/trash', { file_id })
  t.match(await call('get', { file_id }), refused('NotFound.File', 404))
})

await t.test('an upload in parts: in order, to fresh URLs, without a content type, and complete', async (t) => {
  const double = await startAliyundrive(t)
  const { call, create, names } = callsOf(double)
  const content = randomBytes(250_000)
  const parts = [content.subarray(0, 150_000), content.subarray(150_000)] as const
  const part_info_list = [{ part_number: 1 }, { part_number: 2 }]
  const { data } = await create({ name: 'file', size: content.length, part_info_list })
  const { file_id, upload_id } = data
  const session = { file_id, upload_id }
  const [one = '', two = ''] = urlsOf(data)
  t.equal((await put(two, parts[1])).status, 400, 'out of order')
  t.equal((await put(one, parts[0], { 'content-type': 'text/plain' })).status, 403)
  t.equal((await put(one, parts[0], { authorization: 'Bearer x' })).status, 400)
  t.equal((await put(one.replace('partNumber=1', 'partNumber=2'), parts[0])).status, 403, 'another part')
  t.equal((await put(one, parts[0])).status, 200)
  t.equal((await put(one, parts[0])).status, 409, 'again')
  t.match(await call('complete', session), refused('InvalidParameter.Size'), 'a part is missing')
  double.urls.expire()
  t.equal((await put(two, parts[1])).status, 403, 'an old URL')
  const renewed = await call('getUploadUrl', { ...session, part_info_list: [{ part_number: 2 }] })
  t.equal((await put(urlsOf(renewed.data)[0]!, parts[1])).status, 200)
  t.match(await call('listUploadedParts', session), {
    data: { uploaded_parts: [{ part_number: 1, part_size: 150_000 }, { part_number: 2 }] },
  })
  t.same(await names(), [], 'it is not shown before it is complete')
  t.match(await call('complete', session), {
    data: { size: content.length, content_hash: sha1(content).toUpperCase() },
  })
  t.match(await call('complete', session), refused('NotFound.UploadId', 404))
  t.same(await names(), ['file'])
})

await t.test('a short part that is not the last one is refused, and so is another size', async (t) => {
  const double = await startAliyundrive(t)
  const { call, create } = callsOf(double)
  const { data } = await create({ name: 'x', size: 4, part_info_list: [{ part_number: 1 }, { part_number: 2 }] })
  for (const url of urlsOf(data)) await put(url, Buffer.from('ab'))
  t.match(await call('complete', data), refused('EntityTooSmall'))
  const other = await create({ name: 'x', size: 3, part_info_list: [{ part_number: 1 }] })
  await put(urlsOf(other.data)[0]!, Buffer.from('ab'))
  t.match(await call('complete', other.data), refused('InvalidParameter.Size'))
})

for (const showsRapidUploads of [true, false]) {
  await t.test(
    `a known file needs a proof, and is shown ${showsRapidUploads ? 'at once' : 'when complete'}`,
    async (t) => {
      const double = await startAliyundrive(t, { showsRapidUploads })
      const { token, call, create, names } = callsOf(double)
      const content = randomBytes(200_000)
      await double.learn(content)
      const pre_hash = sha1(content.subarray(0, 1024))
      const file = { name: 'file', size: content.length }
      t.match(await create({ ...file, pre_hash }), refused('PreHashMatched', 409))
      t.match(await create({ ...file, size: 199_999, pre_hash }), { status: 200, data: { rapid_upload: false } })
      const hashed = { ...file, content_hash_name: 'sha1', content_hash: sha1(content), proof_version: 'v1' }
      t.match(await create({ ...hashed, proof_code: '' }), refused('InvalidRapidProof'))
      const start = proofOffset(token, content.length)
      const proof_code = content.subarray(start, start + 8).toString('base64')
      t.match(await create({ ...hashed, proof_version: undefined, proof_code }), { status: 400 })
      const { data } = await create({ ...hashed, proof_code })
      t.match(data, { rapid_upload: true })
      t.same(await names(), showsRapidUploads ? ['file'] : [])
      t.match(await call('complete', data), { data: { size: content.length } })
      t.same(await names(), ['file'])
    },
  )
}

await t.test('a file that is not what its hash said is refused', async (t) => {
  const { call, create } = callsOf(await startAliyundrive(t))
  const { data } = await create({
    ...{ name: 'x', size: 2, content_hash_name: 'sha1', content_hash: sha1(Buffer.from('no')), proof_version: 'v1' },
    ...{ proof_code: '', part_info_list: [{ part_number: 1 }] },
  })
  t.match(data, { rapid_upload: false })
  await put(urlsOf(data)[0]!, Buffer.from('ab'))
  t.match(await call('complete', data), refused('InvalidParameter.ContentHash'))
})

await t.test('download URLs are good for any client, in ranges, until they expire', async (t) => {
  const double = await startAliyundrive(t)
  const { call, drive_id } = callsOf(double)
  const content = randomBytes(100_000)
  const { fileId: file_id } = double.drives.create(drive_id, 'root', 'file', await double.contents.add(content))
  t.match(await call('getDownloadUrl', { file_id, expire_sec: 14_401 }), refused('InvalidParameter.ExpireSec'))
  const { data } = await call('getDownloadUrl', { file_id, expire_sec: 14_400 })
  const url = String(data.url)
  const get = async (headers: Readonly<Record<string, string>> = {}) => {
    const response = await fetch(url, { headers })
    return { status: response.status, body: Buffer.from(await response.arrayBuffer()) }
  }
  t.same(await get(), { status: 200, body: content })
  t.same(await get({ range: 'bytes=99000-' }), { status: 206, body: content.subarray(99_000) })
  t.same(await get({ range: 'bytes=5-6' }), { status: 206, body: content.subarray(5, 7) })
  t.match(await get({ range: 'bytes=100000-' }), { status: 416 })
  t.match(await get({ authorization: 'Bearer x' }), { status: 400 }, 'with a second kind of credentials')
  double.urls.expire()
  t.match(await get(), { status: 403 })
})

await t.test('a live photo has URLs of its picture and its video', async (t) => {
  const double = await startAliyundrive(t)
  const { call, drive_id } = callsOf(double)
  const { fileId: file_id } = double.drives.create(drive_id, 'root', 'p.livp', await double.contents.add('x'))
  const { data } = await call('getDownloadUrl', { file_id, expire_sec: 60 })
  const { jpeg = '' } = data.streamsUrl as Readonly<Record<string, string>>
  t.match(await (await fetch(jpeg)).text(), /^jpeg of /)
})

await t.test('too many calls of one kind in a second are refused', async (t) => {
  const { call } = callsOf(await startAliyundrive(t, { limits: { list: 2, link: 1, other: 15 } }))
  const answers = await Promise.all([1, 2, 3].map(() => call('list', { parent_file_id: 'root' })))
  t.same(answers.map(({ status }) => status).sort(), [200, 200, 429])
  t.match(await call('get', { file_id: 'x' }), { status: 404 }, 'another kind is not')
})

await t.test('listings may lag', async (t) => {
  const { create, names } = callsOf(await startAliyundrive(t, { lag: 200 }))
  await create({ type: 'folder', name: 'a' })
  t.same(await names(), [])
  await new Promise((resolve) => setTimeout(resolve, 220))
  t.same(await names(), ['a'])
})

await t.test('injected faults strike as many requests as they should, and the log shows all', async (t) => {
  const double = await startAliyundrive(t)
  const { call, create, names } = callsOf(double)
  const { requests } = double
  const list = /openFile\/list$/
  requests.inject(list, { answer: 429, headers: { 'retry-after': '1' }, body: '{"code":"TooManyRequests"}' })
  t.match(await call('list', { parent_file_id: 'root' }), { status: 429 })
  requests.inject(/openFile\/create$/, { loseAnswer: true })
  await t.rejects(create({ type: 'folder', name: 'a' }))
  t.same(await names(), ['a'], 'the work was done')
  const { data } = await create({ name: 'x', size: 200_000, part_info_list: [{ part_number: 1 }] })
  const [url = ''] = urlsOf(data)
  requests.inject(/^PUT/, { cutAfter: 100_000 })
  await t.rejects(put(url, randomBytes(200_000)))
  t.equal((await put(url, randomBytes(200_000))).status, 200, 'nothing of the cut part is left')
  t.match(requests.matching(list), [
    { host: 'openapi.alipan.com', method: 'POST', hasCredentials: true, status: 429 },
    { status: 200 },
  ])
  const [cut, whole] = requests.matching(/^PUT/)
  t.ok(cut!.bodyBytes >= 100_000 && cut!.bodyBytes <= 200_000)
  t.match(whole, { bodyBytes: 200_000, hasCredentials: false })
})

await t.test('a download is cut in its middle', async (t) => {
  const double = await startAliyundrive(t)
  const { call, drive_id } = callsOf(double)
  const content = await double.contents.add(randomBytes(300_000))
  const { fileId: file_id } = double.drives.create(drive_id, 'root', 'file', content)
  const { data } = await call('getDownloadUrl', { file_id, expire_sec: 60 })
  double.requests.inject(/^GET/, { cutAnswerAfter: 100_000 })
  let received = 0
  const download = async () => {
    const { body } = await fetch(String(data.url))
    for await (const chunk of body as unknown as AsyncIterable<Buffer>) received += chunk.length
  }
  await t.rejects(download())
  t.equal(received, 100_000)
})

await t.test('another program changes what is below a folder', async (t) => {
  const double = await startAliyundrive(t)
  const { call, drive_id } = callsOf(double)
  const other = double.drives.elsewhere(drive_id, 'root')
  await other.create('/a', 'file', 'one')
  await other.replace('/a/file', 'two')
  await other.create('/a', 'file', 'three')
  const [folder] = double.drives.members(drive_id, 'root')
  const { data } = await call('list', { parent_file_id: folder!.fileId })
  t.match(data.items, [{ size: 3 }, { size: 5 }])
})
