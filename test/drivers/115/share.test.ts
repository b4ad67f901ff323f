/**
 * The driver for shares of 115 keeps the contract on a double of the API, and says plainly what is wrong with a share.
 */
import t, { type Test } from 'tap'
import { share115Fields, share115Type } from '../../../drivers/115/index.js'
import type { DriverEnv } from '../../../src/contract/driver-env.js'
import { EgressGuard } from '../../../src/net/egress.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import { conformance } from '../../driver-conformance/driver.js'
import { at, listed, namesIn, refuses, textAt } from '../../driver-conformance/subject.js'
import { start115 } from '../../doubles/115/index.js'
import { failureOf, fetchDirectUrl } from './mount.js'
import { testEnv } from '../env.js'
import { memoryState, mostInOneSecond } from '../lib/cloud/vendor.js'

type Options = Readonly<Record<string, unknown>>

/** A share of a folder with files, of a file, and of an empty folder. */
async function shared(t: Test) {
  const double = await start115(t)
  const { drive, account, shares } = double
  for (const name of ['a', 'b', 'c']) await double.putFile(`/files/deep/${name}.bin`, `content of ${name}`.repeat(100))
  await double.putFile('/files/empty', '')
  await double.putFile('/single.txt', 'a single file')
  double.makeFolder('/nothing')
  await double.putFile('/private', 'not shared')
  const items = ['/files', '/single.txt', '/nothing'].map((path) => double.itemAt(path).id)
  const share = shares.share('sw1', 'ab12', items)
  const cookie = account.signIn()
  const open = async (options: Options = {}, env: Partial<DriverEnv> = {}) => {
    const all = { cookie, share_code: 'sw1', receive_code: 'ab12', limit_rate: 0, page_size: 2, ...options }
    const driver = await share115Type.open(
      checkOptions(share115Fields, all),
      testEnv({ egress: new EgressGuard(() => ''), ...env }),
    )
    t.teardown(() => driver.close?.())
    return driver
  }
  return { double, drive, share, open, cookie }
}

await t.test('115 Share keeps the contract', async (t) => {
  const { open } = await shared(t)
  await conformance(t, {
    type: share115Type,
    open: async () => ({ driver: await open(), fetchDirectUrl, dispose: async () => undefined }),
  })
})

await t.test('a share is read over either host, page by page', async (t) => {
  const { double, open } = await shared(t)
  for (const hasNewHost of [true, false]) {
    double.shares.hasNewHost = hasNewHost
    const driver = await open()
    t.same(await namesIn(driver, '/'), ['files', 'nothing', 'single.txt'])
    t.same(await namesIn(driver, '/files/deep'), ['a.bin', 'b.bin', 'c.bin'])
    t.equal(await textAt(driver, '/single.txt'), 'a single file')
    t.equal(await textAt(driver, '/files/empty'), '')
    await refuses(t, () => driver.stat(at('/private')), 'not_found', 'what is not shared')
  }
  t.same(double.downloads.withAccountCookies, [])
})

await t.test('a folder of the share may be the root, and 0 is the whole share', async (t) => {
  const { double, open } = await shared(t)
  const root_folder_id = double.itemAt('/files/deep').id
  t.same(await namesIn(await open({ root_folder_id }), '/'), ['a.bin', 'b.bin', 'c.bin'])
  t.equal((await namesIn(await open({ root_folder_id: '0' }), '/')).length, 3)
})

await t.test('links are for one User-Agent, and may demand a cookie', async (t) => {
  const { double, open } = await shared(t)
  const driver = await open()
  for (const condition of ['', '1', '3'] as const) {
    double.downloads.condition = condition
    t.equal(await textAt(driver, '/single.txt'), 'a single file')
    const url = await driver.directUrl?.(at('/single.txt'), { userAgent: 'a player' })
    if (!url) continue
    t.equal(url.headers !== undefined, condition === '3')
    t.equal(await fetchDirectUrl(url, { userAgent: 'a player' }), 'a single file')
  }
  t.same(double.downloads.withAccountCookies, [])
})

await t.test('what is wrong with a share is said, in words that clients look for', async (t) => {
  const { share, open } = await shared(t)
  for (const hasNumericState of [true, false]) {
    share.hasNumericState = hasNumericState
    t.equal((await listed(await open(), '/')).length, 3, 'the state is a number or a text')
  }
  for (const answersInvalidWith of [true, false]) {
    Object.assign(share, { state: 7, answersInvalidWith })
    const error = await failureOf(open())
    t.match(error, { code: 'denied', reason: 'failed to get share snap: share expired (state 7)' })
  }
  share.state = 4
  t.match(await failureOf(open()), { reason: 'failed to get share snap: share cancelled (state 4)' })
  share.state = 1
  t.match(await failureOf(open({ receive_code: 'zzzz' })), { code: 'denied', reason: /^failed to get share snap: / })
  t.match(await failureOf(open({ share_code: 'none' })), {
    code: 'denied',
    reason: 'failed to get share snap: there is no such share',
  })
})

await t.test('the check of a storage asks whether the share can be read', async (t) => {
  const { share, open } = await shared(t)
  const driver = await open()
  t.match(await driver.stat(at('/')), { kind: 'folder' })
  share.state = 7
  await refuses(t, () => driver.stat(at('/')), 'denied', 'an expired share')
})

await t.test('the share is asked for first, then the sign-in is checked', async (t) => {
  const { double, open } = await shared(t)
  t.match(await failureOf(open({ cookie: 'UID=1; CID=2; SEID=3' })), { code: 'denied' })
  const calls = double.requests.log.map(({ path }) => path.replace(/\?.*/, ''))
  t.ok(calls.indexOf('/webapi/share/snap') < calls.indexOf('/'), calls.join(' '))
  t.match(await failureOf(open({ cookie: '' })), { code: 'invalid', reason: /cookie/ })
})

await t.test('calls are limited, and the firewall stops them', async (t) => {
  const { double, open } = await shared(t)
  const { state } = memoryState()
  const driver = await open({ limit_rate: 2 }, { state })
  await listed(driver, '/files/deep')
  // A busy machine delays calls differently.
  t.ok(mostInOneSecond(double.requests.log.map(({ time }) => time * 1.1)) <= 2)
  double.block(10_000)
  await refuses(t, () => listed(driver, '/files'), 'unavailable', 'the page of the firewall')
  const before = double.requests.log.length
  for (let index = 0; index < 5; index++) await refuses(t, () => listed(driver, '/'), 'unavailable', 'the pause')
  t.equal(double.requests.log.length, before)
})
