/**
 * The driver AliyundriveOpen: tokens, limits, refusals, download URLs, and what goes wrong in changes of several steps.
 */
import t, { type Test } from 'tap'
import { aliyundriveFields, aliyundriveType } from '../../../drivers/aliyundrive/index.js'
import { accountLimits } from '../../../drivers/aliyundrive/drive-api.js'
import { openAliyundrive } from '../../../drivers/aliyundrive/open.js'
import { EgressGuard } from '../../../src/net/egress.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import { at, listed, namesIn, put, refuses, textAt, type WritableDriver } from '../../driver-conformance/subject.js'
import { client, documentedLimits, startAliyundrive } from '../../doubles/aliyundrive.js'
import { credentials, newMount, openMount, unlimited, type Double } from './mount.js'
import { testEnv } from '../env.js'
import { memoryState, mostInOneSecond } from '../lib/cloud/vendor.js'
import { until } from '../../until.js'

const json = { 'content-type': 'application/json' }
const calls = /POST openapi\.alipan\.com\/adrive/
const renewals = /(?:oauth\/access_token|ali_open\/token|renewapi)/

/** Opens a storage that has only a refresh token. */
function openTyped(double: Double, options: Readonly<Record<string, unknown>>, state = memoryState().state) {
  const typed = { refresh_token: double.tokens.refreshToken, remove_way: 'trash', ...options }
  const checked = checkOptions(aliyundriveFields, typed)
  return openAliyundrive(checked, testEnv({ state }), { limits: unlimited }) as Promise<WritableDriver>
}

/** The ways to renew tokens, by the host that is asked. */
const ways = {
  'openapi.alipan.com': { client_id: `${client.id} `, client_secret: `\t${client.secret}` },
  'api.oplist.org': { use_online_api: true },
  'api.oplist.org/': { use_online_api: true, alipan_type: 'alipanTV' },
  'api.nn.ci': { use_online_api: false },
}

for (const [host, options] of Object.entries(ways)) {
  await t.test(`tokens are renewed by ${host}, and the stored ones are used later`, async (t) => {
    const double = await startAliyundrive(t)
    const { state, values } = memoryState()
    const typed = { ...options, refresh_token: ` ${double.tokens.refreshToken}\n`, root_folder_id: 'root ' }
    const driver = await openTyped(double, typed, state)
    t.equal(double.tokens.refreshes, 1)
    t.equal(double.requests.matching(renewals)[0]?.host, host.replace('/', ''))
    await driver.close?.()
    t.match([...values.values()].join(''), double.tokens.refreshToken, 'the new token is stored')
    const again = await openTyped(double, typed, state)
    t.equal(double.tokens.refreshes, 1, 'and its access token is used')
    double.tokens.expire()
    t.same(await namesIn(again, '/'), [])
    t.equal(double.tokens.refreshes, 2, 'and then its refresh token')
    await again.close?.()
  })
}

for (const [host, options] of Object.entries(ways)) {
  await t.test(`a call waits for the pause that ${host} asks for, and one token is used`, async (t) => {
    const double = await startAliyundrive(t)
    const { driver } = await newMount(t, double, { options })
    double.tokens.expire()
    double.requests.inject(renewals, { answer: 429, headers: { 'retry-after': '1' } })
    t.same(await Promise.all([namesIn(driver, '/'), namesIn(driver, '/')]), [[], []])
    t.equal(double.tokens.refreshes, 1)
    const [refused, granted, ...more] = double.requests.matching(renewals)
    t.ok((granted?.time ?? 0) - (refused?.time ?? 0) >= 1000)
    t.same(more, [])
  })
}

await t.test("an application of one's own needs its id and its secret", async (t) => {
  const double = await startAliyundrive(t)
  for (const half of [{ client_id: client.id }, { client_secret: client.secret }]) {
    await t.rejects(openMount(double, { options: { ...credentials(double), ...half } }), {
      code: 'invalid',
      reason: /client_id and client_secret/,
    })
  }
  t.equal(double.tokens.refreshes, 0, 'no other service gets the token')
})

await t.test('ten calls with an expired token cause one refresh, for all storages with this token', async (t) => {
  const double = await startAliyundrive(t)
  const typed = credentials(double)
  const states = [memoryState(), memoryState()]
  const drivers = await Promise.all(
    states.map(({ state }) =>
      openMount(double, { options: { ...typed, client_id: client.id, client_secret: client.secret }, env: { state } }),
    ),
  )
  for (const driver of drivers) t.teardown(() => driver.close?.())
  double.tokens.expire()
  await Promise.all(Array.from({ length: 10 }, (_, index) => listed(drivers[index % 2]!, '/')))
  t.equal(double.tokens.refreshes, 1)
  for (const { values } of states) t.match([...values.values()].join(''), double.tokens.refreshToken)
})

await t.test('a token that cannot be stored is not used, and is not asked for again', async (t) => {
  const double = await startAliyundrive(t)
  const { state, failures } = memoryState()
  const { driver } = await newMount(t, double, { env: { state } })
  double.tokens.expire()
  failures.push(new Error('the disk is full'))
  await t.rejects(listed(driver, '/'))
  t.equal(double.tokens.refreshes, 1)
  t.same(await listed(driver, '/'), [])
  t.equal(double.tokens.refreshes, 1)
})

await t.test('a pair of tokens whose answer is lost is lost', async (t) => {
  const double = await startAliyundrive(t)
  const { driver } = await newMount(t, double)
  double.tokens.expire()
  double.requests.inject(renewals, { loseAnswer: true })
  await t.rejects(listed(driver, '/'), {
    code: 'denied',
    reason: 'the token server does not accept the refresh token of this storage',
  })
})

for (const [host, options] of Object.entries(ways)) {
  await t.test(`tokens of another account from ${host} are neither used nor stored`, async (t) => {
    const double = await startAliyundrive(t)
    const { state, values } = memoryState()
    const { driver } = await newMount(t, double, { options, env: { state } })
    double.tokens.subject = 'somebody-else'
    double.tokens.expire()
    const reason = 'the token server sent tokens of another account'
    await t.rejects(listed(driver, '/'), { code: 'denied', reason })
    t.equal(double.tokens.refreshes, 1)
    t.notMatch([...values.values()].join(''), double.tokens.refreshToken)
  })
}

await t.test('a new storage refuses tokens of another account', async (t) => {
  const double = await startAliyundrive(t)
  double.tokens.subject = 'somebody-else'
  const opening = openTyped(double, {})
  await t.rejects(opening, { code: 'denied', reason: 'the token server sent tokens of another account' })
  await refuses(t, () => openTyped(double, { refresh_token: 'no JSON Web Token' }), 'invalid', 'another kind of token')
})

await t.test('a refused refresh token is not sent again, and is in no error', async (t) => {
  const double = await startAliyundrive(t)
  const { driver } = await newMount(t, double)
  const old = double.tokens.refreshToken
  double.tokens.revokeConsent()
  const error: unknown = await listed(driver, '/').catch((reason: unknown) => reason)
  t.match(error, { code: 'denied', reason: 'the token server does not accept the refresh token of this storage' })
  t.notMatch(JSON.stringify(error) + String(error), old)
  await refuses(t, () => listed(driver, '/'), 'denied', 'again')
  t.equal(double.requests.matching(renewals).length, 1)
})

await t.test('a token server that fails is asked again, and one that asks for a pause is not', async (t) => {
  const double = await startAliyundrive(t)
  double.requests.inject(renewals, { answer: 500, headers: { 'content-type': 'application/json' }, body: '{}' }, 2)
  const driver = await openTyped(double, {})
  t.equal(double.requests.matching(renewals).length, 3)
  await driver.close?.()
  double.requests.inject(renewals, { answer: 429, headers: { 'retry-after': '60' } })
  await t.rejects(openTyped(double, {}), { code: 'unavailable', retryAfter: 60 })
  t.equal(double.requests.matching(renewals).length, 4)
})

await t.test('options that lead nowhere are errors', async (t) => {
  const double = await startAliyundrive(t)
  const open = (options: object) => openMount(double, { options: { ...options } })
  await refuses(t, () => open({ root_folder_id: 'none' }), 'invalid', 'a root that does not exist')
  const file = double.drives.create(double.drives.ids.resource, 'root', 'file', await double.contents.add('x'))
  await refuses(t, () => open({ root_folder_id: file.fileId }), 'invalid', 'a root that is a file')
  await refuses(t, () => open({ use_online_api: false, oauth_token_url: '' }), 'invalid', 'no way to renew tokens')
  t.throws(() => checkOptions(aliyundriveFields, { refresh_token: 'x' }), { code: 'invalid' })
  for (const type of ['default', 'backup'] as const) {
    const driver = await open({ drive_type: type })
    await driver.mkdir(at('/folder'))
    t.equal(double.drives.members(double.drives.ids[type], 'root').length, 1, type)
    t.same(await driver.usage?.(), { total: 1024 ** 4, used: 1, free: 1024 ** 4 - 1 })
    await driver.close?.()
  }
})

await t.test('the check of a storage asks for its root folder', async (t) => {
  const double = await startAliyundrive(t)
  const { driver, folder } = await newMount(t, double)
  t.match(await driver.stat(at('/')), { kind: 'folder' })
  double.drives.remove(folder)
  await refuses(t, () => driver.stat(at('/')), 'unavailable', 'a root that is removed')
  double.tokens.revokeConsent()
  await refuses(t, () => driver.stat(at('/')), 'denied', 'tokens that are void')
})

/** A tree of folders, with a file in each of the deepest ones. */
async function makeTree(double: Double, depth: number, parent: string): Promise<void> {
  const driveId = double.drives.ids.resource
  if (depth === 0) double.drives.create(driveId, parent, 'file', await double.contents.add('x'))
  else
    for (const name of ['a', 'b']) await makeTree(double, depth - 1, double.drives.create(driveId, parent, name).fileId)
}

async function walk(driver: WritableDriver, path = ''): Promise<number> {
  const entries = await listed(driver, path === '' ? '/' : path)
  const below = entries.map(({ kind, name }) =>
    kind === 'folder' ? walk(driver, `${path}/${name}`) : Promise.resolve(1),
  )
  return (await Promise.all(below)).reduce((sum, count) => sum + count, 0)
}

await t.test('the limits are those of the account, for all of its storages', async (t) => {
  const double = await startAliyundrive(t, { limits: documentedLimits })
  const mount = () => newMount(t, double, { tuning: { limits: accountLimits } })
  const mounts = await Promise.all([mount(), mount()])
  for (const { folder } of mounts) await makeTree(double, 2, folder.fileId)
  const files = await Promise.all(mounts.map(({ driver }) => walk(driver)))
  t.same(files, [4, 4])
  const timesOf = (which: RegExp) => double.requests.matching(which).map(({ time }) => time)
  t.ok(mostInOneSecond(timesOf(/openFile\/list/)) <= 4)
  await Promise.all(mounts.flatMap(({ driver }) => ['/a/a/file', '/b/b/file'].map((path) => textAt(driver, path))))
  t.ok(mostInOneSecond(timesOf(/getDownloadUrl/)) <= 1)
  t.notOk(
    double.requests.log.some(({ status }) => status === 429),
    'the service has refused nothing',
  )
})

await t.test('with two calls per second, a listing of a deep tree makes no more', async (t) => {
  const double = await startAliyundrive(t)
  const { driver, folder } = await newMount(t, double, { tuning: { limits: { ...unlimited, list: 2 } } })
  await makeTree(double, 2, folder.fileId)
  const before = double.requests.log.length
  t.equal(await walk(driver), 4)
  t.ok(mostInOneSecond(double.requests.log.slice(before).map(({ time }) => time)) <= 2)
})

for (const [what, fault] of Object.entries({
  429: { answer: 429, headers: { 'retry-after': '30' } },
  'a page of a firewall': { answer: 405, headers: { 'content-type': 'text/html' }, body: '<html>blocked</html>' },
})) {
  await t.test(`${what} stops all calls of the account`, async (t) => {
    const double = await startAliyundrive(t)
    const [one, other] = await Promise.all([newMount(t, double), newMount(t, double)])
    const before = double.requests.matching(calls).length
    double.requests.inject(calls, fault)
    await t.rejects(listed(one.driver, '/'), { code: 'unavailable' })
    await t.rejects(listed(other.driver, '/'), { code: 'unavailable' })
    await t.rejects(one.driver.mkdir(at('/x')), { code: 'unavailable' })
    t.equal(double.requests.matching(calls).length, before + 1)
  })
}

await t.test('answers have their meaning by their codes, and their texts are not shown', async (t) => {
  const double = await startAliyundrive(t)
  const { driver } = await newMount(t, double)
  for (const [status, code, expected] of [
    [404, 'NotFound.File', 'not_found'],
    [403, 'ForbiddenNoPermission.File', 'denied'],
    [400, 'InvalidParameter.Limit', 'invalid'],
    [403, 'QuotaExhausted.Drive', 'no_space'],
    [409, 'AlreadyExist.File', 'exists'],
    [500, 'InternalError', 'unavailable'],
    [200, 'NotFound.File', 'not_found'],
  ] as const) {
    const body = JSON.stringify({ code, message: 'a secret of the server' })
    double.requests.inject(/getSpaceInfo/, { answer: status, headers: { 'content-type': 'application/json' }, body }, 3)
    const error: unknown = await driver.usage?.().catch((reason: unknown) => reason)
    t.match(error, { code: expected }, code)
    t.notMatch(String(error), 'secret')
    double.requests.clearFaults()
  }
})

await t.test(
  'downloads: one link for a minute, a new one when it is refused, and no token is sent with them',
  async (t) => {
    const double = await startAliyundrive(t)
    const { driver } = await newMount(t, double)
    await put(driver, '/file', 'hello')
    t.equal(await textAt(driver, '/file'), 'hello')
    t.equal(await textAt(driver, '/file', 1, 3), 'ell')
    const links = () => double.requests.matching(/getDownloadUrl/).length
    t.match(await driver.directUrl?.(at('/file')), { url: /^https:\/\/cn-beijing-data/, headers: undefined })
    t.equal(links(), 1)
    double.urls.expire()
    t.equal(await textAt(driver, '/file'), 'hello')
    t.equal(links(), 2)
    const data = double.requests.matching(/^GET cn-beijing-data/)
    t.notOk(data.some(({ hasCredentials }) => hasCredentials))
    t.same(
      data.map(({ status }) => status),
      [200, 206, 403, 200],
    )
  },
)

await t.test("a link to a host that is not the vendor's passes the guard", async (t) => {
  const double = await startAliyundrive(t)
  const { driver } = await newMount(t, double, { env: { egress: new EgressGuard(() => '') } })
  await put(driver, '/file', 'hello')
  const body = JSON.stringify({ url: 'http://127.0.0.1:9/file' })
  double.requests.inject(/getDownloadUrl/, { answer: 200, headers: { 'content-type': 'application/json' }, body })
  await refuses(t, () => driver.read(at('/file')), 'denied', 'a host of this machine')
})

await t.test(
  'a live photo is downloaded in the format of the option by clients, and as it is by the gateway',
  async (t) => {
    const double = await startAliyundrive(t)
    for (const format of ['jpeg', 'mov']) {
      const { driver } = await newMount(t, double, { options: { livp_download_format: format } })
      await put(driver, '/photo.livp', 'a live photo')
      const url = await driver.directUrl?.(at('/photo.livp'))
      t.match(url?.url, new RegExp(`aliyundrive\\.net/${format}/`))
      t.equal(await textAt(driver, '/photo.livp'), 'a live photo')
    }
  },
)

// Changes of several steps

await t.test('a replaced file is removed by its id, also by the next run', async (t) => {
  const double = await startAliyundrive(t)
  const { state } = memoryState()
  const { driver, options, members, folder, driveId } = await newMount(t, double, { env: { state } })
  await put(driver, '/file', 'old')
  double.requests.inject(/recyclebin/, { answer: 500, headers: { 'content-type': 'application/json' }, body: '{}' }, 9)
  await put(driver, '/file', 'new')
  t.equal(members().length, 2, 'the removal has failed')
  t.equal(await textAt(driver, '/file'), 'new')
  await driver.close?.()
  double.requests.clearFaults()
  const again = await openMount(double, { options, env: { state } })
  t.teardown(() => again.close?.())
  await settled(t, () => members().length === 1)
  t.equal(await textAt(again, '/file'), 'new')
  // One that was moved away meanwhile is not touched.
  double.requests.inject(/recyclebin/, { answer: 500, headers: { 'content-type': 'application/json' }, body: '{}' }, 9)
  await put(again, '/file', 'newest')
  await again.close?.()
  const old = members().find(({ content }) => content?.size === 3)
  const elsewhere = double.drives.create(driveId, folder.fileId, 'elsewhere')
  if (old) double.drives.change(old, elsewhere.fileId, 'file')
  double.requests.clearFaults()
  const third = await openMount(double, { options, env: { state } })
  t.same(await namesIn(third, '/elsewhere'), ['file'])
  await settled(t, async () => (await state.get('replacements')) === undefined)
  t.same(await namesIn(third, '/elsewhere'), ['file'])
  await third.close?.()
})

/** Waits until something is so, which happens in the background. */
async function settled(t: Test, isSo: () => boolean | Promise<boolean>): Promise<void> {
  t.ok(await until(isSo), 'it is settled')
}

await t.test('a file whose completion is confirmed by nobody is looked for', async (t) => {
  const double = await startAliyundrive(t)
  const { driver, members } = await newMount(t, double)
  await put(driver, '/file', 'old')
  double.requests.inject(/openFile\/complete/, { loseAnswer: true })
  t.equal((await put(driver, '/file', 'the new one')).size, 11)
  t.equal(await textAt(driver, '/file'), 'the new one')
  t.equal(members().length, 1)
  const failed = { answer: 500, headers: { 'content-type': 'application/json' }, body: '{"code":"X"}' }
  double.requests.inject(/openFile\/complete/, failed, 3)
  await refuses(t, () => put(driver, '/file', 'third'), 'unavailable', 'a completion that has failed')
  t.equal(await textAt(driver, '/file'), 'the new one')
  await settled(t, () => members().length === 1)
})

await t.test('a file of another size than was sent replaces none, and does not stay', async (t) => {
  const double = await startAliyundrive(t)
  const { driver, members } = await newMount(t, double)
  await put(driver, '/file', 'old')
  for (const path of ['/file', '/new']) {
    double.uploads.storesInstead = await double.contents.add('torn')
    await refuses(t, () => put(driver, path, 'new content'), 'unavailable', path)
    double.uploads.storesInstead = undefined
    t.equal(await textAt(driver, '/file'), 'old')
    t.same(
      members().map(({ name }) => name),
      ['file'],
    )
  }
})

await t.test('an answer that says nothing is neither an empty folder nor a change', async (t) => {
  const double = await startAliyundrive(t)
  const { driver } = await newMount(t, double)
  await put(driver, '/file', 'old')
  await put(driver, '/other', 'other')
  const silent = { answer: 200, headers: { 'content-type': 'application/json' }, body: '{}' }
  double.requests.inject(/openFile\/list/, silent)
  await refuses(t, () => namesIn(driver, '/'), 'unavailable', 'a listing')
  double.requests.inject(/openFile\/update/, silent)
  await refuses(t, () => driver.move!(at('/other'), at('/file')), 'unavailable', 'a renaming')
  t.same([await textAt(driver, '/file'), await textAt(driver, '/other')], ['old', 'other'])
})

await t.test('a move that fails halfway is undone', async (t) => {
  const double = await startAliyundrive(t)
  const { driver } = await newMount(t, double)
  for (const folder of ['/one', '/two']) await driver.mkdir(at(folder))
  await put(driver, '/one/file', 'mine')
  await put(driver, '/two/other', 'old')
  const body = JSON.stringify({ code: 'ForbiddenNoPermission.File' })
  double.requests.inject(/openFile\/update/, { answer: 403, headers: { 'content-type': 'application/json' }, body })
  await refuses(t, async () => driver.move?.(at('/one/file'), at('/two/other')), 'denied', 'a rename that fails')
  t.same([await namesIn(driver, '/one'), await namesIn(driver, '/two')], [['file'], ['other']])
  t.equal(await textAt(driver, '/two/other'), 'old')
  await driver.move?.(at('/one/file'), at('/two/other'))
  t.same([await namesIn(driver, '/one'), await namesIn(driver, '/two')], [[], ['other']])
  t.equal(await textAt(driver, '/two/other'), 'mine')
})

await t.test('a move whose second step has an unknown outcome is completed by the next run', async (t) => {
  const double = await startAliyundrive(t)
  const { state } = memoryState()
  const { driver, options } = await newMount(t, double, { env: { state } })
  for (const folder of ['/one', '/two']) await driver.mkdir(at(folder))
  await put(driver, '/one/file', 'mine')
  await put(driver, '/two/other', 'old')
  double.requests.inject(/openFile\/update/, { loseAnswer: true })
  const isLost = () => double.requests.matching(/openFile\/update/).length > 0
  const moving = Promise.resolve(driver.move?.(at('/one/file'), at('/two/other')))
  while (!isLost()) await new Promise((resolve) => setTimeout(resolve, 1))
  double.requests.inject(/openFile\/list/, { answer: 500, headers: json, body: '{}' }, 99)
  await t.rejects(moving, { code: 'unavailable' })
  await driver.close?.()
  double.requests.clearFaults()
  const again = await openMount(double, { options, env: { state } })
  t.teardown(() => again.close?.())
  t.same([await namesIn(again, '/one'), await namesIn(again, '/two')], [[], ['other']])
  t.equal(await textAt(again, '/two/other'), 'mine')
})

await t.test('a move hides no other file meanwhile', async (t) => {
  const double = await startAliyundrive(t)
  const { driver } = await newMount(t, double)
  for (const folder of ['/one', '/two']) await driver.mkdir(at(folder))
  await put(driver, '/one/file', 'mine')
  await put(driver, '/two/file', 'another')
  await driver.move?.(at('/one/file'), at('/two/other'))
  const renames = double.requests.matching(/openFile\/(?:update|move)/).map(({ path }) => path.replace(/.*\//, ''))
  t.same(renames, ['update', 'move', 'update'], 'by way of a name of its own')
  t.equal(await textAt(driver, '/two/other'), 'mine')
  t.equal(await textAt(driver, '/two/file'), 'another')
})

await t.test('a folder that another program has moved away is not removed by the path that it had', async (t) => {
  const double = await startAliyundrive(t)
  const { driver, members, driveId } = await newMount(t, double)
  for (const folder of ['/folder', '/elsewhere']) await driver.mkdir(at(folder))
  await put(driver, '/folder/file', 'x')
  const [folder, elsewhere] = ['folder', 'elsewhere'].map((name) => members().find((each) => each.name === name))
  double.drives.change(folder!, elsewhere!.fileId, 'folder')
  await refuses(t, async () => driver.removeTree?.(at('/folder')), 'not_found', 'its former path')
  t.equal(double.drives.members(driveId, elsewhere!.fileId).length, 1)
})

await t.test('a copy hides no other file', async (t) => {
  const double = await startAliyundrive(t)
  const { driver } = await newMount(t, double)
  await driver.mkdir(at('/folder'))
  await put(driver, '/file', 'hello')
  await put(driver, '/folder/file', 'old')
  const copy = async (to: string) => driver.copy?.(at('/file'), at(to))
  await refuses(t, () => copy('/folder/other'), 'unsupported', 'its name is taken there')
  await copy('/folder/file')
  t.equal(await textAt(driver, '/folder/file'), 'hello')
  t.same(await namesIn(driver, '/folder'), ['file'])
  const body = JSON.stringify({ code: 'ForbiddenNoPermission.File' })
  double.requests.inject(/openFile\/update/, { answer: 403, headers: { 'content-type': 'application/json' }, body })
  await refuses(t, () => copy('/copy'), 'denied', 'a rename that fails')
  t.same(await namesIn(driver, '/'), ['file', 'folder'])
  t.equal(double.requests.bodyBytes(/^PUT /), 8)
})

await t.test('the type is registered under the name that clients know', async (t) => {
  t.equal(aliyundriveType.name, 'AliyundriveOpen')
  t.ok(Object.values(aliyundriveFields).length >= 15)
})
