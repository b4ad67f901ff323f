/** Sessions of the console: what they authenticate, what ends them, their limits, and other processes. */
import { mock } from 'node:test'
import t from 'tap'
import '../fast-hashes.js'
import { http } from '../../protocols/http/index.js'
import { GatewayError } from '../../src/base/errors.js'
import { until } from '../until.js'
import { adaPassword, credentials, fixture, newUser, openAccounts } from './accounts-fixture.js'

const minute = 60_000
const hour = 60 * minute
const browser = { userAgent: 'a browser' }

void t.test('a session is valid for the lifetime of a token, and its secret is not stored', async (t) => {
  const { accounts, ada, clock, store } = await fixture(t)
  const signedIn = clock.time
  const { row, secret } = await accounts.signIn.openConsoleSession(credentials({ address: '192.0.2.1' }), browser)
  t.match(secret, /^tgs-[a-z2-9]{8}-[a-z2-9]{32}$/)
  t.match(row, { userId: ada.id, address: '192.0.2.1', userAgent: 'a browser' })
  t.equal(row.expires.getTime(), signedIn + 48 * hour)
  t.notOk(JSON.stringify(await store.consoleSessions.all()).includes(secret.slice(-32)))
  t.match(await accounts.consoleSessions.principalOf(secret, http), { userId: ada.id, username: 'ada', protocol: http })
  clock.time = signedIn + 48 * hour - 1
  t.match(await accounts.consoleSessions.principalOf(secret, http), { userId: ada.id })
  clock.time += 1
  await t.rejects(accounts.consoleSessions.principalOf(secret, http), {
    code: 'unauthenticated',
    detail: 'token_expired',
  })
  t.strictSame(accounts.consoleSessions.list(ada.id), [])
})

void t.test('no other text is a session', async (t) => {
  const { accounts, ada } = await fixture(t)
  const { row, secret } = await accounts.signIn.openConsoleSession(credentials(), browser)
  const { password } = await accounts.appPasswords.add(ada.id, { name: 'x', protocols: ['webdav'], readOnly: false })
  const token = await accounts.signIn.issueToken(credentials())
  const changed = `${secret.slice(0, -1)}${secret.endsWith('a') ? 'b' : 'a'}`
  for (const other of ['', changed, `${secret}a`, ` ${secret}`, row.digest, row.prefix, password, token]) {
    await t.rejects(
      accounts.consoleSessions.principalOf(other, http),
      { code: 'unauthenticated', detail: 'token_revoked' },
      other,
    )
  }
  await t.rejects(accounts.tokens.principalOf(secret, http), { code: 'unauthenticated' })
  await t.rejects(accounts.signIn.byPassword(credentials({ plain: secret }), http), { code: 'unauthenticated' })
})

void t.test('a sign-in to the console is refused as any other', async (t) => {
  const { accounts, ada } = await fixture(t)
  const signIn = (fields = {}) => accounts.signIn.openConsoleSession(credentials(fields), browser)
  await t.rejects(signIn({ plain: 'wrong' }), { code: 'unauthenticated', detail: 'wrong_credentials' })
  await accounts.users.update(ada.id, { otpSecret: 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567' })
  await t.rejects(signIn(), { code: 'unauthenticated', detail: 'code_required' })
  await accounts.users.update(ada.id, { otpSecret: '', disabled: true })
  await t.rejects(signIn(), { code: 'denied', detail: 'account_disabled' })
  t.strictSame(accounts.consoleSessions.list(ada.id), [])
})

void t.test('what ends the tokens of an account ends its console sessions, for good', async (t) => {
  const { accounts, ada, store } = await fixture(t)
  const { users } = accounts
  for (const [title, end, reason] of [
    ['a new password', () => users.update(ada.id, { password: 'another' }), 'password_changed'],
    ['a new name', () => users.update(ada.id, { username: 'lovelace' }), undefined],
    ['signing out everywhere', () => users.endSessions(ada.id), 'token_revoked'],
    ['being disabled', () => users.update(ada.id, { disabled: true }), 'account_disabled'],
    ['being deleted', () => users.delete(ada.id), 'account_missing'],
  ] as const) {
    await users.update(ada.id, { username: 'ada', password: adaPassword, disabled: false })
    const { secret } = await accounts.signIn.openConsoleSession(credentials(), browser)
    const token = await accounts.signIn.issueToken(credentials())
    const { signal } = await accounts.consoleSessions.principalOf(secret, http)
    const { signal: tokenSignal } = await accounts.tokens.principalOf(token, http)
    await end()
    t.ok(signal.aborted && tokenSignal.aborted, `${title} aborts running requests`)
    t.equal((signal.reason as { detail?: string }).detail, reason, title)
    await t.rejects(accounts.consoleSessions.principalOf(secret, http), { code: 'unauthenticated' }, title)
    await t.rejects(accounts.tokens.principalOf(token, http), { code: 'unauthenticated' }, title)
    t.strictSame(await store.consoleSessions.all(), [], `${title} deletes the rows`)
  }
})

void t.test('another change of the account ends running requests only', async (t) => {
  const { accounts, ada } = await fixture(t)
  const { secret } = await accounts.signIn.openConsoleSession(credentials(), browser)
  const { signal } = await accounts.consoleSessions.principalOf(secret, http)
  await accounts.users.update(ada.id, { permission: 0 })
  t.ok(signal.aborted)
  const principal = await accounts.consoleSessions.principalOf(secret, http)
  t.notOk(principal.hasPermission('write'))
  t.notOk(principal.signal.aborted)
})

void t.test('one session is ended by its owner, by its id or its secret', async (t) => {
  const { accounts, ada, admin, store } = await fixture(t)
  const opened = await Promise.all([1, 2, 3].map(() => accounts.signIn.openConsoleSession(credentials(), browser)))
  const [one, two, three] = opened.map(({ row }) => row.id) as [number, number, number]
  const signals = await Promise.all(
    opened.map(async ({ secret }) => (await accounts.consoleSessions.principalOf(secret, http)).signal),
  )
  await t.rejects(accounts.consoleSessions.delete(admin.id, one), { code: 'not_found' })
  await t.rejects(accounts.consoleSessions.delete(ada.id, 999), { code: 'not_found' })
  await accounts.consoleSessions.delete(ada.id, one)
  await accounts.consoleSessions.close(opened[1]?.secret ?? '')
  await accounts.consoleSessions.close(opened[1]?.secret ?? '')
  await accounts.consoleSessions.close('rubbish')
  t.strictSame(
    signals.map(({ aborted }) => aborted),
    [true, true, false],
  )
  t.strictSame(
    accounts.consoleSessions.list(ada.id).map(({ id }) => id),
    [three],
  )
  t.strictSame(
    (await store.consoleSessions.all()).map(({ id }) => id),
    [three],
    `${one} and ${two} are deleted`,
  )
})

void t.test(
  'the time of last use is stored at most every five minutes, and a full disk locks nobody out',
  async (t) => {
    const { accounts, clock, store } = await fixture(t)
    const { secret } = await accounts.signIn.openConsoleSession(credentials(), browser)
    const first = clock.time
    const stored = async () => (await store.consoleSessions.all())[0]?.lastUsed.getTime()
    clock.time = first + 299_000
    await accounts.consoleSessions.principalOf(secret, http)
    t.equal(await stored(), first)
    clock.time = first + 300_000
    await Promise.all([
      accounts.consoleSessions.principalOf(secret, http),
      accounts.consoleSessions.principalOf(secret, http),
    ])
    t.equal(await stored(), clock.time)
    store.consoleSessions.touch = async () => {
      throw new Error('the disk is full')
    }
    clock.time += 300_000
    t.match(await accounts.consoleSessions.principalOf(secret, http), { username: 'ada' })
  },
)

void t.test('a session that ends while its use is recorded authenticates nobody', async (t) => {
  const { accounts, clock, store } = await fixture(t)
  const { secret } = await accounts.signIn.openConsoleSession(credentials(), browser)
  clock.time += 300_000
  const ending = accounts.consoleSessions.close(secret)
  await t.rejects(accounts.consoleSessions.principalOf(secret, http), { code: 'unauthenticated' })
  await ending
  t.strictSame(await store.consoleSessions.all(), [])
})

void t.test('one more than a hundred sessions of a user ends the least recently used one', async (t) => {
  const { accounts, ada, admin, clock } = await fixture(t)
  const open = (user = ada) => accounts.consoleSessions.open(user, { address: '', userAgent: 'x'.repeat(300) })
  const [first, second] = [await open(), await open()]
  const other = await open(admin)
  t.equal(first.row.userAgent.length, 255)
  for (let more = 2; more < 100; more++) await open()
  clock.time += 300_000
  await accounts.consoleSessions.principalOf(first.secret, http)
  await open()
  t.equal(accounts.consoleSessions.list(ada.id).length, 100)
  t.equal(accounts.consoleSessions.get(second.row.id), undefined)
  for (const { secret } of [first, other]) await accounts.consoleSessions.principalOf(secret, http)
})

void t.test('expired sessions are removed, without ending their running requests', async (t) => {
  const { accounts, ada, clock, store, file } = await fixture(t)
  const other = await openAccounts(t, file, clock)
  const { secret } = await accounts.signIn.openConsoleSession(credentials(), browser)
  await other.accounts.reload()
  const principals = [
    await accounts.consoleSessions.principalOf(secret, http),
    await other.accounts.consoleSessions.principalOf(secret, http),
  ]
  clock.time += 48 * hour
  const { row } = await accounts.signIn.openConsoleSession(credentials(), browser)
  await accounts.consoleSessions.sweep(clock.time)
  t.match(await store.consoleSessions.all(), [{ id: row.id }])
  await other.accounts.reload()
  for (const { signal } of principals) t.notOk(signal.aborted)
  t.match(other.accounts.consoleSessions.list(ada.id), [{ id: row.id }])
})

void t.test('expired sessions that cannot be removed are in the log, and are removed an hour later', async (t) => {
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => mock.timers.reset())
  const { accounts, clock, store, warnings } = await fixture(t)
  await accounts.signIn.openConsoleSession(credentials(), browser)
  clock.time += 48 * hour
  const failure = new GatewayError('unavailable', { reason: 'the database is gone' })
  mock.method(store.consoleSessions, 'sweep', () => Promise.reject(failure), { times: 1 })
  mock.timers.tick(hour)
  t.ok(await until(() => warnings.length > 0))
  t.same(warnings, [{ err: failure }])
  mock.timers.tick(hour)
  t.ok(await until(async () => (await store.consoleSessions.all()).length === 0))
})

void t.test('other processes know sessions and their ends, and a restart ends none', async (t) => {
  const { accounts, ada, clock, file } = await fixture(t)
  const other = await openAccounts(t, file, clock)
  const { row, secret } = await accounts.signIn.openConsoleSession(credentials(), browser)
  await other.accounts.reload()
  const { signal } = await other.accounts.consoleSessions.principalOf(secret, http)
  await accounts.consoleSessions.delete(ada.id, row.id)
  await other.accounts.reload()
  t.ok(signal.aborted)
  await t.rejects(other.accounts.consoleSessions.principalOf(secret, http), { code: 'unauthenticated' })

  const { secret: kept } = await accounts.signIn.openConsoleSession(credentials(), browser)
  const restarted = await openAccounts(t, file, clock)
  t.match(await restarted.accounts.consoleSessions.principalOf(kept, http), { userId: ada.id })
  await other.accounts.users.update(ada.id, { password: 'changed elsewhere' })
  t.strictSame((await openAccounts(t, file, clock)).accounts.consoleSessions.list(ada.id), [])
  await restarted.accounts.reload()
  await t.rejects(restarted.accounts.consoleSessions.principalOf(kept, http), { code: 'unauthenticated' })
})

void t.test('a sign-in during a change of the password opens no session', async (t) => {
  const { accounts, store } = await fixture(t)
  const { id } = await accounts.users.create(newUser({ username: 'eve' }))
  const add = store.consoleSessions.add.bind(store.consoleSessions)
  const changing = new Promise((resolve) => {
    store.consoleSessions.add = async (row, max) => {
      resolve(store.users.change(id, () => ({ passwordTime: 1 })))
      return add(row, max)
    }
  })
  const { secret } = await accounts.signIn.openConsoleSession(credentials({ username: 'eve' }), browser)
  await changing
  await accounts.reload()
  await t.rejects(accounts.consoleSessions.principalOf(secret, http), { code: 'unauthenticated' })
})

void t.test(
  'a confirmation counts as a sign-in for ten minutes, and changes nothing else of the session',
  async (t) => {
    const { accounts, ada, clock, store } = await fixture(t)
    const { row, secret } = await accounts.signIn.openConsoleSession(credentials(), browser)
    const before = await accounts.consoleSessions.principalOf(secret, http)
    const isRecent = async () => accounts.signIn.isRecent(await accounts.consoleSessions.principalOf(secret, http))
    t.ok(await isRecent())
    clock.time += 10 * minute - 1
    t.ok(await isRecent())
    clock.time += 1
    t.notOk(await isRecent())
    await accounts.signIn.confirmConsoleSession(secret, credentials())
    t.ok(await isRecent())
    t.ok(await accounts.signIn.isRecent(before), 'also for a request that has begun')
    t.notOk(before.signal.aborted)
    t.match(accounts.consoleSessions.list(ada.id), [{ id: row.id, created: row.created, expires: row.expires }])
    t.equal((await store.consoleSessions.all())[0]?.confirmed?.getTime(), clock.time)
    clock.time += 10 * minute
    t.notOk(await isRecent())
  },
)

void t.test('a confirmation is refused and counted as a sign-in is', async (t) => {
  const { accounts, ada, clock, warnings } = await fixture(t)
  const { row, secret } = await accounts.signIn.openConsoleSession(credentials(), browser)
  clock.time += 10 * minute
  const confirm = (fields = {}) => accounts.signIn.confirmConsoleSession(secret, credentials(fields))
  const isRecent = async () => accounts.signIn.isRecent(await accounts.consoleSessions.principalOf(secret, http))
  await t.rejects(confirm({ username: 'admin', plain: 'admin password' }), {
    code: 'unauthenticated',
    detail: 'wrong_credentials',
  })
  await accounts.users.update(ada.id, { otpSecret: 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567' })
  await t.rejects(confirm(), { code: 'unauthenticated', detail: 'code_required' })
  await t.rejects(confirm({ code: '000000x' }), { code: 'unauthenticated', detail: 'code_required' })
  await accounts.users.update(ada.id, { otpSecret: '' })
  t.notOk(await isRecent())

  const address = '192.0.2.9'
  const logged = warnings.length
  for (let guess = 0; guess < 5; guess++) await t.rejects(confirm({ plain: `wrong ${guess}`, address }))
  t.match(warnings[logged], { account: 'ada', address, protocol: 'http' })
  await t.rejects(confirm({ address }), { code: 'throttled', detail: 'sign_in_throttled' }, 'the address is locked out')
  await confirm()
  t.ok(await isRecent())
  await accounts.consoleSessions.delete(ada.id, row.id)
  await t.rejects(confirm(), { code: 'unauthenticated', detail: 'token_revoked' })
})

void t.test('a confirmation counts at every node at once, and at none after the session has ended', async (t) => {
  const { ada, clock, file } = await fixture(t)
  const [{ accounts }, { accounts: other }] = [
    await openAccounts(t, file, clock, true),
    await openAccounts(t, file, clock, true),
  ]
  const { row, secret } = await accounts.signIn.openConsoleSession(credentials(), browser)
  await other.consoleSessions.principalOf(secret, http)
  clock.time += 10 * minute
  t.notOk(await other.signIn.isRecent(await other.consoleSessions.principalOf(secret, http)))
  await accounts.signIn.confirmConsoleSession(secret, credentials())
  t.ok(await other.signIn.isRecent(await other.consoleSessions.principalOf(secret, http)))
  const principal = await other.consoleSessions.principalOf(secret, http)
  await accounts.consoleSessions.delete(ada.id, row.id)
  await t.rejects(other.signIn.confirmConsoleSession(secret, credentials()), { code: 'unauthenticated' })
  clock.time += 10 * minute
  t.notOk(await other.signIn.isRecent(principal))
})

void t.test('only sessions and the permanent token have a recent sign-in', async (t) => {
  const { accounts, ada, clock, settings } = await fixture(t)
  const { password } = await accounts.appPasswords.add(ada.id, { name: 'x', protocols: ['webdav'], readOnly: false })
  const webdav = { name: 'webdav', appPasswords: true }
  const token = await accounts.signIn.issueToken(credentials())
  for (const [title, principal, isRecent] of [
    ['a token', await accounts.tokens.principalOf(token, http), true],
    ['the permanent token', await accounts.tokens.principalOf(settings.get('token'), http), true],
    ['a password', await accounts.signIn.byPassword(credentials(), webdav), false],
    ['an app password', await accounts.signIn.byPassword(credentials({ plain: password }), webdav), false],
    ['a task', accounts.principals.forTask(ada.id), false],
    ['a signed URL', accounts.principals.forSignature(ada.id, http, '192.0.2.1'), false],
  ] as const) {
    t.equal(await accounts.signIn.isRecent(principal), isRecent, title)
    t.equal(await accounts.signIn.isRecent(principal.from('192.0.2.0')), isRecent, title)
  }
  clock.time += 10 * minute
  t.notOk(await accounts.signIn.isRecent(await accounts.tokens.principalOf(token, http)))
  t.ok(await accounts.signIn.isRecent(await accounts.tokens.principalOf(settings.get('token'), http)))
})
