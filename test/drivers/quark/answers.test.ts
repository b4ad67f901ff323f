/** The driver for Quark and UC: the cookie, strange answers, what is sent and what is not, and broken connections. */
import { createHash, randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { ucType } from '../../../drivers/quark/index.js'
import type { Source } from '../../../src/contract/call-options.js'
import { byteSource } from '../../../src/contract/sources.js'
import { startQuark, startUc } from '../../doubles/quark.js'
import { at, bytesAt, listed, namesIn, refuses, textAt } from '../../driver-conformance/subject.js'
import { memoryState } from '../lib/cloud/vendor.js'
import { existing, file, openOn } from './mount.js'

const mebibyte = 1024 * 1024

/** A source as Storage passes it: with the hashes, and readable more than once. */
function hashed(content: string | Buffer): Source {
  const bytes = Buffer.from(content)
  const digest = (name: string) => createHash(name).update(bytes).digest('hex')
  return { ...byteSource(bytes), bytes: undefined, hashes: { md5: digest('md5'), sha1: digest('sha1') } }
}

/** Bodies of parts that have arrived in the object store. */
const sentParts = /^PUT ul-zb\./
const lists = /file\/sort/

await t.test('a cookie that answers replace is stored before its use, and used after a restart', async (t) => {
  const double = await startQuark(t)
  const { session, requests } = double
  const { state, values, failures } = memoryState()
  const { cookie } = session
  const driver = await openOn(double, { cookie: `\n ${cookie};  ` }, { state })
  session.renew()
  failures.push(new Error('the disk is full'))
  await namesIn(driver, '/')
  t.equal(session.renewals, 0, 'one that could not be stored is not used')
  await Promise.all(Array.from({ length: 10 }, () => namesIn(driver, '/')))
  await namesIn(driver, '/')
  t.equal(session.renewals, 1)
  await driver.close?.()
  const again = await openOn(double, { cookie }, { state })
  await namesIn(again, '/')
  t.equal(requests.matching(/./).filter(({ status }) => status === 401).length, 0, 'the old one was not sent again')
  const stored = [...values.values()].join()
  t.notMatch(stored, new RegExp(/__puus=(\w+)/.exec(cookie)?.[1] ?? ''), 'what was typed is not in the state')
  await again.close?.()
  const typed = await openOn(double, { cookie: `${session.cookie}; ` }, { state })
  await typed.close?.()
})

await t.test('only the cookies that the service renews are taken from answers', async (t) => {
  const double = await startQuark(t)
  const driver = await openOn(double)
  double.session.renew(['__pus', '__puus'])
  await namesIn(driver, '/')
  await refuses(t, () => namesIn(driver, '/'), 'denied', 'half of the new cookie')
  await driver.close?.()
})

await t.test('with transcoded videos, they are two', async (t) => {
  const double = await startQuark(t)
  const driver = await openOn(double, { use_transcoding_address: true })
  double.session.renew(['__pus', '__puus'])
  await namesIn(driver, '/')
  await namesIn(driver, '/')
  t.equal(double.session.renewals, 1)
  await driver.close?.()
})

await t.test('a cookie that is not accepted is an error that says what to do, and has no secret', async (t) => {
  const double = await startQuark(t)
  const driver = await openOn(double)
  double.session.end()
  const error = await namesIn(driver, '/').then(
    () => undefined,
    (reason: unknown) => reason,
  )
  t.match(error, { code: 'denied', message: /copy a new one/ })
  t.notMatch(JSON.stringify(error), /__pus=/)
  t.notMatch(String((error as Error).stack), /__pus=/)
  await refuses(t, () => openOn(double), 'denied', 'opening it')
  await refuses(t, () => openOn(double, { cookie: ' ;; ' }), 'invalid', 'no cookie at all')
  await driver.close?.()
})

await t.test('the check of a storage asks for its root folder', async (t) => {
  const double = await startQuark(t)
  const { fid } = double.drive.create('0', 'root')
  const driver = await openOn(double, { root_folder_id: fid })
  t.match(await driver.stat(at('/')), { kind: 'folder' })
  double.drive.remove(fid)
  await refuses(t, () => driver.stat(at('/')), 'unavailable', 'a root that is removed')
  double.session.end()
  await refuses(t, () => driver.stat(at('/')), 'denied', 'a dead cookie')
  await driver.close?.()
})

await t.test('the root must be a folder that exists, and losing it is not an empty storage', async (t) => {
  const double = await startQuark(t)
  await refuses(t, () => openOn(double, { root_folder_id: 'gone' }), 'invalid', 'a root that does not exist')
  const { fid } = double.drive.create('0', 'root')
  const driver = await openOn(double, { root_folder_id: fid })
  double.drive.remove(fid)
  await refuses(t, () => namesIn(driver, '/'), 'unavailable', 'a root that is removed')
  await driver.close?.()
})

await t.test('names are shown as they are, in any number, and in the order that is asked for', async (t) => {
  const double = await startQuark(t)
  const names = ['a & b', '<i>', '"x" \'y\'', '&amp;', '&#39;', ...Array.from({ length: 250 }, (_, n) => `f${n}`)]
  for (const name of names) await existing(double, name, name)
  const driver = await openOn(double, { order_by: 'file_name', order_direction: 'desc' })
  const shown = (await listed(driver, '/')).map(({ name }) => name)
  t.same([...shown].sort(), [...names].sort())
  t.equal(await textAt(driver, '/&amp;'), '&amp;')
  t.match(double.requests.matching(lists).at(-1)?.path, /_sort=file_type%3Aasc%2Cfile_name%3Adesc/)
  await driver.close?.()
})

await t.test('a folder that changes while it is listed is listed again, so that no entry is missing', async (t) => {
  const double = await startQuark(t)
  for (let number = 0; number < 150; number++) await existing(double, `file-${number}`, 'x')
  const driver = await openOn(double)
  double.requests.inject(/_page=2/, { delay: 200 })
  const listing = namesIn(driver, '/')
  await wait(100)
  double.drive.remove(double.drive.members('0')[0]?.fid ?? '')
  t.equal((await listing).length, 149)
  t.equal(double.requests.matching(/_page=2/).length, 2)
  await driver.close?.()
})

await t.test('only videos and folders are listed, if that is wished', async (t) => {
  const double = await startQuark(t)
  for (const name of ['film.mp4', 'text.txt']) await existing(double, name, 'x')
  double.drive.create('0', 'folder')
  const driver = await openOn(double, { only_list_video_file: true })
  t.same(await namesIn(driver, '/'), ['film.mp4', 'folder'])
  t.equal(await textAt(driver, '/text.txt'), 'x', 'others can be reached')
  await driver.close?.()
})

await t.test('a content that the service has is not sent', async (t) => {
  const double = await startQuark(t)
  const driver = await openOn(double)
  const content = randomBytes(mebibyte)
  await double.learn(content)
  await driver.write(file, hashed(content))
  await driver.write(at('/empty'), hashed(''))
  t.equal(double.requests.bodyBytes(sentParts), 0)
  t.ok((await bytesAt(driver, '/file')).equals(content))
  t.equal(await textAt(driver, '/empty'), '')
  await driver.close?.()
})

await t.test('others are sent in parts: a cut one and one whose answer is lost once more', async (t) => {
  const double = await startQuark(t, { partSize: 200_000 })
  const { requests } = double
  const driver = await openOn(double)
  const content = randomBytes(900_000)
  requests.inject(/^PUT .*partNumber=2/, { cutAfter: 50_000 })
  requests.inject(/^PUT .*partNumber=4/, { loseAnswer: true })
  await driver.write(file, hashed(content))
  t.ok((await bytesAt(driver, '/file')).equals(content))
  t.equal(requests.matching(sentParts).length, 7)
  t.notOk(
    requests.matching(/^\w+ ul-zb\./).some(({ headers }) => headers.cookie !== undefined),
    'it gets no cookie',
  )
  await driver.close?.()
})

await t.test(
  'a signature that has expired is made anew, and an upload whose last answer is lost is complete',
  async (t) => {
    const double = await startQuark(t, { partSize: 200_000 })
    const { requests } = double
    const driver = await openOn(double)
    const content = randomBytes(500_000)
    requests.inject(/^PUT .*partNumber=2/, { answer: 403, body: '<Error><Code>AccessDenied</Code></Error>' })
    requests.inject(/^POST ul-zb.*uploadId/, { loseAnswer: true })
    await driver.write(file, hashed(content))
    t.ok((await bytesAt(driver, '/file')).equals(content))
    t.equal(requests.matching(sentParts).length, 4)
    await driver.close?.()
  },
)

await t.test('a file of more parts than an upload may have is refused before it is sent', async (t) => {
  const double = await startQuark(t, { partSize: 1 })
  const driver = await openOn(double)
  await refuses(t, () => driver.write(file, hashed(Buffer.alloc(10_001))), 'too_large', '10,001 parts')
  await driver.close?.()
})

await t.test('an upload goes on after a restart, and begins anew when the service has forgotten it', async (t) => {
  const double = await startQuark(t, { partSize: mebibyte })
  const { requests } = double
  const { state, values } = memoryState()
  const source = hashed(randomBytes(4 * mebibyte + 1))
  const plan = { size: source.size ?? 0, source }
  const first = await openOn(double, {}, { state })
  const upload = await first.upload?.(file, plan)
  requests.inject(/^PUT .*partNumber=4/, { answer: 403, body: '<Error><Code>AccessDenied</Code></Error>' }, 9)
  await t.rejects(upload!.write(await source.read()))
  await upload!.close()
  await first.close?.()
  requests.clearFaults()
  const second = await openOn(double, {}, { state })
  const resumed = await second.upload?.(file, { ...plan, resumeToken: upload!.token })
  t.equal(resumed!.committedOffset, 3 * mebibyte)
  const before = requests.matching(sentParts).length
  await resumed!.write(await source.read({ offset: resumed!.committedOffset }))
  await resumed!.commit()
  await resumed!.close()
  t.equal(requests.matching(sentParts).length - before, 2, 'only the rest was sent')
  t.ok((await bytesAt(second, '/file')).equals(source.size === 0 ? Buffer.alloc(0) : await collected(source)))
  t.same(
    [...values.keys()].filter((key) => key.startsWith('upload')),
    [],
    'nothing of it is left in the state',
  )

  const other = hashed(randomBytes(2 * mebibyte))
  const next = await second.upload?.(at('/other'), { size: other.size!, source: other })
  double.uploads.oss.pending.clear()
  await refuses(t, async () => next!.write(await other.read()), 'unavailable', 'a forgotten upload')
  await next!.close()
  const anew = await second.upload?.(at('/other'), { size: other.size!, source: other, resumeToken: next!.token })
  t.equal(anew!.committedOffset, 0)
  t.not(anew!.token, next!.token)
  await anew!.close()
  await second.dropUpload?.(anew!.token)
  await second.close?.()
})

async function collected(source: Source): Promise<Buffer> {
  return Buffer.concat(await (await source.read()).toArray())
}

await t.test('downloads: URLs that expire or serve once, cut pieces, and no cookie for other hosts', async (t) => {
  const double = await startQuark(t)
  const { requests, downloads } = double
  const driver = await openOn(double)
  const content = randomBytes(20 * mebibyte)
  await existing(double, 'file', content)
  const isWhole = async () => (await bytesAt(driver, '/file')).equals(content)
  downloads.areSingleUse = true
  t.ok(await isWhole(), 'each URL serves once')
  downloads.areSingleUse = false
  requests.inject(/^GET dl-/, { cutAnswerAfter: mebibyte }, 2)
  t.ok(await isWhole(), 'pieces are requested again')
  t.ok(
    (await bytesAt(driver, '/file', 5 * mebibyte, 10 * mebibyte)).equals(content.subarray(5 * mebibyte, 15 * mebibyte)),
  )
  t.equal((await bytesAt(driver, '/file', 20 * mebibyte)).length, 0, 'after the end')
  downloads.lifetime = -1
  await refuses(t, () => bytesAt(driver, '/file'), 'denied', 'a URL that is refused twice')
  downloads.lifetime = 60_000
  downloads.areRedirected = true
  t.ok(await isWhole(), 'from another host')
  const foreign = requests.matching(/^GET cache\.delivery/)
  t.ok(foreign.length > 0)
  t.notOk(
    foreign.some(({ headers }) => headers.cookie !== undefined || headers.referer !== undefined),
    'a host of somebody else gets no cookie',
  )
  await driver.close?.()
})

await t.test('a file of unknown size is not cut off after the first piece', async (t) => {
  const double = await startQuark(t)
  const content = randomBytes(9 * mebibyte)
  await existing(double, 'file', content)
  const first = { answer: 206, headers: { 'content-range': `bytes 0-${4 * mebibyte - 1}/*` } }
  const inject = () =>
    double.requests.inject(/^GET dl-/, { ...first, body: content.subarray(0, 4 * mebibyte).toString('latin1') })
  const driver = await openOn(double)
  inject()
  const read = await bytesAt(driver, '/file').then(
    (bytes) => bytes.length,
    (error: unknown) => (error as { code?: string }).code,
  )
  t.ok([content.length, 'unavailable'].includes(read ?? ''), String(read))
  await driver.close?.()
})

await t.test('a file keeps the name that is typed, also if it was shown with a part of its id', async (t) => {
  const double = await startQuark(t, { sameName: 'allow' })
  const driver = await openOn(double)
  await driver.mkdir(at('/folder'))
  await existing(double, 'a.txt', 'older')
  await wait(5)
  await existing(double, 'a.txt', 'newer')
  const shown = (await namesIn(driver, '/')).find((name) => name.includes('~')) ?? ''
  await driver.move?.(at(`/${shown}`), at(`/folder/${shown}`))
  t.same(await namesIn(driver, '/folder'), [shown])
  await driver.close?.()
})

await t.test('texts of the service are in no error', async (t) => {
  const double = await startQuark(t)
  const driver = await openOn(double)
  const body = '{"status":400,"code":31001,"message":"a secret"}'
  double.requests.inject(/^POST .*\/file\?/, { answer: 400, body })
  const error: unknown = await driver.mkdir(at('/folder')).catch((reason: unknown) => reason)
  t.match(error, { code: 'invalid', reason: /code 31001/ })
  t.notMatch(String(error), /secret/)
  await driver.close?.()
})

await t.test('clients are sent to transcoded videos, of Quark and only if that is wished', async (t) => {
  const double = await startQuark(t)
  for (const name of ['film.mp4', 'text.txt']) await existing(double, name, 'the film itself')
  const plain = await openOn(double)
  t.equal(typeof plain.directUrl, 'undefined')
  const driver = await openOn(double, { use_transcoding_address: true })
  const { url, headers } = (await driver.directUrl?.(at('/film.mp4')))!
  t.equal(headers, undefined)
  const answer = await fetch(url)
  t.match(await answer.text(), /^4k of /, 'in the best quality')
  await refuses(t, async () => driver.directUrl?.(at('/text.txt')), 'unsupported', 'what is no video')
  t.equal(await textAt(driver, '/film.mp4'), 'the film itself', 'the gateway sends the file')
  for (const opened of [plain, driver]) await opened.close?.()
})

await t.test('clients of UC are never redirected', async (t) => {
  const driver = await openOn(await startUc(t), { use_transcoding_address: true })
  t.equal(typeof driver.directUrl, 'undefined')
  t.notOk('use_transcoding_address' in ucType.fields, 'so the option is not offered')
  await driver.close?.()
})

await t.test('when the service asks for fewer requests, the whole storage waits', async (t) => {
  const double = await startQuark(t)
  const { requests } = double
  const driver = await openOn(double)
  requests.inject(lists, { answer: 429, headers: { 'retry-after': '1' } })
  const start = performance.now()
  await Promise.all([namesIn(driver, '/'), namesIn(driver, '/'), driver.usage?.()])
  const times = requests.log.filter(({ time }) => time > start).map(({ time }) => time)
  const refused = requests.log.find(({ status }) => status === 429)?.time ?? 0
  t.ok(times.filter((time) => time > refused + 50 && time < refused + 950).length === 0, 'no call in the pause')
  await driver.close?.()
})

await t.test('after a page of the firewall no call is made for minutes, also after a restart', async (t) => {
  const double = await startQuark(t)
  const { requests } = double
  const { state } = memoryState()
  const driver = await openOn(double, {}, { state })
  requests.inject(lists, { answer: 405, headers: { 'content-type': 'text/html' }, body: '<html>slow down</html>' })
  await refuses(t, () => namesIn(driver, '/'), 'unavailable', 'the page')
  const count = requests.log.length
  await refuses(t, () => namesIn(driver, '/'), 'unavailable', 'the next call')
  await refuses(t, () => openOn(double, {}, { state }), 'unavailable', 'a storage that is opened again')
  t.equal(requests.log.length, count, 'nothing was sent')
  await driver.close?.()
})

await t.test('the space of the account is reported', async (t) => {
  const double = await startQuark(t)
  await existing(double, 'file', 'hello')
  const driver = await openOn(double)
  t.match(await driver.usage?.(), { total: 10 * 1024 ** 4, used: 5, free: 10 * 1024 ** 4 - 5 })
  await driver.close?.()
})

await t.test('the staged files of a dead run are removed, when listings have shown them for long enough', async (t) => {
  const double = await startQuark(t)
  const instance = { name: 'own-run', isOver: (name: string) => name === 'dead-run' }
  const driver = await openOn(double, { listingLag: 20 }, { instance })
  for (const run of ['dead-run', 'own-run', 'other-run']) {
    await existing(double, `.~tidegate-part-${run}-0123456789ab`, run)
  }
  t.same(await namesIn(driver, '/'), [])
  t.equal(double.drive.members('0').length, 3, 'not at once: a listing may lag')
  await wait(250)
  t.same(await namesIn(driver, '/'), [])
  while (double.drive.members('0').length > 2) await wait(5)
  t.match(double.drive.members('0'), [{ name: /own-run/ }, { name: /other-run/ }], 'those of other runs are left')
  await driver.close?.()
})

await t.test('parts of lengths that no upload has are refused', async (t) => {
  const double = await startQuark(t)
  const driver = await openOn(double)
  for (const part_size of [0, -1, 1.5, 8e9, 1e300, 'x']) {
    const fields = ['task_id', 'auth_info', 'fid', 'upload_id', 'bucket', 'obj_key', 'upload_url']
    const data = Object.fromEntries(fields.map((name) => [name, 'x']))
    const body = JSON.stringify({ status: 200, code: 0, data, metadata: { part_size } })
    double.requests.inject(/upload\/pre/, { answer: 200, body })
    const before = double.requests.log.length
    await t.rejects(driver.write(file, hashed('content')), { code: 'unavailable' }, String(part_size))
    t.equal(double.requests.matching(/update\/hash/).length, 0)
    t.ok(double.requests.log.length > before)
  }
  await driver.close?.()
})
