/** App passwords: the protocols and the user that they are valid for, their limits, and what deleting one ends. */
import t from 'tap'
import '../fast-hashes.js'
import type { NewAppPassword } from '../../src/accounts/app-passwords.js'
import { credentials, fixture, openAccounts } from './accounts-fixture.js'
import { http } from '../../protocols/http/index.js'
import { webdav } from '../../protocols/webdav/index.js'
import { sftp } from '../../protocols/sftp/index.js'

const both: NewAppPassword = { name: 'backup', protocols: ['webdav', 'sftp'], readOnly: false }
const secret = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

void t.test('an app password works only for the protocols it was created for', async (t) => {
  const { accounts, ada } = await fixture(t)
  const { row, password } = await accounts.appPasswords.add(ada.id, both)
  t.match(password, /^tg-[a-z2-9]{8}-[a-z2-9]{32}$/)
  t.notOk(JSON.stringify(row).includes(password.slice(-32)), 'the password is not stored')
  for (const protocol of [webdav, sftp]) {
    t.match(await accounts.signIn.byPassword(credentials({ plain: password }), protocol), {
      username: 'ada',
      protocol,
      readOnly: false,
      permissions: ada.permission,
    })
  }
  await t.rejects(accounts.signIn.byPassword(credentials({ plain: password }), http), { code: 'denied' })
  await t.rejects(accounts.signIn.issueToken(credentials({ plain: password })), { code: 'unauthenticated' })

  const { password: reader } = await accounts.appPasswords.add(ada.id, {
    name: 'r',
    protocols: ['webdav'],
    readOnly: true,
  })
  t.match(await accounts.signIn.byPassword(credentials({ plain: reader }), webdav), { readOnly: true })
  await t.rejects(accounts.signIn.byPassword(credentials({ plain: reader }), sftp), {
    code: 'denied',
    reason: 'this app password is for another protocol',
  })

  const { password: none } = await accounts.appPasswords.add(ada.id, { ...both, name: 'http', protocols: ['http'] })
  await t.rejects(accounts.signIn.byPassword(credentials({ plain: none }), http), { code: 'denied' }, 'it takes none')
})

void t.test('an app password works only for its owner, also without a code of two-step verification', async (t) => {
  const { accounts, ada, admin } = await fixture(t)
  const { password } = await accounts.appPasswords.add(ada.id, both)
  await accounts.users.update(ada.id, { otpSecret: secret })
  await t.rejects(accounts.signIn.byPassword(credentials(), webdav), { code: 'denied' })
  t.match(await accounts.signIn.byPassword(credentials({ plain: password }), webdav), { userId: ada.id })
  await t.rejects(accounts.signIn.byPassword(credentials({ username: admin.username, plain: password }), webdav), {
    code: 'unauthenticated',
  })
  const forged = `${password.slice(0, -1)}${password.endsWith('a') ? 'b' : 'a'}`
  await t.rejects(accounts.signIn.byPassword(credentials({ plain: forged }), webdav), { code: 'unauthenticated' })
  await accounts.users.update(ada.id, { disabled: true })
  await t.rejects(accounts.signIn.byPassword(credentials({ plain: password }), webdav), { code: 'denied' })
})

void t.test(
  'an invented app password counts as a failed sign-in; a valid one works from a locked address',
  async (t) => {
    const { accounts, ada } = await fixture(t)
    const { password } = await accounts.appPasswords.add(ada.id, both)
    const address = '192.0.2.1'
    const wrong = () =>
      accounts.signIn.byPassword(credentials({ plain: `tg-${'a'.repeat(8)}-${'a'.repeat(32)}`, address }), sftp)
    for (let tries = 0; tries < 5; tries++) await t.rejects(wrong(), { code: 'unauthenticated' })
    await t.rejects(wrong(), { code: 'throttled' })
    t.match(await accounts.signIn.byPassword(credentials({ plain: password, address }), sftp), { userId: ada.id })
  },
)

void t.test('an account that is disabled during a sign-in by app password gets no session', async (t) => {
  const { accounts, ada, store } = await fixture(t)
  const { password } = await accounts.appPasswords.add(ada.id, both)
  const touch = store.appPasswords.touch.bind(store.appPasswords)
  store.appPasswords.touch = async (...row) => {
    // In the queue of changes before this one.
    await touch(...row)
    void accounts.users.update(ada.id, { disabled: true })
  }
  const disabling = accounts.users.update(ada.id, { permission: 0 })
  await t.rejects(accounts.signIn.byPassword(credentials({ plain: password }), sftp), { code: 'unauthenticated' })
  await disabling
})

void t.test('a sign-in does not fail because the time of last use cannot be stored', async (t) => {
  const { accounts, ada, store } = await fixture(t)
  const { password } = await accounts.appPasswords.add(ada.id, both)
  store.appPasswords.touch = async () => {
    throw new Error('the disk is full')
  }
  t.match(await accounts.signIn.byPassword(credentials({ plain: password }), webdav), { userId: ada.id })
})

void t.test('the time of last use is stored at most once a minute', async (t) => {
  const { accounts, ada, clock, store } = await fixture(t)
  const { row, password } = await accounts.appPasswords.add(ada.id, both)
  t.equal(row.lastUsed, undefined)
  const first = clock.time
  await accounts.signIn.byPassword(credentials({ plain: password }), webdav)
  clock.time = first + 59_000
  await accounts.signIn.byPassword(credentials({ plain: password }), webdav)
  t.equal(accounts.appPasswords.get(row.id)?.lastUsed?.getTime(), first)
  clock.time = first + 60_000
  await accounts.signIn.byPassword(credentials({ plain: password }), webdav)
  const [stored] = await store.appPasswords.all()
  t.equal(stored?.lastUsed?.getTime(), clock.time)
})

void t.test('deleting an app password ends its own sessions only', async (t) => {
  const { accounts, ada, admin } = await fixture(t)
  const { row, password } = await accounts.appPasswords.add(ada.id, both)
  const other = await accounts.appPasswords.add(ada.id, { ...both, name: 'other' })
  const ended = await accounts.signIn.byPassword(credentials({ plain: password }), webdav)
  const kept = await accounts.signIn.byPassword(credentials({ plain: other.password }), webdav)
  await t.rejects(accounts.appPasswords.delete(admin.id, row.id), { code: 'not_found' })
  await accounts.appPasswords.delete(ada.id, row.id)
  t.ok(ended.signal.aborted)
  t.notOk(kept.signal.aborted)
  await t.rejects(accounts.signIn.byPassword(credentials({ plain: password }), webdav), { code: 'unauthenticated' })

  await accounts.users.delete(ada.id)
  t.ok(kept.signal.aborted, 'it is deleted with the account')
  t.strictSame(accounts.appPasswords.list(ada.id), [])
})

void t.test('an app password with an invalid field, or beyond the limit of one user, is rejected', async (t) => {
  const { accounts, ada } = await fixture(t)
  await accounts.appPasswords.add(ada.id, both)
  await t.rejects(accounts.appPasswords.add(ada.id, both), { code: 'exists' })
  await t.rejects(accounts.appPasswords.add(ada.id, { ...both, name: '' }), { code: 'invalid' })
  await t.rejects(accounts.appPasswords.add(ada.id, { ...both, name: 'x'.repeat(256) }), { code: 'invalid' })
  await t.rejects(accounts.appPasswords.add(ada.id, { ...both, name: 'x', protocols: [] }), { code: 'invalid' })
  await t.rejects(accounts.appPasswords.add(999, both), { code: 'not_found' })
  for (let more = 1; more < 100; more++) await accounts.appPasswords.add(ada.id, { ...both, name: String(more) })
  await t.rejects(accounts.appPasswords.add(ada.id, { ...both, name: 'one more' }), { code: 'invalid' })
})

void t.test(
  'another process accepts a new app password after a reload, and ends the sessions of a deleted one',
  async (t) => {
    const { accounts, ada, file, clock } = await fixture(t)
    const other = await openAccounts(t, file, clock)
    const { row, password } = await accounts.appPasswords.add(ada.id, both)
    await other.accounts.reload()
    const principal = await other.accounts.signIn.byPassword(credentials({ plain: password }), sftp)
    await accounts.appPasswords.delete(ada.id, row.id)
    await other.accounts.reload()
    t.ok(principal.signal.aborted)
  },
)
