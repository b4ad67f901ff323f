/** The driver 115 Cloud: what it makes of answers, what it sends where, and what it does when answers are lost. */
import { createHash, randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Source } from '../../../src/contract/call-options.js'
import { GatewayError } from '../../../src/base/errors.js'
import { byteSource } from '../../../src/contract/sources.js'
import { at, listed, namesIn, put, refuses, textAt, type WritableDriver } from '../../driver-conformance/subject.js'
import { start115, type Double115 } from '../../doubles/115/index.js'
import { downloadHost } from '../../doubles/115/downloads.js'
import { failureOf, fetchDirectUrl, openCloud } from './mount.js'
import { testEnv } from '../env.js'
import { memoryState, mostInOneSecond } from '../lib/cloud/vendor.js'
import { until } from '../../until.js'

const mebibyte = 1024 * 1024
/** A busy machine delays calls differently. */
const jitter = 1.1

/** A source as the core hands it to the driver: with its hash, and readable more than once. */
function hashed(content: string | Buffer): Source {
  const bytes = Buffer.from(content)
  const sha1 = createHash('sha1').update(bytes).digest('hex')
  return { ...byteSource(bytes, { hashes: { sha1 } }), bytes: undefined }
}

const write = (driver: WritableDriver, path: string, content: string | Buffer) =>
  driver.write(at(path), hashed(content))

const bodies = ({ uploads }: Double115) => uploads.oss.requests.bodyBytes()

async function eventually(t: Test, what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  t.ok(await until(isSo), what)
}

await t.test('a confirmed QR code is exchanged once, and becomes the cookie', async (t) => {
  const double = await start115(t)
  const { state } = memoryState()
  const saved: unknown[] = []
  const save = async (options: unknown) => {
    saved.push(options)
    if (saved.length === 1) throw new Error('no disk')
  }
  const code = double.account.confirmedCode()
  const options = { qrcode_token: ` ${code}\n`, qrcode_source: 'tv' }
  const open = () => openCloud(t, double, { options, env: { state, save } })
  await t.rejects(open(), 'the cookie could not be stored as an option')
  await open()
  t.equal(double.requests.matching(/login\/qrcode/).length, 1, 'the code is exchanged once')
  const [, { cookie, qrcode_token }] = saved as [unknown, { cookie: string; qrcode_token: string }]
  t.match(cookie, /^UID=.*; CID=.*; SEID=.*; KID=/)
  t.equal(qrcode_token, '')
  await openCloud(t, double, { options: { cookie }, env: { state } })
})

await t.test(
  'a cookie that was typed before a QR code does not replace that of the code, and a later one does',
  async (t) => {
    const double = await start115(t)
    const { state } = memoryState()
    const ended = 'UID=1; CID=2; SEID=3'
    const save = async () => Promise.reject(new Error('no disk'))
    const typed = { qrcode_token: double.account.confirmedCode(), cookie: ended }
    await t.rejects(
      openCloud(t, double, { options: typed, env: { state, save } }),
      'killed before the options are stored',
    )
    const saved: unknown[] = []
    const env = { state, save: async (options: unknown) => void saved.push(options) }
    await openCloud(t, double, { options: typed, env })
    t.match(saved, [{ cookie: /^UID=.*; KID=/, qrcode_token: '' }])
    const later = double.account.signIn()
    await openCloud(t, double, { options: { ...typed, cookie: later }, env })
    t.match(saved[1], { cookie: later })
  },
)

await t.test('a code that is not accepted is refused with a reason, and not sent again', async (t) => {
  const double = await start115(t)
  const open = (qrcode_token: string, qrcode_source: string) =>
    failureOf(openCloud(t, double, { options: { qrcode_token, qrcode_source } }))
  for (const kind of ['linux', 'mac', 'windows']) {
    t.match(await open(double.account.confirmedCode(), kind), {
      code: 'denied',
      reason: /choose another qrcode_source/,
    })
  }
  t.match(await open('unknown', 'web'), { code: 'denied', reason: /QR code/ })
  t.equal(double.requests.matching(/login\/qrcode/).length, 4)
})

await t.test('without valid credentials, a storage does not start, and does not ask again and again', async (t) => {
  const double = await start115(t)
  t.match(await failureOf(openCloud(t, double, { options: { cookie: '' } })), { code: 'invalid' })
  t.match(await failureOf(openCloud(t, double, { options: { cookie: 'UID=1; CID=2; SEID=3' } })), {
    code: 'denied',
    reason: /sign in to 115 again/,
  })
  const driver = await openCloud(t, double)
  double.account.signOut()
  await refuses(t, () => listed(driver, '/'), 'denied', 'signed out')
  const before = double.requests.log.length
  for (let index = 0; index < 10; index++) await refuses(t, () => put(driver, '/a', ''), 'denied', 'again')
  t.equal(double.requests.log.length, before, 'nothing more was sent')
})

await t.test('a folder that does not exist cannot be the root', async (t) => {
  const double = await start115(t)
  for (const root_folder_id of ['12345', 'x']) {
    const options = { cookie: double.account.signIn(), root_folder_id }
    t.match(await failureOf(openCloud(t, double, { options })), { code: 'invalid', reason: /root_folder_id/ })
  }
  const options = { cookie: double.account.signIn(), root_folder_id: double.makeFolder('/root') }
  const driver = await openCloud(t, double, { options })
  double.drive.remove(double.itemAt('/root'))
  await refuses(t, () => listed(driver, '/'), 'unavailable', 'removed meanwhile: not an empty storage')
})

await t.test('a renewed cookie is used from then on, also after a restart', async (t) => {
  const double = await start115(t)
  const { state } = memoryState()
  const first = double.account.signIn('web')
  const driver = await openCloud(t, double, { options: { cookie: first }, env: { state } })
  const second = double.account.signIn('web')
  const setCookie = [...second.split('; '), 'acw_tc=1'].map((pair) => `${pair}; Domain=.115.com; Path=/`)
  const body = JSON.stringify({ state: true, count: 0, cid: '0', data: [] })
  double.requests.inject(/webapi\.115\.com\/files\?/, { answer: 200, headers: { 'set-cookie': setCookie }, body })
  await listed(driver, '/')
  await listed(driver, '/')
  t.equal(double.requests.log.at(-1)?.headers.cookie, second, 'without other cookies')
  await driver.close?.()
  const again = await openCloud(t, double, { options: { cookie: first }, env: { state } })
  await again.close?.()
  await refuses(t, () => openCloud(t, double, { options: { cookie: first } }), 'denied', 'the first one alone')
})

await t.test('the cookie of another account is neither used nor stored', async (t) => {
  const double = await start115(t)
  const { state, values } = memoryState()
  const warnings: string[] = []
  const log = { ...testEnv().log, warn: (_fields: object, message: string) => void warnings.push(message) }
  const cookie = double.account.signIn()
  const driver = await openCloud(t, double, { options: { cookie }, env: { state, log } })
  const setCookie = ['UID=654321_A1_1700000001', 'CID=other', 'SEID=other'].map((pair) => `${pair}; Domain=.115.com`)
  const body = JSON.stringify({ state: true, count: 0, cid: '0', data: [] })
  double.requests.inject(/webapi\.115\.com\/files\?/, { answer: 200, headers: { 'set-cookie': setCookie }, body })
  await listed(driver, '/')
  await listed(driver, '/')
  t.equal(double.requests.log.at(-1)?.headers.cookie, cookie)
  t.notMatch([...values.values()].join(''), '654321')
  t.same(warnings, ['the 115 server sent the cookie of another account, which is not used'])
})

await t.test('a page of the firewall stops all calls of the storage, also after a restart', async (t) => {
  const double = await start115(t)
  const { state } = memoryState()
  const cookie = double.account.signIn()
  const driver = await openCloud(t, double, { options: { cookie }, env: { state } })
  await write(driver, '/file', 'x')
  double.block(10_000)
  const waiting = Promise.allSettled(['/file', '/a', '/b'].map((path) => driver.stat(at(path))))
  t.ok((await waiting).every(({ status }) => status === 'rejected'))
  const before = double.requests.log.length
  for (let index = 0; index < 10; index++) {
    t.match(await failureOf(driver.stat(at('/file'))), { code: 'unavailable', retryAfter: 300 })
    t.match(await failureOf(write(driver, '/new', 'y')), { code: 'unavailable' })
  }
  await driver.close?.()
  await refuses(t, () => openCloud(t, double, { options: { cookie }, env: { state } }), 'unavailable', 'reopened')
  t.equal(double.requests.log.length, before, 'no call in the pause')
})

await t.test('limit_rate 2: never more than two calls in a second', async (t) => {
  const double = await start115(t, { maxCallsPerSecond: 2 })
  for (const path of ['/a/b/c/d', '/a/x']) double.makeFolder(path)
  const driver = await openCloud(t, double, { options: { cookie: double.account.signIn(), limit_rate: 2 } })
  await Promise.all(['/a/b/c/d', '/a/x', '/a'].map((path) => listed(driver, path)))
  const times = double.requests.log.map(({ time }) => time)
  t.ok(times.length >= 7, `${times.length} calls`)
  t.ok(mostInOneSecond(times.map((time) => time * jitter)) <= 2)
})

await t.test('a link is for one User-Agent, may demand a cookie, and never gets that of the account', async (t) => {
  const double = await start115(t)
  const driver = await openCloud(t, double)
  await write(driver, '/file', 'hello')
  const player = { userAgent: 'a player' }
  for (const condition of ['', '1', '3'] as const) {
    double.downloads.condition = condition
    t.equal(await textAt(driver, '/file'), 'hello', `our own download, f=${condition}`)
    const url = await driver.directUrl?.(at('/file'), player)
    if (!url) continue
    t.equal(url.headers !== undefined, condition === '3', 'a redirect is possible unless a cookie is demanded')
    t.equal(await fetchDirectUrl(url, player), 'hello')
    const other = await fetchDirectUrl(url, { userAgent: 'another' })
    t.equal(other, condition === '' ? 'hello' : undefined)
    const forUs = await driver.directUrl?.(at('/file'))
    t.equal(forUs?.headers?.['user-agent'] !== undefined, condition !== '')
    t.same(url.until, new Date(Number(new URL(url.url).searchParams.get('t')) * 1000), 'its expiry, exactly')
  }
  t.same(double.downloads.withAccountCookies, [])
  const sent = double.requests.log.filter(({ host }) => host === downloadHost)
  t.ok(sent.every(({ headers }) => !/SEID|UID/.test(String(headers.cookie))))
})

await t.test('a link that is refused is asked for once more, and 115 says whether the file exists', async (t) => {
  const double = await start115(t)
  const driver = await openCloud(t, double)
  await write(driver, '/file', 'hello')
  const links = () => double.requests.matching(/downurl/).length
  for (const answer of [403, 404]) {
    double.requests.inject(/cdnfhnfile/, { answer })
    t.equal(await textAt(driver, '/file'), 'hello', `once ${answer}`)
    double.requests.inject(/cdnfhnfile/, { answer }, 2)
    await refuses(t, () => textAt(driver, '/file'), 'unavailable', `twice ${answer}`)
  }
  double.requests.inject(/cdnfhnfile/, { answer: 500 })
  const before = links()
  await refuses(t, () => textAt(driver, '/file'), 'unavailable', 'the download server fails')
  t.equal(links() - before, 1, 'not the fault of the link')
  double.requests.inject(/cdnfhnfile/, { answer: 416 })
  await refuses(t, () => textAt(driver, '/file'), 'unavailable', 'no empty file instead of one with content')
  double.drive.remove(double.itemAt('/file'))
  await refuses(t, () => textAt(driver, '/file'), 'not_found', 'a file that was removed')
})

await t.test('a link that demands a cookie which was not set is no redirect', async (t) => {
  const double = await start115(t)
  const driver = await openCloud(t, double)
  await write(driver, '/file', 'hello')
  const link = { '1': { file_size: 5, url: { url: 'https://cdnfhnfile.115cdn.net/file?f=3' } } }
  const body = JSON.stringify({ state: true, data: link })
  double.requests.inject(/downurl/, { answer: 200, body })
  await refuses(t, async () => driver.directUrl?.(at('/file'), { userAgent: 'a player' }), 'unsupported', 'f=3')
})

await t.test('a file that 115 knows is stored without its bytes, by a proof', async (t) => {
  const double = await start115(t)
  const driver = await openCloud(t, double)
  for (const size of [1, 300_000, 11 * mebibyte]) {
    const content = randomBytes(size)
    await double.contents.add(content)
    let read = 0
    const source = hashed(content)
    const counted: Source = {
      ...source,
      read: (range, options) => {
        read += range?.length ?? content.length
        return source.read(range, options)
      },
    }
    const entry = await driver.write(at('/file'), counted)
    t.match(entry, { size, hashes: source.hashes })
    t.ok(read <= 128 * 1024, `${read} bytes were read for the proof`)
  }
  t.equal(bodies(double), 0)
  t.same(await namesIn(driver, '/'), ['file'])
})

await t.test('a large file goes in parts, in order, with a token that is replaced in between', async (t) => {
  const double = await start115(t)
  const { oss } = double.uploads
  const driver = await openCloud(t, double)
  const content = randomBytes(20 * mebibyte + 5)
  const tokens = () => double.requests.matching(/gettoken/).length
  const expiring = setInterval(() => {
    if (oss.requests.matching(/PUT .*partNumber=1&/).some(({ status }) => status === 200)) {
      oss.expireTokens()
      clearInterval(expiring)
    }
  }, 1)
  t.teardown(() => clearInterval(expiring))
  await write(driver, '/file', content)
  t.equal(tokens(), 2)
  const parts = oss.requests.matching(/PUT .*partNumber/).filter(({ status }) => status === 200)
  t.same(
    parts.map(({ path }) => Number(/partNumber=(\d+)/.exec(path)?.[1])),
    [1, 2, 3],
  )
  t.equal(oss.pending.size, 0)
  t.equal((await driver.stat(at('/file'))).size, content.length)
  // The vendor cuts a part off, once, and then for good.
  const other = randomBytes(11 * mebibyte)
  oss.requests.inject(/PUT .*partNumber=1&/, { cutAfter: mebibyte })
  await write(driver, '/file', other)
  t.equal((await driver.stat(at('/file'))).size, other.length)
  oss.requests.inject(/PUT .*partNumber=2&/, { cutAfter: mebibyte }, 100)
  await refuses(t, () => write(driver, '/file', randomBytes(11 * mebibyte)), 'unavailable', 'a part cannot be sent')
  t.equal((await driver.stat(at('/file'))).size, other.length, 'the old file is unchanged')
  await eventually(t, 'the parts are discarded', () => oss.pending.size === 0)
})

await t.test('if an answer is lost, the file is looked for', async (t) => {
  const double = await start115(t)
  const driver = await openCloud(t, double)
  await write(driver, '/file', 'old')
  double.uploads.oss.requests.inject(/PUT /, { loseAnswer: true })
  await write(driver, '/file', 'by one request')
  t.equal(await textAt(driver, '/file'), 'by one request')
  double.uploads.oss.requests.inject(/POST .*uploadId/, { loseAnswer: true })
  await write(driver, '/file', randomBytes(11 * mebibyte))
  t.equal((await driver.stat(at('/file'))).size, 11 * mebibyte)
  await double.contents.add('known')
  double.requests.inject(/initupload/, { delay: 0 })
  double.requests.inject(/initupload/, { loseAnswer: true })
  await write(driver, '/file', 'known')
  t.equal(await textAt(driver, '/file'), 'known')
  t.same(await namesIn(driver, '/'), ['file'], 'without a second file')
  double.uploads.oss.requests.inject(/PUT /, { answer: 203, body: '<Error><Code>CallbackFailed</Code></Error>' })
  await refuses(t, () => write(driver, '/file', 'not taken over'), 'unavailable', 'a failed callback')
  t.equal(await textAt(driver, '/file'), 'known')
})

/** Calls `inject` when the first request that matches is answered. */
async function onceAnswered({ requests }: Double115, which: RegExp, inject: () => void): Promise<void> {
  const before = requests.matching(which).length
  while (requests.matching(which).slice(before)[0]?.status === undefined) await wait(1)
  inject()
}

await t.test('a file that has its name is stored, also if nothing more is reported of it', async (t) => {
  const double = await start115(t)
  const driver = await openCloud(t, double)
  await write(driver, '/file', 'old')
  const broken = onceAnswered(double, /batch_rename/, () => {
    double.requests.inject(/get_info|files\?/, { answer: 500, body: '{}' }, 100)
  })
  t.match(await write(driver, '/file', 'the new one'), { name: 'file', size: 11, hashes: hashed('the new one').hashes })
  await broken
  double.requests.clearFaults()
  t.equal(await textAt(driver, '/file'), 'the new one')
  t.equal(double.drive.members('0').length, 1)
})

await t.test('a file that 115 knows is stored although its pick code leads nowhere yet', async (t) => {
  const double = await start115(t)
  const driver = await openCloud(t, double)
  await double.contents.add('known')
  double.requests.inject(/get_info\?pick_code/, { answer: 200, body: '{"state":true,"data":[]}' })
  await write(driver, '/file', 'known')
  double.requests.inject(/get_info\?pick_code/, { answer: 200, body: '{"state":true,"data":[]}' })
  const upload = await driver.upload?.(at('/other'), { size: 5, source: hashed('known') })
  t.equal(upload?.committedOffset, 5)
  await upload?.commit()
  t.same(await namesIn(driver, '/'), ['file', 'other'])
  t.equal(bodies(double), 0)
})

await t.test('an account that may not upload is told so, however 115 says it', async (t) => {
  const double = await start115(t)
  for (const allowed of [false, 0, '0']) {
    const driver = await openCloud(t, double)
    const body = JSON.stringify({ state: true, user_id: 1, userkey: 'key', upload_allowed: allowed })
    double.requests.inject(/uploadinfo/, { answer: 200, body })
    await refuses(t, () => write(driver, '/file', 'x'), 'denied', String(allowed))
  }
})

await t.test('a listing is read to its end without a count, and entries that are none are counted', async (t) => {
  const double = await start115(t)
  const driver = await openCloud(t, double)
  const list = (data: readonly object[], count?: number) =>
    double.requests.inject(/webapi\.115\.com\/files\?/, {
      answer: 200,
      body: JSON.stringify({ state: true, cid: '0', count, data }),
    })
  const folder = (n: number) => ({ fid: '', cid: String(n), pid: '0', n: `folder ${n}` })
  list([folder(1), folder(2)])
  list([folder(3)])
  list([])
  t.same(await namesIn(driver, '/'), ['folder 1', 'folder 2', 'folder 3'])
  list([folder(1), {}], 3)
  list([folder(3)], 3)
  t.same(await namesIn(driver, '/'), ['folder 1', 'folder 3'])
  t.match(double.requests.matching(/webapi\.115\.com\/files\?/).at(-1)?.path, /offset=2/)
})

await t.test('a source that vanishes is not a missing folder', async (t) => {
  const double = await start115(t)
  const driver = await openCloud(t, double)
  const gone: Source = { ...hashed('content'), read: async () => Promise.reject(new GatewayError('not_found')) }
  await refuses(t, () => driver.write(at('/file'), gone), 'not_found', 'the source')
})

await t.test('a replaced file that cannot be removed at once is removed by the next run, by its id', async (t) => {
  const double = await start115(t)
  const { state } = memoryState()
  const options = { cookie: double.account.signIn() }
  const driver = await openCloud(t, double, { options, env: { state } })
  await write(driver, '/file', 'old')
  const old = double.itemAt('/file')
  double.requests.inject(/rb\/delete/, { answer: 200, body: '{"state":false,"errno":990009,"error":"busy"}' }, 99)
  await write(driver, '/file', 'new')
  t.equal(await textAt(driver, '/file'), 'new', 'the newer one is shown')
  t.equal(double.drive.members('0').length, 2)
  await driver.close?.()
  double.requests.clearFaults()
  const again = await openCloud(t, double, { options, env: { state } })
  t.equal(double.drive.get(old.id), undefined)
  t.same(await namesIn(again, '/'), ['file'])
})

await t.test('what a killed run has left is completed or removed by the next one', async (t) => {
  const double = await start115(t)
  const { state } = memoryState()
  const options = { cookie: double.account.signIn() }
  const instance = { name: 'killed-run', isOver: () => false }
  const killed = await openCloud(t, double, { options, env: { state, instance } })
  await write(killed, '/file', 'old')
  await write(killed, '/other', 'other')
  // Its calls end here: the file is stored, but has not got its name; of the other one, the name is lost on its way.
  double.requests.inject(/batch_rename/, { loseAnswer: true }, 9)
  const renames = double.requests.matching(/batch_rename/).length
  const dying = write(killed, '/file', 'new')
  while (double.requests.matching(/batch_rename/).length === renames) await wait(1)
  double.requests.inject(/get_info|files\?|rb\/delete/, { answer: 502 }, 99)
  await refuses(t, () => dying, 'unavailable', 'the end of the run')
  double.requests.clearFaults()
  await killed.close?.()
  const next = { name: 'next-run', isOver: (name: string) => name === 'killed-run' }
  const driver = await openCloud(t, double, { options, env: { state, instance: next } })
  t.same(await namesIn(driver, '/'), ['file', 'other'])
  t.ok(['old', 'new'].includes(await textAt(driver, '/file')), 'the old or the new file')
  await eventually(t, 'nothing else is left', async () => {
    await namesIn(driver, '/')
    return double.drive.members('0').length === 2
  })
})

await t.test('a move that fails halfway is undone', async (t) => {
  const double = await start115(t)
  const driver = await openCloud(t, double)
  for (const folder of ['/a', '/b']) await driver.mkdir(at(folder))
  await write(driver, '/a/one', 'one')
  double.requests.inject(/files\/move/, { answer: 200, body: '{"state":false,"errno":990009,"error":"busy"}' })
  await refuses(t, async () => driver.move?.(at('/a/one'), at('/b/two')), 'unavailable', 'the move')
  t.same(await namesIn(driver, '/a'), ['one'])
  await driver.move?.(at('/a/one'), at('/b/two'))
  t.same(await namesIn(driver, '/b'), ['two'])
})

await t.test('codes of the vendor are errors with a reason, without its text', async (t) => {
  const double = await start115(t)
  const driver = await openCloud(t, double)
  await write(driver, '/file', 'x')
  const codes: readonly (readonly [code: number | string, expected: string])[] = [
    [990009, 'unavailable'],
    ['911', 'denied'],
    [20022, 'invalid'],
  ]
  for (const [errno, code] of codes) {
    const body = JSON.stringify({ state: false, errno, error: 'secret text' })
    double.requests.inject(/files\/add/, { answer: 200, body })
    const error = await failureOf(driver.mkdir(at('/new')))
    t.equal(error.code, code)
    t.notMatch(error.message, /secret/)
  }
  double.downloads.maxSize = 0
  await refuses(t, () => driver.read(at('/file')), 'too_large', 'no link for a file of this size')
})

await t.test('a folder that can only be listed in another order', async (t) => {
  const double = await start115(t)
  const driver = await openCloud(t, double)
  await write(driver, '/file', 'x')
  const body = JSON.stringify({ state: false, errNo: 20130827, order: 'file_name', is_asc: 1 })
  double.requests.inject(/webapi\.115\.com\/files\?/, { answer: 200, body })
  t.same(await namesIn(driver, '/'), ['file'])
  t.equal(double.requests.matching(/natsort\/files\.php/).length, 1)
})

await t.test('offline downloads are added, found by their address or id, and removed', async (t) => {
  const double = await start115(t)
  const driver = await openCloud(t, double)
  await driver.mkdir(at('/downloads'))
  await driver.mkdir(at('/other'))
  double.offline.pageSize = 2
  const folder = at('/downloads')
  const address = 'https://example.org/a'
  const id = (await driver.addDownload?.(folder, address)) ?? ''
  for (const name of ['b', 'c', 'd']) await driver.addDownload?.(folder, `https://example.org/${name}`)
  t.match(await driver.findDownload?.(folder, { address }), { id, state: 'waiting' })
  t.equal(await driver.findDownload?.(at('/other'), { address }), undefined, 'not in that folder')
  await refuses(t, async () => driver.addDownload?.(folder, address), 'exists', 'once more')
  await refuses(t, async () => driver.addDownload?.(folder, 'gopher://x'), 'invalid', 'another scheme')
  await refuses(t, async () => driver.addDownload?.(at('/none'), address), 'not_found', 'no folder')
  double.offline.progress(address, 40)
  t.match(await driver.findDownload?.(folder, { id, address }), { state: 'running' })
  double.offline.finish(address, 'a', await double.contents.add('content'))
  t.match(await driver.findDownload?.(folder, { id, address }), {
    state: 'done',
    name: 'a',
    totalBytes: 7,
    doneBytes: 7,
  })
  await driver.removeDownload?.(folder, id)
  await driver.removeDownload?.(folder, id)
  t.equal(await textAt(driver, '/downloads/a'), 'content', 'its file is kept')
  t.equal(await driver.findDownload?.(folder, { id, address }), undefined)
  double.offline.fail('https://example.org/b')
  t.match(await driver.findDownload?.(folder, { address: 'https://example.org/b' }), { state: 'failed' })
  double.offline.quota = 0
  await refuses(t, async () => driver.addDownload?.(folder, 'https://example.org/e'), 'no_space', 'the quota')
  double.offline.demandsCaptcha = true
  await refuses(t, async () => driver.addDownload?.(folder, 'https://example.org/f'), 'denied', 'a captcha')
})

await t.test('an answer that does not say that a change is made is none', async (t) => {
  const double = await start115(t)
  const driver = await openCloud(t, double)
  await write(driver, '/file', 'old')
  for (const body of ['{}', '[]', '{"error":"no"}']) {
    double.requests.inject(/batch_rename/, { answer: 200, body })
    t.match(await failureOf(write(driver, '/file', 'new')), { code: 'unavailable' })
    t.equal(await textAt(driver, '/file'), 'old')
  }
})

await t.test('the link of another file is not followed', async (t) => {
  const double = await start115(t)
  const driver = await openCloud(t, double)
  const { pickCode } = await double.putFile('/other', 'something else')
  Object.assign(await double.putFile('/file', 'hello'), { pickCode })
  t.match(await failureOf(textAt(driver, '/file')), { code: 'unavailable' })
})

await t.test('sizes that are none are 0', async (t) => {
  const double = await start115(t)
  const driver = await openCloud(t, double)
  const sizes = [-5, 0.5, 1e300, '9007199254740993', 'x', null, {}, [7], true]
  const data = sizes.map((s, index) => ({ fid: String(index + 1), cid: '0', n: String(index), s, te: 'x' }))
  const body = JSON.stringify({ state: true, cid: '0', count: data.length, data })
  double.requests.inject(/webapi\.115\.com\/files\?/, { answer: 200, body })
  const entries = await listed(driver, '/')
  t.equal(entries.length, sizes.length)
  for (const { size, modified } of entries) t.same([size, +modified], [0, 0])
})

await t.test('a listing without its list is not an empty folder', async (t) => {
  const double = await start115(t)
  const driver = await openCloud(t, double)
  await write(driver, '/file', 'hello')
  double.requests.inject(/webapi\.115\.com\/files\?/, { answer: 200, body: '{"state":true,"cid":"0","count":0}' })
  await refuses(t, () => listed(driver, '/'), 'unavailable', 'no list')
  t.same(await namesIn(driver, '/'), ['file'])
})
