/** From where, until when and with what an account can be used: every way in asks the same. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import '../fast-hashes.js'
import { http } from '../../protocols/http/index.js'
import { sftp } from '../../protocols/sftp/index.js'
import { webdav } from '../../protocols/webdav/index.js'
import type { Accounts } from '../../src/accounts/accounts.js'
import { admissionRefusal, checkNetworks, type AdmissionRequest } from '../../src/accounts/admission.js'
import { lockout } from '../../src/accounts/limiter.js'
import { isGatewayError } from '../../src/base/errors.js'
import { asPath, root } from '../../src/base/path.js'
import type { UserRow } from '../../src/database/tables/accounts.js'
import { userRow } from '../database/store-rows.js'
import { lacks } from '../programs.js'
import { until } from '../until.js'
import { credentials, fixture } from './accounts-fixture.js'

const inside = '192.0.2.7'
const outside = '198.51.100.7'
const allowFrom = ['192.0.2.0/24', '2001:db8::/32']
const secret = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
const refusedNetwork = /cannot be used from this network/
const expired = /has expired/

type WayIn = (address: string) => Promise<unknown>
type WayInName =
  | 'sign-in'
  | 'sign-in to the console'
  | 'password'
  | 'app password'
  | 'token'
  | 'token over WebDAV'
  | 'console session'
  | 'confirmation'
  | 'key'

void t.test('one function decides, in this order', (t) => {
  const required = { requiresTwoStep: true }
  const free = { requiresTwoStep: false }
  const noon = new Date(12_000)
  const all = { disabled: true, expires: noon, allowFrom, otpSecret: '' } as const
  const enabled = { ...all, disabled: false }
  const lasting = { ...enabled, expires: undefined }
  const use: AdmissionRequest = { now: 12_000, address: outside, purpose: 'use' }
  const table: readonly [
    Partial<UserRow>,
    { readonly requiresTwoStep: boolean },
    AdmissionRequest,
    string | undefined,
  ][] = [
    [{}, free, use, undefined],
    [all, required, use, 'account_disabled'],
    [enabled, required, use, 'account_expired'],
    [enabled, free, { ...use, now: 11_999, address: inside }, undefined],
    [lasting, required, use, 'network_refused'],
    [lasting, required, { ...use, address: undefined }, 'network_refused'],
    [lasting, required, { ...use, address: '' }, 'network_refused'],
    [lasting, required, { ...use, address: 'unknown' }, 'network_refused'],
    [lasting, required, { ...use, address: inside }, 'two_step_set_up_required'],
    [lasting, required, { ...use, address: '2001:db8:1::1' }, 'two_step_set_up_required'],
    [lasting, free, { ...use, address: '2001:db9::1' }, 'network_refused'],
    [lasting, required, { ...use, address: inside, purpose: 'set-up' }, undefined],
    [lasting, required, { ...use, purpose: 'set-up' }, 'network_refused'],
    [lasting, required, { now: 12_000, purpose: 'later' }, undefined],
    [enabled, required, { now: 12_000, purpose: 'later' }, 'account_expired'],
    [all, required, { now: 0, purpose: 'later' }, 'account_disabled'],
    [{ otpSecret: secret }, required, use, undefined],
    [{ role: 'guest' }, required, use, undefined],
    [{ role: 'admin' }, required, use, 'two_step_set_up_required'],
  ]
  for (const [fields, membership, request, expected] of table) {
    const title = JSON.stringify([fields, membership, request])
    t.equal(admissionRefusal({ ...userRow({}), ...fields }, membership, request), expected, title)
  }
  t.end()
})

void t.test('networks are addresses and networks in CIDR notation, at most 100', (t) => {
  t.same(checkNetworks([' 10.0.0.1', '2001:DB8::/32', '10.0.0.1']), ['10.0.0.1', '2001:db8::/32'])
  for (const wrong of [
    '',
    'office',
    '10.0.0.1/33',
    '10.0.0',
    'fe80::1%eth0',
    '10.0.0.1,10.0.0.2',
    '10.0.0.0/8/8',
    '::/129',
  ]) {
    t.throws(() => checkNetworks([wrong]), { code: 'invalid' }, wrong)
  }
  const many = (count: number) => Array.from({ length: count }, (_, index) => `10.0.0.${index}`)
  t.equal(checkNetworks(many(100)).length, 100)
  t.throws(() => checkNetworks(many(101)), { code: 'invalid', reason: /at most 100 networks/ })
  t.end()
})

/** The ways in of ada, each from an address. */
async function waysIn(
  t: Parameters<typeof fixture>[0],
  accounts: Accounts,
  ada: UserRow,
): Promise<Readonly<Record<WayInName, WayIn>>> {
  const file = join(t.testdir(), 'key')
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', file])
  const key = await accounts.keys.add(ada.id, 'laptop', readFileSync(`${file}.pub`, 'utf8'))
  const app = { name: 'phone', protocols: ['webdav', 'sftp'], readOnly: false }
  const { password } = await accounts.appPasswords.add(ada.id, app)
  const token = await accounts.signIn.issueToken(credentials({ address: inside }))
  const session = await accounts.signIn.openConsoleSession(credentials({ address: inside }), { userAgent: '' })
  return {
    'sign-in': (address: string) => accounts.signIn.issueToken(credentials({ address })),
    'sign-in to the console': (address: string) =>
      accounts.signIn.openConsoleSession(credentials({ address }), { userAgent: '' }),
    password: (address: string) => accounts.signIn.byPassword(credentials({ address }), webdav),
    'app password': (address: string) => accounts.signIn.byPassword(credentials({ address, plain: password }), sftp),
    token: (address: string) => accounts.tokens.principalOf(token, http, { address }),
    'token over WebDAV': (address: string) => accounts.tokens.principalOf(token, webdav, { address }),
    'console session': (address: string) => accounts.consoleSessions.principalOf(session.secret, http, { address }),
    confirmation: (address: string) => accounts.signIn.confirmConsoleSession(session.secret, credentials({ address })),
    key: (address: string) => accounts.signIn.byKey(key, sftp, address),
  }
}

const keygen = { skip: lacks('ssh-keygen') }

void t.test('every way in is refused from another network, at each request', keygen, async (t) => {
  const { accounts, ada } = await fixture(t)
  const ways = await waysIn(t, accounts, ada)
  for (const [title, way] of Object.entries(ways)) await t.resolves(way(outside), title)
  await accounts.users.update(ada.id, { allowFrom })
  for (const [title, way] of Object.entries(ways)) {
    await t.resolves(way(inside), title)
    await t.rejects(way(outside), refusedNetwork, title)
    await t.rejects(way(outside), refusedNetwork, `${title}, again`)
    await t.resolves(way('2001:db8::1'), title)
  }
  await t.rejects(
    accounts.tokens.principalOf(await accounts.signIn.issueToken(credentials({ address: inside })), http),
    refusedNetwork,
  )
})

void t.test('every way in ends with the account, and what is open ends at that time', keygen, async (t) => {
  const { accounts, ada, clock } = await fixture(t)
  const ways = await waysIn(t, accounts, ada)
  await accounts.users.update(ada.id, { expires: new Date(clock.time + 1000) })
  const open = [
    await accounts.signIn.byPassword(credentials(), webdav),
    accounts.principals.forTask(ada.id),
    accounts.principals.forSignature(ada.id, http, inside),
    await accounts.tokens.principalOf(await accounts.signIn.issueToken(credentials()), http),
  ]
  for (const [title, way] of Object.entries(ways)) await t.resolves(way(inside), title)
  t.ok(open.every(({ signal }) => !signal.aborted))
  clock.time += 1000
  for (const [title, way] of Object.entries(ways)) await t.rejects(way(inside), expired, title)
  t.throws(() => accounts.principals.forTask(ada.id), { code: 'unauthenticated', detail: 'account_expired' })
  t.throws(() => accounts.principals.forSignature(ada.id, http, inside), {
    code: 'unauthenticated',
    detail: 'account_expired',
  })
  t.ok(await until(() => open.every(({ signal }) => signal.aborted)))
  t.match(open[0]?.signal.reason, { code: 'unauthenticated', detail: 'account_expired' })
  await accounts.users.update(ada.id, { expires: null })
  await t.resolves(accounts.signIn.byPassword(credentials(), webdav), 'until the end is taken away')
})

void t.test('a later end of another account changes nothing', async (t) => {
  const { accounts, ada, admin, clock } = await fixture(t)
  await accounts.users.update(ada.id, { expires: new Date(clock.time + 1000) })
  const short = await accounts.signIn.byPassword(credentials(), webdav)
  const long = accounts.principals.forTask(admin.id)
  const { id } = await accounts.users.create({
    ...userRow({ username: 'bob' }),
    password: 'x',
    expires: new Date(clock.time + 1e9),
  })
  const other = accounts.principals.forTask(id)
  clock.time += 1000
  t.ok(await until(() => short.signal.aborted))
  t.equal(long.signal.aborted, false)
  t.equal(other.signal.aborted, false)
  clock.time += 1e9
})

void t.test('a change of networks or of the end ends what is open', async (t) => {
  const { accounts, ada, clock } = await fixture(t)
  for (const changes of [
    { allowFrom: [inside] },
    { expires: new Date(clock.time + 1e9) },
    { expires: null },
    { allowFrom: [] },
  ]) {
    const principal = await accounts.signIn.byPassword(credentials({ address: inside }), sftp)
    await accounts.users.update(ada.id, changes)
    t.equal(principal.signal.aborted, true, JSON.stringify(changes))
  }
  const principal = await accounts.signIn.byPassword(credentials({ address: inside }), sftp)
  await accounts.users.update(ada.id, { allowFrom: [], expires: null })
  t.equal(principal.signal.aborted, false, 'no change')
})

void t.test('a wrong password is told as from everywhere, and a right one does not feed the limiter', async (t) => {
  const { accounts, ada, clock } = await fixture(t)
  for (const changes of [{ allowFrom }, { allowFrom: [], expires: new Date(clock.time) }]) {
    await accounts.users.update(ada.id, changes)
    const address = `203.0.113.${changes.allowFrom.length}`
    const wrong = { code: 'unauthenticated', detail: 'wrong_credentials' }
    await t.rejects(accounts.signIn.issueToken(credentials({ address, plain: 'wrong' })), wrong)
    await t.rejects(accounts.signIn.issueToken(credentials({ address, username: 'nobody' })), wrong)
    for (let tries = 0; tries < lockout.failures + 2; tries++) {
      await t.rejects(accounts.signIn.issueToken(credentials({ address })), { code: 'denied' })
      await t.rejects(accounts.signIn.byPassword(credentials({ address }), webdav), { code: 'denied' })
    }
    await t.rejects(
      accounts.signIn.issueToken(credentials({ address, plain: 'wrong' })),
      wrong,
      'the address is not locked',
    )
  }
})

void t.test('the network is told before a code is asked for, and uses up none', async (t) => {
  const { accounts, ada } = await fixture(t)
  await accounts.users.update(ada.id, { allowFrom, otpSecret: secret })
  await t.rejects(accounts.signIn.issueToken(credentials({ address: outside, code: '000000' })), refusedNetwork)
  await t.rejects(accounts.signIn.issueToken(credentials({ address: inside })), {
    code: 'unauthenticated',
    detail: 'code_required',
  })
})

void t.test('the permanent token is of the installation: no network and no group binds it', async (t) => {
  const { accounts, admin, settings } = await fixture(t)
  await accounts.users.update(admin.id, { allowFrom })
  const group = { name: 'staff', description: '', permission: 0, admin: false, requireTwoStep: true }
  await accounts.groups.create({ ...group, members: [admin.id] })
  for (const again of [false, true]) {
    const principal = await accounts.tokens.principalOf(settings.get('token'), http, { address: outside })
    t.match(principal, { userId: admin.id }, again ? 'from the cache' : 'the first time')
  }
})

void t.test('the built-in admin has no end', async (t) => {
  const { accounts, admin, clock } = await fixture(t)
  const refused = { code: 'invalid', reason: /built-in admin/ }
  await t.rejects(accounts.users.update(admin.id, { expires: new Date(clock.time + 1e9) }), refused)
  await t.resolves(accounts.users.update(admin.id, { expires: null }))
})

void t.test('nobody shuts out the own account', async (t) => {
  const { accounts, ada, clock } = await fixture(t)
  t.throws(() => accounts.admission.assertStaysIn(ada.id, { allowFrom }, outside), {
    code: 'invalid',
    reason: /lock you out/,
  })
  t.doesNotThrow(() => accounts.admission.assertStaysIn(ada.id, { allowFrom }, inside))
  t.doesNotThrow(() => accounts.admission.assertStaysIn(ada.id, { allowFrom: [] }, outside))
  t.throws(() => accounts.admission.assertStaysIn(ada.id, { expires: new Date(clock.time) }, outside), {
    code: 'invalid',
  })
  t.doesNotThrow(() => accounts.admission.assertStaysIn(ada.id, { expires: new Date(clock.time + 1) }, outside))
  t.throws(() => accounts.admission.assertStaysIn(ada.id, { allowFrom: ['office'] }, outside), { code: 'invalid' })
})

void t.test('the guest can be bound to networks, and has no two-step verification', async (t) => {
  const { accounts } = await fixture(t)
  const id = accounts.users.byUniqueRole('guest')?.id ?? 0
  await accounts.users.update(id, { disabled: false, allowFrom })
  const group = { name: 'all', description: '', permission: 0, admin: false, requireTwoStep: true }
  await accounts.groups.create({ ...group, members: [id] })
  t.match(accounts.principals.guest(http, inside), { userId: id })
  t.throws(() => accounts.principals.guest(http, outside), { code: 'unauthenticated', detail: 'guest_disabled' })
  t.equal(accounts.principals.isGuestName('guest'), true)
  await accounts.users.update(id, { expires: new Date(0) })
  t.throws(() => accounts.principals.guest(http, inside), { code: 'unauthenticated', detail: 'guest_disabled' })
  t.equal(accounts.principals.isGuestName('guest'), false)
})

void t.test('members of a group that requires two-step verification can only set it up', keygen, async (t) => {
  const { accounts, ada } = await fixture(t)
  const ways = await waysIn(t, accounts, ada)
  const open = await accounts.signIn.byPassword(credentials(), sftp)
  const group = { name: 'staff', description: '', permission: 0, admin: false, members: [ada.id] }
  const { id } = await accounts.groups.create(group)
  t.equal(open.signal.aborted, false)
  await accounts.groups.update(id, { requireTwoStep: true })
  t.equal(open.signal.aborted, true, 'connections end')
  const refused = { code: 'denied', detail: 'two_step_set_up_required' }
  const { confirmation, ...uses } = ways
  for (const name of ['sign-in', 'sign-in to the console'] as const) await t.resolves(uses[name](inside), name)
  await t.resolves(confirmation(inside))
  for (const [title, way] of Object.entries(uses)) {
    if (!title.startsWith('sign-in')) await t.rejects(way(inside), refused, title)
  }
  const token = await accounts.signIn.issueToken(credentials())
  const setUp = { address: inside, setsUpTwoStep: true }
  const principal = await accounts.tokens.principalOf(token, http, setUp)
  t.equal(await accounts.tokens.principalOf(token, http, setUp), principal, 'from the cache')
  await t.rejects(
    accounts.tokens.principalOf(token, http, { address: inside }),
    refused,
    'from the cache, for another endpoint',
  )
  t.match(accounts.principals.forTask(ada.id), { userId: ada.id }, 'tasks go on')
  await accounts.users.update(ada.id, { otpSecret: secret })
  t.equal(principal.signal.aborted, false, 'the session goes on')
  for (const name of ['token', 'console session', 'app password', 'key'] as const)
    await t.resolves(uses[name](inside), name)
  await t.rejects(uses.password(inside), { code: 'denied', detail: 'code_required' })
  const { signal } = await accounts.tokens.principalOf(token, http, { address: inside })
  await accounts.users.update(ada.id, { otpSecret: '' })
  t.equal(isGatewayError(signal.reason, 'unauthenticated'), true, 'it was turned off')
  await t.rejects(uses.key(inside), refused)
})

void t.test('an app password opens one folder, until its end', async (t) => {
  const { accounts, ada, clock } = await fixture(t)
  await accounts.users.update(ada.id, { basePath: '/home' })
  const app = { name: 'phone', protocols: ['webdav'], readOnly: false }
  const { appPasswords } = accounts
  const expires = new Date(clock.time + 1000)
  const { row, password } = await appPasswords.add(ada.id, { ...app, folder: 'photos//2024', expires })
  t.match(row, { folder: '/photos/2024', expires })
  const principal = await accounts.signIn.byPassword(credentials({ plain: password }), webdav)
  t.match(principal, { base: '/home/photos/2024', folder: '/photos/2024', accountBase: '/home' })
  t.match(principal.from('x').respelled(asPath('/home/photos/2024'), asPath('/Home/photos/2024')), {
    base: '/Home/photos/2024',
    accountBase: '/Home',
  })
  const whole = await appPasswords.add(ada.id, { ...app, name: 'laptop' })
  t.match(whole.row, { folder: root, expires: undefined })
  const other = await accounts.signIn.byPassword(credentials({ plain: whole.password }), webdav)
  t.match(other, { base: '/home', accountBase: '/home' })
  await t.rejects(appPasswords.add(ada.id, { ...app, name: 'x', folder: '/a/../b' }), { code: 'invalid' })
  await t.rejects(appPasswords.add(ada.id, { ...app, name: 'x', expires: new Date(clock.time) }), {
    code: 'invalid',
    reason: /in the future/,
  })
  clock.time += 1000
  await t.rejects(accounts.signIn.byPassword(credentials({ plain: password }), webdav), {
    code: 'denied',
    detail: 'credential_expired',
    reason: 'this app password has expired',
  })
  t.ok(await until(() => principal.signal.aborted))
  t.match(principal.signal.reason, { code: 'unauthenticated', detail: 'credential_expired' })
  t.equal(other.signal.aborted, false)
  await t.resolves(accounts.signIn.byPassword(credentials({ plain: whole.password }), webdav))
})

void t.test('an admin with one folder has no other', async (t) => {
  const { accounts, admin } = await fixture(t)
  const app = { name: 'phone', protocols: ['webdav'], readOnly: false, folder: '/photos' }
  const { password } = await accounts.appPasswords.add(admin.id, app)
  const principal = await accounts.signIn.byPassword(credentials({ username: 'admin', plain: password }), webdav)
  t.equal(principal.role, 'admin')
  t.throws(() => principal.withWholeTree(), { code: 'denied' })
})
