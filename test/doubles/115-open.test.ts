/** The double of 115 Open refuses what the vendor refuses, and is as odd. */
import { createHash, createHmac } from 'node:crypto'
import t, { type Test } from 'tap'
import { startOpen115 } from './115-open.js'
import { rootFolder } from './115-open/drive.js'

type Fields = Readonly<Record<string, string>>

interface Reply {
  readonly state: boolean
  readonly code: number
  readonly data: never
  readonly count?: number | string
  readonly cid?: number | string
}

async function start(t: Test) {
  const double = await startOpen115(t)
  const call = async (method: 'GET' | 'POST', path: string, fields: Fields, headers: Fields = {}): Promise<Reply> => {
    const form = new URLSearchParams(fields)
    const query = method === 'GET' ? `?${form.toString()}` : ''
    const response = await fetch(`https://proapi.115.com/open/${path}${query}`, {
      method,
      headers: { authorization: `Bearer ${double.account.accessToken}`, ...headers },
      ...(method === 'POST' && { body: form }),
    })
    return (await response.json()) as Reply
  }
  return { double, call }
}

const upperSha1 = (bytes: string | Buffer) => createHash('sha1').update(bytes).digest('hex').toUpperCase()

await t.test('calls need the current access token, and a refresh changes both tokens', async (t) => {
  const { double, call } = await start(t)
  t.equal((await call('GET', 'user/info', {})).state, true)
  const { accessToken, refreshToken } = double.account
  const refresh = async (refresh_token: string) => {
    const body = new URLSearchParams({ refresh_token })
    const response = await fetch('https://passportapi.115.com/open/refreshToken', { method: 'POST', body })
    return (await response.json()) as { code: number; data: { access_token: string; refresh_token: string } }
  }
  const { data } = await refresh(refreshToken)
  t.not(data.refresh_token, refreshToken)
  const old = await call('GET', 'user/info', {}, { authorization: `Bearer ${accessToken}` })
  t.match(old, { state: false, code: 40140125 }, 'the old access token is void')
  t.equal((await call('GET', 'user/info', {}, { authorization: `Bearer ${data.access_token}` })).state, true)
  t.equal((await refresh(refreshToken)).code, 40140116, 'so is the old refresh token')
  t.equal(double.account.refreshes, 1)
  t.match(await call('GET', 'user/info', {}, { authorization: data.access_token }), { state: false })
})

await t.test('empty parameters, other bodies and unknown calls are refused', async (t) => {
  const { double, call } = await start(t)
  t.match(await call('GET', 'ufile/files', { cid: '0', o: '' }), { state: false, code: 40100000 })
  t.match(await call('GET', 'ufile/files', {}), { state: false, code: 40100000 })
  t.match(await call('GET', 'no/such/call', {}), { state: false })
  const response = await fetch('https://proapi.115.com/open/folder/add', {
    method: 'POST',
    headers: { authorization: `Bearer ${double.account.accessToken}`, 'content-type': 'application/json' },
    body: JSON.stringify({ pid: '0', file_name: 'a' }),
  })
  t.match(await response.json(), { state: false, code: 40100000 })
})

await t.test('a missing folder is listed as the root, and pages are limited', async (t) => {
  const { double, call } = await start(t)
  for (let index = 0; index < 1200; index++) double.drive.create(rootFolder, `folder-${index}`)
  const { id } = double.drive.create(rootFolder, 'last')
  const list = (cid: string, more: Fields = {}) =>
    call('GET', 'ufile/files', { cid, limit: '5000', show_dir: '1', ...more })
  const missing = await list('123')
  t.equal(String(missing.cid), '0')
  t.equal(Number(missing.count), 1201)
  t.equal((missing.data as object[]).length, 1150)
  t.equal(((await list('0', { offset: '1150' })).data as object[]).length, 51)
  t.equal(((await list('0', { show_dir: '0' })).data as object[]).length, 0, 'without folders')
  const found = await list(id)
  t.equal(Number(found.count), 0)
  double.files.listsRootForMissing = false
  t.equal(((await list('123')).data as object[]).length, 0)
})

await t.test('files and folders are changed by their ids', async (t) => {
  const { double, call } = await start(t)
  const { drive, contents } = double
  const made = await call('POST', 'folder/add', { pid: '0', file_name: 'a' })
  const { file_id } = made.data as { file_id: string }
  t.match(await call('POST', 'folder/add', { pid: '0', file_name: 'a' }), { state: false, code: 20004 })
  t.match(await call('POST', 'folder/add', { pid: '9', file_name: 'a' }), { state: false, code: 430004 })
  t.match(await call('POST', 'ufile/move', { file_ids: file_id, to_cid: file_id }), { state: false, code: 800006 })
  t.match(await call('POST', 'ufile/copy', { file_id, pid: file_id }), { state: false, code: 91002 })
  const file = drive.create(rootFolder, 'f', await contents.add('hello'))
  await call('POST', 'ufile/move', { file_ids: file.id, to_cid: file_id })
  await call('POST', 'ufile/update', { file_id: file.id, file_name: 'g' })
  const byPath = await call('POST', 'folder/get_info', { path: '/a/g' })
  t.match(byPath.data, { file_id: file.id, sha1: upperSha1('hello'), paths: [{ file_id: '0' }, { file_id }] })
  t.match(await call('POST', 'folder/get_info', { path: '/a/f' }), { state: false, code: 430004 })
  t.same((await call('GET', 'folder/get_info', { file_id: '7' })).data, [])
  await call('POST', 'ufile/copy', { file_id: file.id, pid: '0', no_dupli: '1' })
  t.match(await call('POST', 'ufile/copy', { file_id: file.id, pid: '0', no_dupli: '1' }), { state: false })
  t.equal(drive.members(rootFolder).length, 2)
  t.match(await call('POST', 'ufile/delete', { file_ids: file_id, parent_id: '5' }), { state: false })
  t.match(await call('POST', 'ufile/delete', { file_ids: file_id, parent_id: '0' }), { state: true })
  t.equal(drive.trash.length, 2, 'the folder with its file')
})

await t.test('listings may lag', async (t) => {
  const { double, call } = await start(t)
  double.drive.lag = 300
  double.drive.create(rootFolder, 'a')
  const names = async () => (await call('GET', 'ufile/files', { cid: '0', show_dir: '1' })).data as object[]
  t.equal((await names()).length, 0)
  await new Promise((resolve) => setTimeout(resolve, 350))
  t.equal((await names()).length, 1)
})

await t.test('a link is good for its User-Agent and its time, without credentials', async (t) => {
  const { double, call } = await start(t)
  const { drive, contents, links } = double
  const { id, pickCode } = drive.create(rootFolder, 'a b', await contents.add('hello'))
  const linkFor = async (agent: string) => {
    const { data } = await call('POST', 'ufile/downurl', { pick_code: pickCode }, { 'user-agent': agent })
    return (data as Record<string, { url: { url: string } }>)[id]?.url.url ?? ''
  }
  const get = (url: string, headers: Fields) => fetch(url, { headers })
  const url = await linkFor('player')
  t.equal(await (await get(url, { 'user-agent': 'player' })).text(), 'hello')
  const part = await get(url, { 'user-agent': 'player', range: 'bytes=1-3' })
  t.equal(part.status, 206)
  t.equal(await part.text(), 'ell')
  t.equal((await get(url, { 'user-agent': 'other' })).status, 403)
  t.equal((await get(url, { 'user-agent': 'player', cookie: 'a=b' })).status, 403)
  links.lifetime = 0
  t.equal((await get(await linkFor('player'), { 'user-agent': 'player' })).status, 403)
  t.match(await call('POST', 'ufile/downurl', { pick_code: 'x' }), { state: false, code: 50003 })
})

/** The fields that begin an upload. */
function uploadOf(content: string, name: string, more: Fields = {}): Fields {
  const sha1 = upperSha1(content)
  return {
    file_name: name,
    file_size: String(content.length),
    target: 'U_1_0',
    fileid: sha1,
    preid: upperSha1(content.slice(0, 128 * 1024)),
    ...more,
  }
}

await t.test('a known file needs a proof, and no bytes', async (t) => {
  const { double, call } = await start(t)
  await double.contents.add('hello')
  const asked = await call('POST', 'upload/init', uploadOf('hello', 'f'))
  const { status, sign_key, sign_check } = asked.data as { status: number; sign_key: string; sign_check: string }
  t.equal(status, 7)
  const [first = 0, last = 0] = sign_check.split('-').map(Number)
  const sign_val = upperSha1('hello'.slice(first, last + 1))
  const proved = (more: Fields) => call('POST', 'upload/init', uploadOf('hello', 'f', more))
  t.match(await proved({ sign_key, sign_val: sign_val.toLowerCase() }), { state: false, code: 10002 })
  t.match(await proved({ sign_key: 'x', sign_val }), { state: false, code: 10002 })
  t.match((await proved({ sign_key, sign_val })).data, { status: 2 })
  t.equal(double.uploads.rapid, 1)
  t.same(
    double.drive.members(rootFolder).map(({ name }) => name),
    ['f'],
  )
  t.match(await proved({ sign_key, sign_val }), { state: false }, 'a proof is good once')
  t.match(await call('POST', 'upload/init', uploadOf('hello', 'f', { preid: upperSha1('x') })), { state: false })
  t.match(await call('POST', 'upload/init', uploadOf('hello', 'f', { target: 'U_1_9' })), { state: false })
})

interface Place {
  readonly status: number
  readonly pick_code: string
  readonly bucket: string
  readonly object: string
  readonly callback: Demanded | readonly Demanded[]
}

interface Demanded {
  readonly callback: string
  readonly callback_var: string
}

/** Sends a body to the object store, as its client does, and returns the answer. */
async function putObject(call: Awaited<ReturnType<typeof start>>['call'], place: Place, body: string) {
  const { data } = await call('GET', 'upload/get_token', {})
  const token = data as { AccessKeyId: string; AccessKeySecret: string; SecurityToken: string }
  const [demanded = { callback: '', callback_var: '' }] = [place.callback].flat()
  const base64 = (text: string) => Buffer.from(text).toString('base64')
  const headers = {
    'x-oss-callback': base64(demanded.callback),
    'x-oss-callback-var': base64(demanded.callback_var),
    'x-oss-date': new Date().toUTCString(),
    'x-oss-security-token': token.SecurityToken,
  }
  const signed = Object.entries(headers).map(([name, value]) => `${name}:${value}\n`)
  const resource = `/${place.bucket}/${place.object}`
  const text = `PUT\n\ntext/plain\n${headers['x-oss-date']}\n${signed.join('')}${resource}`
  const signature = createHmac('sha1', token.AccessKeySecret).update(text).digest('base64')
  const response = await fetch(`https://${place.bucket}.oss-cn-shenzhen.aliyuncs.com/${place.object}`, {
    method: 'PUT',
    headers: { ...headers, 'content-type': 'text/plain', authorization: `OSS ${token.AccessKeyId}:${signature}` },
    body,
  })
  t.equal(response.status, 200, 'the object store accepts it')
  return (await response.json()) as Reply
}

await t.test('an unknown file becomes one by the callback of the object store', async (t) => {
  const { double, call } = await start(t)
  const begin = async (content: string, name: string) =>
    (await call('POST', 'upload/init', uploadOf(content, name))).data as Place
  const place = await begin('new content', 'f')
  t.equal(place.status, 1)
  t.same(double.drive.members(rootFolder), [], 'nothing before')
  t.match(await putObject(call, place, 'other bytes'), { state: false }, 'other bytes than were announced')
  t.same(double.drive.members(rootFolder), [])
  const { file_size = '', target = '', fileid = '' } = uploadOf('new content', 'f')
  const resumed = await call('POST', 'upload/resume', { file_size, target, fileid, pick_code: place.pick_code })
  t.match(resumed.data, { object: place.object })
  const wrong = { file_size: '1', target, fileid, pick_code: place.pick_code }
  t.match(await call('POST', 'upload/resume', wrong), { state: false })
  double.uploads.failsCallback = true
  t.match(await putObject(call, place, 'new content'), { state: false })
  const done = await putObject(call, place, 'new content')
  t.match(done, { state: true, data: { pick_code: place.pick_code, file_name: 'f', sha1: upperSha1('new content') } })
  await putObject(call, await begin('another', 'f'), 'another')
  t.equal(double.drive.members(rootFolder).length, 2, 'files of one name')
  const listed = [place, await begin('third', 'f')].map(({ callback }) => Array.isArray(callback))
  t.ok(listed.includes(true) || Array.isArray((await begin('fourth', 'f')).callback), 'the callback may be a list')
})

await t.test('offline tasks', async (t) => {
  const { double, call } = await start(t)
  const urls = 'https://example.org/a\nwrong\nhttps://example.org/a'
  const added = await call('POST', 'offline/add_task_urls', { urls, wp_path_id: '0' })
  t.match(added.data, [
    { state: true, url: 'https://example.org/a' },
    { state: false, code: 10004 },
    { state: false, code: 10008 },
  ])
  double.offline.finish('https://example.org/a', 'a', await double.contents.add('a'))
  const { tasks } = (await call('GET', 'offline/get_task_list', { page: '1' })).data as {
    tasks: { info_hash: string }[]
  }
  t.match(tasks, [{ status: 2, percentDone: 100, name: 'a' }])
  const info_hash = tasks[0]?.info_hash ?? ''
  t.match(await call('POST', 'offline/del_task', { info_hash, del_source_file: '0' }), { state: true })
  t.equal(double.drive.members(rootFolder).length, 1, 'its file is kept')
  t.match(await call('POST', 'offline/del_task', { info_hash }), { state: false })
})
