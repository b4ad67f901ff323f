/** The driver for 115's official API: tokens, rates, refusals, lost answers, and what it sends where. */
import { createHash, randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { inspect } from 'node:util'
import t, { type Test } from 'tap'
import type { Source } from '../../../src/contract/call-options.js'
import type { DriverEnv, Instance } from '../../../src/contract/driver-env.js'
import { byteSource } from '../../../src/contract/sources.js'
import { thisInstance } from '../../../src/installation/instance.js'
import {
  at,
  listed,
  namesIn,
  put as plainPut,
  refuses,
  textAt,
  type WritableDriver,
} from '../../driver-conformance/subject.js'
import { startOpen115, type Open115 } from '../../doubles/115-open.js'
import { credentialsOf, openOn115 } from './open-mount.js'
import { memoryState } from '../lib/cloud/vendor.js'

/** A source that the core has hashed. */
function sourceOf(content: string | Buffer, sha1 = digestOf(content)): Source {
  return { ...byteSource(Buffer.from(content)), bytes: undefined, hashes: { sha1 } }
}

function digestOf(content: string | Buffer): string {
  return createHash('sha1').update(content).digest('hex')
}

async function put(driver: WritableDriver, path: string, content: string | Buffer) {
  return driver.write(at(path), sourceOf(content))
}

async function opened(t: Test, options: Readonly<Record<string, unknown>> = {}, env: Partial<DriverEnv> = {}) {
  const double = await startOpen115(t)
  const { state } = memoryState()
  const credentials = credentialsOf(double)
  const open = async (more: Partial<DriverEnv> = {}) => {
    const driver = await openOn115(double, { ...credentials, ...options }, { state, ...env, ...more })
    t.teardown(() => driver.close?.())
    return driver
  }
  return { double, state, open, driver: await open() }
}

const refreshes = ({ requests }: Open115) => requests.matching(/refreshToken/).length

await t.test('ten calls on an expired token cause one refresh, and its tokens are used after a restart', async (t) => {
  const saved: unknown[] = []
  const { double, driver, open } = await opened(t, {}, { save: async (options) => void saved.push(options) })
  await put(driver, '/file', 'hello')
  for (const code of [40140125, 99]) {
    double.account.expiredCode = code
    double.account.expireAccess()
    const before = refreshes(double)
    await Promise.all(Array.from({ length: 10 }, () => driver.stat(at('/file'))))
    t.equal(refreshes(double) - before, 1, `code ${code}`)
  }
  await driver.close?.()
  const again = await open()
  t.equal((await again.stat(at('/file'))).size, 5)
  t.equal(refreshes(double), 2, 'the stored tokens are used')
  t.same(saved, [], 'they are not options')
})

await t.test('a call waits for the pause that the token server asks for, and one refresh token is used', async (t) => {
  const { double, driver } = await opened(t)
  double.account.expireAccess()
  double.requests.inject(/refreshToken/, { answer: 429, headers: { 'retry-after': '1' } })
  t.same(await Promise.all([namesIn(driver, '/'), namesIn(driver, '/')]), [[], []])
  t.equal(double.account.refreshes, 1)
  const [refused, granted, ...more] = double.requests.matching(/refreshToken/)
  t.ok((granted?.time ?? 0) - (refused?.time ?? 0) >= 1000)
  t.same(more, [])
})

await t.test('refused tokens are final for a while, and no error has one of them', async (t) => {
  const { double, driver } = await opened(t)
  const { accessToken, refreshToken } = double.account
  double.account.revoke()
  for (let tries = 0; tries < 3; tries++) {
    await t.rejects(driver.stat(at('/file')), { code: 'denied' })
  }
  t.equal(refreshes(double), 1)
  const error: unknown = await driver.stat(at('/file')).catch((reason: unknown) => reason)
  const text = inspect(error, { depth: 10 })
  t.notOk(text.includes(accessToken) || text.includes(refreshToken))
  await refuses(t, () => openOn115(double, { access_token: 'x', refresh_token: 'y' }), 'denied', 'wrong tokens')
})

await t.test('tokens that are lost on their way sign the storage out, with a plain reason', async (t) => {
  const { double, driver } = await opened(t)
  double.account.expireAccess()
  double.requests.inject(/refreshToken/, { loseAnswer: true })
  await t.rejects(driver.stat(at('/file')), { code: 'unavailable' })
  t.equal(double.account.refreshes, 1, 'the server has replaced them')
  await t.rejects(driver.stat(at('/file')), { code: 'denied', reason: /does not accept the tokens/ })
})

await t.test('two storages with the same tokens do not sign each other out', async (t) => {
  const { double, driver, open } = await opened(t)
  const other = await open({ state: memoryState().state })
  double.account.expireAccess()
  await put(driver, '/one', '1')
  await put(other, '/two', '2')
  t.same(await namesIn(driver, '/'), ['one', 'two'])
  t.equal(double.account.refreshes, 1)
})

await t.test('calls keep the rate, and a server that asks for a pause gets one', async (t) => {
  const double = await startOpen115(t)
  for (const name of ['a', 'b', 'c']) {
    const folder = double.drive.create('0', name).id
    double.drive.create(folder, 'sub')
  }
  const driver = await openOn115(double, { limit_rate: 2 })
  const walk = async (path: string): Promise<void> => {
    const entries = await listed(driver, path)
    await Promise.all(entries.map(({ name }) => walk(`${path === '/' ? '' : path}/${name}`)))
  }
  await walk('/')
  const times = double.requests.matching(/proapi/).map(({ time }) => time)
  t.ok(times.length >= 8, `${times.length} calls`)
  for (const time of times) t.ok(times.filter((other) => other >= time && other < time + 1000).length <= 2)
  await driver.close?.()
})

for (const [what, fault] of Object.entries({
  'status 429': { answer: 429, headers: { 'retry-after': '30' } },
  'a page of the firewall': { answer: 405, headers: { 'content-type': 'text/html' }, body: '<html>阻断</html>' },
})) {
  await t.test(`${what} stops all calls of the storage`, async (t) => {
    const { double, driver, open } = await opened(t)
    double.requests.inject(/ufile/, fault)
    const before = double.requests.log.length
    const error = await listed(driver, '/').catch((reason: unknown) => reason)
    t.match(error, { code: 'unavailable', retryAfter: Number })
    await t.rejects(listed(driver, '/'), { code: 'unavailable' })
    await t.rejects(put(driver, '/file', 'x'), { code: 'unavailable' })
    await driver.close?.()
    await t.rejects(open(), { code: 'unavailable' }, 'opened again, it waits too')
    t.equal(double.requests.log.length - before, 1)
  })
}

await t.test('a file that 115 has moves no body, and a wrong digest leads to no other file', async (t) => {
  const { double, driver } = await opened(t)
  const content = randomBytes(300_000)
  await put(driver, '/file', content)
  const sent = double.uploads.oss.requests.bodyBytes()
  t.equal(sent, content.length)
  for (const status of [6, 7, 8] as const) {
    double.uploads.proofStatus = status
    await put(driver, `/again ${status}`, content)
  }
  t.equal(double.uploads.oss.requests.bodyBytes(), sent)
  t.equal(double.uploads.rapid, 3)
  const liar = sourceOf(randomBytes(300_000), digestOf(content))
  await t.rejects(driver.write(at('/liar'), liar), { code: 'invalid' })
  t.same(await namesIn(driver, '/'), ['again 6', 'again 7', 'again 8', 'file'])
})

await t.test('an upload in parts survives an expired token of the object store', async (t) => {
  const double = await startOpen115(t)
  const partLength = 1024 * 1024
  const driver = await openOn115(double, {}, {}, { listingLag: 0, absence: 0, partLength: () => partLength })
  const content = randomBytes(12 * partLength + 5)
  double.uploads.oss.requests.inject(/partNumber=3/, { loseAnswer: true })
  double.uploads.oss.requests.inject(/partNumber=5/, { cutAfter: 1000 })
  const timer = setInterval(() => {
    if (double.uploads.oss.requests.matching(/partNumber=7/).length > 0) {
      clearInterval(timer)
      double.uploads.oss.expireTokens()
    }
  }, 1)
  await put(driver, '/large', content)
  clearInterval(timer)
  t.equal((await driver.stat(at('/large'))).hashes?.sha1, digestOf(content))
  t.ok(double.requests.matching(/get_token/).length >= 2)
  const numbers = double.uploads.oss.requests
    .matching(/^PUT/)
    .filter(({ status }) => status === 200)
    .map(({ path }) => Number(/partNumber=(\d+)/.exec(path)?.[1]))
  t.same(
    numbers,
    [...numbers].sort((one, other) => one - other),
    'in order',
  )
  await driver.close?.()
})

await t.test('an upload whose last answer is lost is found, and one that is refused leaves nothing', async (t) => {
  const { double, driver } = await opened(t)
  await put(driver, '/file', 'old')
  double.uploads.oss.requests.inject(/^PUT/, { loseAnswer: true })
  await put(driver, '/file', 'new content')
  t.equal(await textAt(driver, '/file'), 'new content')
  double.uploads.failsCallback = true
  await t.rejects(put(driver, '/file', 'newer content'), { code: 'invalid' })
  t.equal(await textAt(driver, '/file'), 'new content')
  t.same(await namesIn(driver, '/'), ['file'])
  t.equal(double.drive.members('0').length, 1)
})

await t.test('a file is replaced without a moment in which there is none', async (t) => {
  const { double, driver, open } = await opened(t)
  await put(driver, '/file', 'old')
  const seen = new Set<number>()
  const watch = setInterval(() => {
    seen.add(double.drive.members('0').filter(({ name }) => name === 'file').length)
  }, 0)
  await put(driver, '/file', 'new')
  clearInterval(watch)
  t.notOk(seen.has(0))
  t.same(
    double.drive.members('0').map(({ name }) => name),
    ['file'],
  )

  // The removal of the old file fails, and the next run makes up for it.
  double.requests.inject(/ufile\/delete/, { answer: 500 }, 99)
  await put(driver, '/file', 'newer')
  t.equal(await textAt(driver, '/file'), 'newer')
  t.equal(double.drive.members('0').length, 2)
  await driver.close?.()
  double.requests.clearFaults()
  const again = await open()
  t.equal(await textAt(again, '/file'), 'newer')
  t.equal(double.drive.members('0').length, 1)

  // The rename is refused: the old file stays.
  double.requests.inject(/ufile\/update/, { answer: 400, body: '{"state":false,"code":1001}' })
  await t.rejects(put(again, '/file', 'refused'), { code: 'invalid' })
  t.equal(await textAt(again, '/file'), 'newer')
  // The answer to the rename is lost: it is made again.
  double.requests.inject(/ufile\/update/, { loseAnswer: true })
  await put(again, '/file', 'newest')
  t.equal(await textAt(again, '/file'), 'newest')
})

await t.test('what a killed run has left is hidden, and removed unless it may be resumed', async (t) => {
  const own = thisInstance()
  const instance: Instance = { ...own, name: own.name, isOver: (name) => name === 'dead' }
  const { double, open, driver } = await opened(t, {}, { instance })
  const dead = double.drive.create('0', '.~tidegate-part-dead-0123456789ab', await double.contents.add('half'))
  const kept = double.drive.create('0', '.~tidegate-part-dead-ba9876543210', await double.contents.add('kept'))
  const resumable = await open({ resumableUploads: async () => [JSON.stringify({ file: { name: kept.name } })] })
  t.same(await namesIn(resumable, '/'), [])
  while (double.drive.get(dead.id)) await wait(5)
  t.ok(double.drive.get(kept.id), 'its upload may be resumed')
  await namesIn(driver, '/')
  while (double.drive.get(kept.id)) await wait(5)
})

await t.test('a move to another folder and name is completed or undone', async (t) => {
  const { double, driver } = await opened(t)
  await driver.mkdir(at('/folder'))
  await put(driver, '/one', '1')
  await put(driver, '/folder/one', 'another')
  await driver.move?.(at('/one'), at('/folder/two'))
  t.same(await namesIn(driver, '/folder'), ['one', 'two'])
  double.requests.inject(/ufile\/move/, { answer: 400, body: '{"state":false,"code":20022}' })
  await t.rejects(async () => driver.move?.(at('/folder/two'), at('/three')), { code: 'invalid' })
  t.same(await namesIn(driver, '/folder'), ['one', 'two'])
  t.same(await namesIn(driver, '/'), ['folder'])
  await driver.move?.(at('/folder/two'), at('/folder/one'))
  t.same(await namesIn(driver, '/folder'), ['one'])
  t.equal(await textAt(driver, '/folder/one'), '1')
})

await t.test('links are bound to the client, and no token goes to another host', async (t) => {
  const { double, driver } = await opened(t)
  await put(driver, '/file', 'hello')
  const own = await driver.directUrl?.(at('/file'), { userAgent: 'a client/1.0' })
  t.equal(own?.headers, undefined)
  t.same(own?.until, new Date(Number(new URL(own?.url ?? '').searchParams.get('t')) * 1000), 'its expiry, exactly')
  t.equal(await fetchAs(own?.url, 'a client/1.0'), 'hello')
  t.equal(await fetchAs(own?.url, 'another/1.0'), undefined)
  const unknown = await driver.directUrl?.(at('/file'))
  t.equal(await fetchAs(unknown?.url, unknown?.headers?.['user-agent'] ?? ''), 'hello')
  t.equal(await textAt(driver, '/file', 1, 3), 'ell')
  const elsewhere = double.requests.log.filter(({ host }) => !host.endsWith('api.115.com'))
  t.ok(elsewhere.length > 0)
  t.notOk(elsewhere.some(({ hasCredentials }) => hasCredentials))
})

async function fetchAs(url: string | undefined, userAgent: string): Promise<string | undefined> {
  const response = await fetch(url ?? '', { headers: { 'user-agent': userAgent } })
  return response.ok ? response.text() : undefined
}

await t.test('a link that is refused is asked for once more, and a cut download is an error', async (t) => {
  const { double, driver } = await opened(t)
  const content = randomBytes(2_000_000)
  await put(driver, '/file', content)
  for (const answer of [403, 404]) {
    double.requests.inject(/115cdn/, { answer })
    t.equal(await textAt(driver, '/file', 0, 5), content.subarray(0, 5).toString())
    double.requests.inject(/115cdn/, { answer }, 2)
    await t.rejects(textAt(driver, '/file', 0, 5), { code: 'unavailable' }, 'the API says that the file exists')
  }
  double.requests.inject(/115cdn/, { cutAnswerAfter: 100_000 })
  await t.rejects(textAt(driver, '/file'), { code: 'unavailable' })
})

await t.test('a part of another file is not taken for one of the file', async (t) => {
  const { double, driver } = await opened(t)
  await put(driver, '/file', 'hello')
  const body = 'some'
  const headers = { 'content-range': 'bytes 1-4/20', 'content-length': body.length }
  double.requests.inject(/115cdn/, { answer: 206, headers, body })
  await t.rejects(driver.read(at('/file'), { offset: 1, length: 4 }), { code: 'unavailable' })
  t.equal(await textAt(driver, '/file'), 'hello')
})

await t.test('a long listing is read by pages, however large they are', async (t) => {
  const { double, open } = await opened(t, { page_size: 7, order_by: 'file_name', order_direction: 'desc' })
  const names = Array.from({ length: 30 }, (_, index) => `file ${String(index).padStart(2, '0')}`)
  for (const name of names) double.drive.create('0', name, await double.contents.add(name))
  const driver = await open()
  t.same(await namesIn(driver, '/'), names)
  t.match(double.requests.log.at(-1)?.path, /o=file_name&asc=0/)
})

await t.test('a listing without a count is read to its end', async (t) => {
  const { double, driver } = await opened(t)
  const list = (names: readonly string[]) => {
    const data = names.map((name) => ({ fid: name, pid: '0', fc: '0', fn: name }))
    double.requests.inject(/ufile\/files/, { answer: 200, body: JSON.stringify({ state: true, cid: '0', data }) })
  }
  for (const names of [['a', 'b'], ['c'], []]) list(names)
  t.same(await namesIn(driver, '/'), ['a', 'b', 'c'])
})

for (const listsRoot of [true, false]) {
  const answer = listsRoot ? 'the root' : 'nothing'
  await t.test(`a folder that is gone is not empty, if 115 lists ${answer} in its place`, async (t) => {
    const double = await startOpen115(t)
    double.files.listsRootForMissing = listsRoot
    const root = double.drive.create('0', 'root').id
    const driver = await openOn115(double, { root_folder_id: root })
    await driver.mkdir(at('/folder'))
    t.same(await namesIn(driver, '/folder'), [])
    double.drive.remove(double.drive.members(root)[0]?.id ?? '')
    await refuses(t, () => listed(driver, '/folder'), 'not_found', 'a listing')
    await refuses(t, () => put(driver, '/folder/file', 'x'), 'parent_missing', 'a new file')
    double.drive.remove(root)
    await refuses(t, () => listed(driver, '/'), 'unavailable', 'a listing of the root')
    await refuses(t, () => driver.stat(at('/')), 'unavailable', 'a check of the storage')
    await driver.close?.()
  })
}

await t.test('many new files in a large folder take few calls each', async (t) => {
  const double = await startOpen115(t)
  for (let index = 0; index < 1000; index++) double.drive.create('0', `old ${index}`, await double.contents.add('x'))
  const driver = await openOn115(double, {}, {}, {})
  await refuses(t, () => driver.stat(at('/new 0')), 'not_found', 'as the core looks first')
  const before = double.requests.log.length
  for (let index = 0; index < 20; index++) await put(driver, `/new ${index}`, `content ${index}`)
  const calls = double.requests.log.length - before
  t.ok(calls <= 20 * 4 + 1, `${calls} calls for 20 files`)
})

await t.test('wrong options and answers of another API are errors', async (t) => {
  const { double, driver } = await opened(t)
  await refuses(t, () => openOn115(double, { root_folder_id: '12345' }), 'invalid', 'a missing root')
  await refuses(t, () => openOn115(double, { root_folder_id: 'x' }), 'invalid', 'a root that is no id')
  const file = double.drive.create('0', 'file', await double.contents.add('x'))
  await refuses(t, () => openOn115(double, { root_folder_id: file.id }), 'invalid', 'a root that is a file')
  double.requests.inject(/ufile\/files/, { answer: 200, body: '[]' })
  await refuses(t, () => listed(driver, '/'), 'unavailable', 'an answer without a state')
  double.requests.inject(/ufile\/files/, { answer: 200, body: '{"state":false,"code":777,"message":"x"}' })
  await refuses(t, () => listed(driver, '/'), 'unavailable', 'an unknown code')
  await refuses(t, () => plainPut(driver, '/x\ny', 'x'), 'unavailable', 'a name that 115 refuses')
})

await t.test('usage is that of the account', async (t) => {
  const { driver } = await opened(t)
  await put(driver, '/file', 'hello')
  const usage = await driver.usage?.()
  t.same([usage?.used, (usage?.total ?? 0) - (usage?.free ?? 0)], [5, 5])
})

await t.test('downloads that 115 makes are added, found and removed', async (t) => {
  const { double, driver } = await opened(t)
  await driver.mkdir(at('/folder'))
  const folder = at('/folder')
  const address = 'https://example.org/a/file.iso'
  const id = (await driver.addDownload?.(folder, address)) ?? ''
  const find = async () => driver.findDownload?.(folder, { id, address })
  t.match(await find(), { id, state: 'waiting', doneBytes: 0 })
  await t.rejects(async () => driver.addDownload?.(folder, address), { code: 'exists' })
  await t.rejects(async () => driver.addDownload?.(folder, 'nonsense'), { code: 'invalid' })
  double.offline.quota = 0
  await t.rejects(async () => driver.addDownload?.(folder, 'https://example.org/b'), { code: 'no_space' })
  double.offline.quota = 100
  // The one that is looked for is on another page.
  for (let index = 0; index < 40; index++) await driver.addDownload?.(folder, `https://example.org/${index}`)
  double.offline.progress(address, 50)
  t.match(await find(), { state: 'running' })
  double.offline.finish(address, 'file.iso', await double.contents.add('content'))
  t.match(await find(), { state: 'done', name: 'file.iso', totalBytes: 7, doneBytes: 7 })
  t.equal(await driver.findDownload?.(at('/'), { id, address }), undefined, 'of another folder')
  await driver.removeDownload?.(folder, id)
  t.equal(await find(), undefined)
  t.equal(await textAt(driver, '/folder/file.iso'), 'content')
  await driver.removeDownload?.(folder, id)
  double.offline.fail('https://example.org/7')
  const failed = await driver.findDownload?.(folder, { address: 'https://example.org/7' })
  t.match(failed, { state: 'failed', error: { code: 'unavailable' } })
})

await t.test('a listing without its list is not an empty folder', async (t) => {
  const { double, driver } = await opened(t)
  await put(driver, '/file', 'hello')
  double.requests.inject(/ufile\/files/, { answer: 200, body: '{"state":true,"cid":"0","count":0}' })
  await refuses(t, () => listed(driver, '/'), 'unavailable', 'no list')
  t.same(await namesIn(driver, '/'), ['file'])
})
