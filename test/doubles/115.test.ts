/** The double of 115's web API: the published vectors, and that it refuses what the vendor refuses. */
import {
  constants,
  createCipheriv,
  createDecipheriv,
  createECDH,
  createHash,
  createPublicKey,
  publicDecrypt,
  publicEncrypt,
} from 'node:crypto'
import { request } from 'node:https'
import { buffer } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { crc32 } from 'node:zlib'
import t, { type Test } from 'tap'
import { HttpClient } from '../../drivers/lib/http/http-client.js'
import { EgressGuard } from '../../src/net/egress.js'
import { decodeToken, EcCipher } from './115/ec115.js'
import { downloadHost, type LinkCondition } from './115/downloads.js'
import { start115, type Double115 } from './115/index.js'
import { compressBlock } from './115/lz4.js'
import { combine, derive } from './115/m115.js'
import { requestToken, uploadSignature } from './115/uploads.js'

const browser = 'Mozilla/5.0 115Browser/35.6.0.3'
const seed = Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex')

interface Sent {
  readonly form?: Readonly<Record<string, string>>
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** A client with a valid cookie. */
function clientOf(t: Test, double: Double115) {
  const http = new HttpClient({
    server: '115',
    address: new URL('https://webapi.115.com'),
    domains: ['115.com', '115cdn.com', '115cdn.net'],
    verifiesCertificate: true,
    egress: new EgressGuard(() => ''),
  })
  t.teardown(() => http.close())
  const session = { cookie: double.account.signIn() }
  const ask = async (method: string, url: string, { form, body, headers = {} }: Sent = {}) => {
    const text = form ? new URLSearchParams(form).toString() : body
    const response = await http.request({
      method,
      url: new URL(url),
      headers: {
        'user-agent': browser,
        cookie: session.cookie,
        ...(form && { 'content-type': 'application/x-www-form-urlencoded' }),
        ...headers,
      },
      ...(text !== undefined && { body: text }),
      repeatable: false,
    })
    const bytes = await buffer(response.body)
    return { status: response.status, headers: response.headers, bytes, text: bytes.toString() }
  }
  const json = async (method: string, url: string, sent?: Sent) =>
    JSON.parse((await ask(method, url, sent)).text) as Record<string, unknown>
  return { session, ask, json }
}

/** The client's side of the envelope. */
function sealed(double: Double115, payload: object): string {
  const key = publicKeyOf(double)
  const inner = combine(Buffer.from(JSON.stringify(payload)), derive(seed, 4)).reverse()
  const message = Buffer.concat([seed, combine(inner, Buffer.from('7806ad4c33865d184c013f46', 'hex'))])
  const blocks: Buffer[] = []
  for (let at = 0; at < message.length; at += 117) {
    blocks.push(publicEncrypt({ key, padding: constants.RSA_PKCS1_PADDING }, message.subarray(at, at + 117)))
  }
  return Buffer.concat(blocks).toString('base64')
}

function opened(double: Double115, text: string): unknown {
  const key = publicKeyOf(double)
  const bytes = Buffer.from(text, 'base64')
  const blocks: Buffer[] = []
  for (let at = 0; at < bytes.length; at += 128) {
    blocks.push(publicDecrypt({ key, padding: constants.RSA_PKCS1_PADDING }, bytes.subarray(at, at + 128)))
  }
  const message = Buffer.concat(blocks)
  const inner = combine(message.subarray(16), derive(message.subarray(0, 16), 12)).reverse()
  return JSON.parse(combine(inner, derive(seed, 4)).toString())
}

function publicKeyOf({ envelope }: Double115) {
  const n = Buffer.from(envelope.modulus, 'hex').toString('base64url')
  return createPublicKey({ key: { kty: 'RSA', n, e: 'AQAB' }, format: 'jwk' })
}

/** Decodes a block of LZ4. */
function decompressed(block: Buffer): Buffer {
  const out: number[] = []
  for (let at = 0; at < block.length;) {
    const mark = block[at++] ?? 0
    const lengthOf = (start: number) => {
      let length = start
      for (let more = 255; start === 15 && more === 255; length += more) more = block[at++] ?? 0
      return length
    }
    const literals = lengthOf(mark >> 4)
    out.push(...block.subarray(at, at + literals))
    at += literals
    if (at >= block.length) break
    const offset = block.readUInt16LE(at)
    at += 2
    const length = lengthOf(mark & 15) + 4
    for (let copied = 0; copied < length; copied++) out.push(out[out.length - offset] ?? 0)
  }
  return Buffer.from(out)
}

await t.test('the published vectors hold', async (t) => {
  t.equal(derive(seed, 4).toString('hex'), '8ddaa370')
  t.equal(derive(seed, 12).toString('hex'), 'ac81271bc54352d81c587497')
  const inner = combine(Buffer.from('{"pickcode":"abc123"}'), derive(seed, 4)).reverse()
  const body = combine(inner, Buffer.from('7806ad4c33865d184c013f46', 'hex'))
  t.equal(body.toString('hex'), '75f9ef120df33eb14ad5f9d752b4bf4b5ff92cf2ee')

  const token = decodeToken('DBJzam0aKz6mtWm9R2H4EWIRERERefTetRO2h9+CniWzklckhR//IiMiIiKiVbxk')
  t.equal(token.clientKey.toString('hex'), '1d03627b7c0b3a2fb7a478ac5670e9973194a5fda0bc0791b07506a73ddd')
  t.equal(token.time, 1_700_000_000_000 % 2 ** 32)
  t.throws(() => decodeToken('DBJzam0aKz6mtWm9R2H4EWIRERERefTetRO2h9+CniWzklckhR//IiMiIiKiVbxl'))
  const secret = Buffer.from('3f7ab721f3b9abc9841da5bebc6d1624bcaab3c16f7ab7d19e758fc8', 'hex')
  t.equal(new EcCipher(secret).decrypt(Buffer.from('8d90e87fcd530a04c43b1bd86541d04e', 'hex')), 'appid=0&t=1')

  const fileId = 'DA39A3EE5E6B4B0D3255BFEF95601890AFD80709'
  const signature = uploadSignature('KEY', '123456', fileId, 'U_1_0')
  t.equal(signature, 'A0845C0BDDD05D3858260C0F9DD954D16FDDFEA9')
  const form = { userid: '123456', fileid: fileId, filesize: '0', t: '1700000000000', appversion: '35.6.0.3' }
  t.equal(requestToken(new URLSearchParams(form)), '3aa23933df9b6cdeb23ce4ba375d27a6')
})

await t.test('compressed blocks have matches, and are what they were made of', async (t) => {
  const text = Buffer.from(`${'abcdefgh'.repeat(100)} and an end`)
  t.ok(compressBlock(text).length < 60)
  for (const plain of [text, Buffer.from('short'), Buffer.from('x'.repeat(300))]) {
    t.equal(decompressed(compressBlock(plain)).toString(), plain.toString())
  }
})

await t.test('calls without valid cookies, and those of no browser, are refused', async (t) => {
  const double = await start115(t)
  const { session, ask, json } = clientOf(t, double)
  const list = 'https://webapi.115.com/files?aid=1&cid=0&show_dir=1&format=json&limit=10'
  t.match(await json('GET', list), { state: true, count: 0 })
  t.match(await json('GET', list, { headers: { cookie: `${session.cookie};` } }), { state: true })
  t.match(await json('GET', list, { headers: { cookie: 'UID=1; CID=2; SEID=3' } }), { state: false, errno: 990001 })
  const blocked = await ask('GET', list, { headers: { 'user-agent': 'tidegate' } })
  t.match(blocked, { status: 405, headers: { 'content-type': /text\/html/ } })
  double.block(50)
  t.equal((await ask('GET', list)).status, 405)
  double.account.signOut()
  await wait(60)
  t.match(await json('GET', list), { state: false, errno: 990001 })
})

await t.test('a confirmed code is exchanged once, for a kind of device that is not withdrawn', async (t) => {
  const double = await start115(t)
  const { session, json } = clientOf(t, double)
  const exchange = (account: string, app: string) =>
    json('POST', `https://passportapi.115.com/app/1.0/${app}/1.0/login/qrcode`, { form: { account, app } })
  const uid = double.account.confirmedCode()
  t.match(await exchange(uid, 'linux'), { state: 0, error: /系统已下架/ })
  const signedIn = await exchange(uid, 'tv')
  t.match(signedIn, { state: 1, data: { cookie: { UID: String, CID: String, SEID: String, KID: String } } })
  t.match(await exchange(uid, 'tv'), { state: 0, code: 40199002 })
  const { cookie } = signedIn.data as { cookie: Record<string, string> }
  session.cookie = Object.entries(cookie)
    .map(([name, value]) => `${name}=${value}`)
    .join('; ')
  t.match(await json('GET', 'https://my.115.com/?ct=guide&ac=status&_=1'), { state: true })
})

await t.test('listings have the oddities of the vendor', async (t) => {
  const double = await start115(t)
  const { ask, json } = clientOf(t, double)
  const list = (query: string, host = 'webapi.115.com/files') =>
    json('GET', `https://${host}?aid=1&show_dir=1&format=json&${query}`)
  const folder = double.makeFolder('/folder')
  for (const name of ['a', 'b', 'b']) await double.putFile(`/folder/${name}`, name)
  t.match(await list(`cid=${folder}&limit=2&offset=2`), { count: 3, data: { length: 1 } })
  t.match(await list('cid=99&limit=10'), { cid: 0, data: [{ n: 'folder' }] })
  t.match(await list(`cid=${folder}&limit=5000`), { limit: 1150 })
  t.match(await list(`cid=${folder}&o=file_name`), { state: false, errNo: 20130827, order: 'user_ptime' })
  t.match(await list(`cid=${folder}&o=file_name&asc=1`, 'aps.115.com/natsort/files.php'), { data: [{ n: 'a' }] })
  const { text } = await ask('GET', `https://webapi.115.com/files?aid=1&show_dir=1&format=json&cid=${folder}`)
  t.match(text, new RegExp(`"cid":${folder}[,}]`), 'a long number is a number')
  await wait(250)
  double.drive.lag = 200
  await double.putFile('/folder/late', 'x')
  t.match(await list(`cid=${folder}`), { count: 3 })
})

await t.test('changes are by ids, and of what exists', async (t) => {
  const double = await start115(t)
  const { json } = clientOf(t, double)
  const change = (path: string, form: Record<string, string>) => json('POST', `https://webapi.115.com${path}`, { form })
  const made = await change('/files/add', { pid: '0', cname: 'folder' })
  t.match(made, { state: true, cid: String })
  t.match(await change('/files/add', { pid: '0', cname: 'folder' }), { state: false, errno: 20004 })
  const folder = String(made.cid)
  const file = await double.putFile('/file', 'x')
  t.match(await change('/files/batch_rename', { [`files_new_name[${file.id}]`]: 'other' }), { state: true })
  t.match(await change('/files/move', { pid: folder, 'fid[0]': file.id }), { state: true })
  t.match(await change('/files/move', { pid: folder, 'fid[0]': folder }), { state: false, errno: 800006 })
  t.match(await change('/files/copy', { pid: folder, 'fid[0]': folder }), { state: false, errno: 91002 })
  t.match(await json('GET', `https://webapi.115.com/files/get_info?file_id=${file.id}`), { data: [{ n: 'other' }] })
  t.match(await change('/rb/delete', { 'fid[0]': folder }), { state: true })
  t.match(await change('/rb/delete', { 'fid[0]': file.id }), { state: false, errno: 231011 })
})

await t.test('links are bound to what they demand', async (t) => {
  const double = await start115(t)
  const { ask, json } = clientOf(t, double)
  const { pickCode, id } = await double.putFile('/file', 'hello')
  const linkFor = async (condition: LinkCondition) => {
    double.downloads.condition = condition
    const form = { data: sealed(double, { pickcode: pickCode }) }
    const answer = await ask('POST', 'https://proapi.115.com/app/chrome/downurl?t=1700000000', { form })
    const { state, data } = JSON.parse(answer.text) as { state: boolean; data: string }
    t.equal(state, true)
    const link = (opened(double, data) as Record<string, { url: { url: string } }>)[id]?.url.url ?? ''
    return { link, cookie: answer.headers['set-cookie']?.[0]?.split(';')[0] ?? '' }
  }
  const fetched = async (link: string, headers: Record<string, string>) => (await ask('GET', link, { headers })).text
  const free = await linkFor('')
  t.equal(await fetched(free.link, { 'user-agent': 'other', cookie: '' }), 'hello')
  const bound = await linkFor('1')
  t.equal(await fetched(bound.link, { cookie: '', range: 'bytes=1-2' }), 'el')
  t.equal(await fetched(bound.link, { 'user-agent': 'other', cookie: '' }), 'invalid user agent')
  const cookied = await linkFor('3')
  t.equal(await fetched(cookied.link, { cookie: cookied.cookie }), 'hello')
  t.equal(await fetched(cookied.link, { cookie: '' }), 'no cookie value')
  t.equal(await fetched(cookied.link.replace('&c=0', '&c=9'), { cookie: cookied.cookie }), 'invalid signature')
  t.same(double.downloads.withAccountCookies, [])
  await fetched(free.link, {})
  t.equal(double.downloads.withAccountCookies.length, 1, `the account's cookie at ${downloadHost}`)
  const form = { data: Buffer.alloc(128, 1).toString('base64') }
  t.match(await json('POST', 'https://proapi.115.com/app/chrome/downurl?t=1700000000', { form }), { state: false })
})

await t.test('an upload needs its signature, its token and the proof', async (t) => {
  const double = await start115(t)
  const content = Buffer.from('hello world')
  const sha1 = (bytes: Buffer) => createHash('sha1').update(bytes).digest('hex').toUpperCase()
  const offer = (over: Record<string, string> = {}) => offered(double, sha1(content), content.length, over)
  const place = await offer()
  t.match(place, { status: 1, bucket: 'fhnfile', object: String, callback: { callback: String, callback_var: String } })
  t.match(await offer({ sig: 'A'.repeat(40) }), { statuscode: 400 })
  t.match(await offer({ token: 'a'.repeat(32) }), { statuscode: 402 })
  t.match(await offer({ target: 'U_1_99' }), { statuscode: 402 })
  await double.contents.add(content)
  const demand = await offer()
  t.match(demand, { status: 7, sign_key: String, sign_check: /^\d+-\d+$/ })
  const sign_key = String(demand.sign_key)
  t.match(await offer({ sign_key, sign_val: 'A'.repeat(40) }), { statuscode: 10002 })
  const [first = 0, last = 0] = String(demand.sign_check).split('-').map(Number)
  const stored = await offer({ sign_key, sign_val: sha1(content.subarray(first, last + 1)) })
  t.match(stored, { status: 2, pickcode: String })
  t.equal(double.itemAt('/new').content?.size, content.length)
})

/** Offers a file named `new` for the root, as a client does; `over`: fields with other values, signed before. */
async function offered(
  double: Double115,
  fileId: string,
  size: number,
  over: Record<string, string>,
): Promise<Record<string, unknown>> {
  const time = Date.now()
  const { id: userId, userKey } = double.account
  const fields: Record<string, string> = {
    ...{ appid: '0', appversion: '35.6.0.3', userid: userId, filename: 'new', filesize: String(size), fileid: fileId },
    ...{ target: 'U_1_0', t: String(time), ...over },
  }
  const sig = uploadSignature(userKey, userId, fileId, fields.target ?? '')
  const token = requestToken(new URLSearchParams(fields))
  Object.assign(fields, { sig, token, ...over })
  const ecdh = createECDH('secp224r1')
  ecdh.generateKeys()
  const key = Buffer.concat([Buffer.from([0x1d]), ecdh.getPublicKey(null, 'compressed')])
  const shared = ecdh.computeSecret(Buffer.from(double.uploads.cipher.publicKey, 'hex'))
  const secret = Buffer.concat([Buffer.alloc(28 - shared.length), shared])
  const cipher = createCipheriv('aes-128-cbc', secret.subarray(0, 16), secret.subarray(-16))
  const text = new URLSearchParams(Object.entries(fields).sort(([one], [other]) => (one < other ? -1 : 1))).toString()
  const sent = Buffer.concat([cipher.update(text), cipher.final()])
  const url = `https://uplb.115.com/4.0/initupload.php?k_ec=${encodeURIComponent(ecToken(key, time))}`
  const headers = {
    'content-type': 'application/x-www-form-urlencoded',
    'user-agent': browser,
    cookie: double.account.signIn(),
  }
  const response = await new Promise<Buffer>((resolve, reject) => {
    const asked = request(url, { method: 'POST', headers }, (answer) => {
      buffer(answer).then(resolve, reject)
    })
    asked.on('error', reject).end(sent)
  })
  const decipher = createDecipheriv('aes-128-cbc', secret.subarray(0, 16), secret.subarray(-16)).setAutoPadding(false)
  const plain = decipher.update(response.subarray(0, response.length - (response.length % 16)))
  return JSON.parse(decompressed(plain.subarray(2, 2 + plain.readUInt16LE())).toString()) as Record<string, unknown>
}

function ecToken(key: Buffer, time: number): string {
  const bytes = Buffer.alloc(48)
  key.copy(bytes, 0, 0, 15)
  bytes.writeUInt32LE(115, 16)
  bytes.writeUInt32LE(time % 2 ** 32, 20)
  key.copy(bytes, 24, 15)
  bytes.writeUInt32LE(1, 40)
  bytes.writeUInt32LE(crc32(Buffer.concat([Buffer.from('^j>WD3Kr?J2gLFjD4W2y@'), bytes.subarray(0, 44)])), 44)
  return bytes.toString('base64')
}

await t.test('a share tells its state as a text or a number, and needs its code', async (t) => {
  const double = await start115(t)
  const { json } = clientOf(t, double)
  const file = await double.putFile('/shared/file', 'hello')
  const folder = double.itemAt('/shared')
  const share = double.shares.share('sw1', 'code', [folder.id])
  const snap = (query: string, host = 'webapi.115.com') =>
    json('GET', `https://${host}/${host === '115cdn.com' ? 'webapi/' : ''}share/snap?share_code=sw1&${query}`)
  t.match(await snap('receive_code=code'), {
    data: { share_state: '1', list: [{ n: 'shared', fc: 0, cid: folder.id }] },
  })
  t.match(await snap(`receive_code=code&cid=${folder.id}`, '115cdn.com'), { data: { list: [{ fid: file.id, fc: 1 }] } })
  t.match(await snap('receive_code=nope'), { state: false, errno: 4100008 })
  t.match(await snap(''), { state: false, errno: 4100012 })
  share.state = 7
  t.match(await snap('receive_code=code'), { state: true, data: { shareinfo: { share_state: 7 } } })
  share.answersInvalidWith = false
  t.match(await snap('receive_code=code'), { state: false, data: { shareinfo: { share_state: 7 } } })
})

await t.test('downloads of the vendor are added, listed and removed', async (t) => {
  const double = await start115(t)
  const { json } = clientOf(t, double)
  const add = async (url: string) => {
    const payload = { ac: 'add_task_urls', wp_path_id: '0', app_ver: '35.6.0.3', uid: double.account.id, 'url[0]': url }
    const answer = await json('POST', 'https://lixian.115.com/lixianssp/?ac=add_task_urls&t=1700000000', {
      form: { data: sealed(double, payload) },
    })
    return opened(double, String(answer.data)) as { result: { info_hash: string; errcode: number }[] }
  }
  const { result } = await add('https://example.org/file')
  t.match(result, [{ errcode: 0, info_hash: String }])
  t.match(await add('https://example.org/file'), { state: false, result: [{ errcode: 10008 }] })
  t.match(await add('nonsense'), { result: [{ errcode: 10004 }] })
  const tasks = 'https://lixian.115.com/lixian/?ct=lixian&ac='
  double.offline.finish('https://example.org/file', 'file', await double.contents.add('hello'))
  t.match(await json('POST', `${tasks}task_lists&page=1`, { form: { page: '1' } }), {
    tasks: [{ status: 2, name: 'file' }],
  })
  await json('POST', `${tasks}task_del`, { form: { 'hash[0]': result[0]?.info_hash ?? '', flag: '0' } })
  t.match(await json('POST', `${tasks}task_lists`, { form: { page: '1' } }), { count: 0 })
  t.equal(double.itemAt('/file').content?.size, 5)
})
