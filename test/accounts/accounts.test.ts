/**
 * Sign-in, tokens and their revocation, the first accounts of an installation, the guest, two-step verification, and
 * the validation of account fields.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import jwt from 'jsonwebtoken'
import { generateSync } from 'otplib'
import { hashSync } from 'bcryptjs'
import t from 'tap'
import { isBcrypt } from '../../src/accounts/bcrypt.js'
import { bootstrapAccounts } from '../../src/accounts/bootstrap.js'
import { newOtpSecret, otpUri } from '../../src/accounts/otp.js'
import { hashPassword, staticHash } from '../../src/accounts/passwords.js'
import { allPermissions, type Principal } from '../../src/accounts/principal.js'
import { GatewayError, type ErrorDetail } from '../../src/base/errors.js'
import { openStore } from '../../src/database/store.js'
import { adaPassword, credentials, fixture, newUser, openAccounts } from './accounts-fixture.js'
import { http } from '../../protocols/http/index.js'
import { webdav } from '../../protocols/webdav/index.js'
import { sftp } from '../../protocols/sftp/index.js'
import { userRow } from '../database/store-rows.js'

const refused = (detail: ErrorDetail) => ({ code: 'unauthenticated', detail })
const wrong = refused('wrong_credentials')
const disabled = { code: 'denied', detail: 'account_disabled' }
const asked = refused('code_required')

/** Resolves when the principal's authority is revoked; fails after five seconds. */
async function ended(principal: Principal): Promise<void> {
  const timer = setTimeout(() => undefined, 5000)
  const deadline = Date.now() + 5000
  while (!principal.signal.aborted && Date.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 20))
  clearTimeout(timer)
  if (!principal.signal.aborted) throw new Error('the authority did not end')
}

void t.test(
  'a new installation gets a disabled guest and an admin, whose password is shown before the account is stored',
  async (t) => {
    const store = await openStore(join(t.testdir(), 'tidegate.db'))
    t.teardown(() => store.close())
    const cut = (_username: string, made = '') => {
      throw new Error(`the process ends when ${made} is shown`)
    }
    await t.rejects(bootstrapAccounts(store, { onCreate: cut }), { cause: { message: /when [a-z2-9]{20} is shown/ } })
    t.same(await store.users.all(), [])
    let shown = 0
    const admin = { onCreate: () => shown++ }
    await Promise.all([bootstrapAccounts(store, admin), bootstrapAccounts(store, admin)])
    await bootstrapAccounts(store, admin)
    t.equal(shown, 1, 'no password is shown if an admin exists')
    const users = await store.users.all()
    t.match(
      users.sort((one, other) => other.role.localeCompare(one.role)),
      [
        { username: 'guest', role: 'guest', permission: 0, disabled: true, basePath: '/' },
        { username: 'admin', role: 'admin', permission: allPermissions, disabled: false, basePath: '/' },
      ],
    )
    t.equal(users.length, 2, 'two concurrent bootstraps create one admin')

    const names = ['admin', 'admin2', 'guest']
    await Promise.all(users.map(({ id }) => store.users.delete(id)))
    for (const username of names) await store.users.insert(userRow({ username, role: 'general' }))
    const shownNames: string[] = []
    await bootstrapAccounts(store, { onCreate: (username) => void shownNames.push(username) })
    t.same(shownNames, ['admin3'], 'users that were imported keep their names')
    t.match((await store.users.all()).map(({ username }) => username).sort(), [...names, 'admin3', 'guest2'].sort())
  },
)

void t.test('both forms of sign-in return a token, and the token resolves to a principal', async (t) => {
  t.equal(staticHash('p'), '43ed30758bbc9d7ec6160361278b4be1e427472f1bc2be302894430b0e4f446c')
  const { accounts, ada } = await fixture(t)
  const token = await accounts.signIn.issueToken(credentials())
  const hashed = await accounts.signIn.issueToken(credentials({ password: { hash: staticHash(adaPassword) } }))
  t.not(token, hashed, 'two tokens issued within one second differ')
  const principal = await accounts.tokens.principalOf(token, http)
  t.match(principal, {
    userId: ada.id,
    username: 'ada',
    role: 'general',
    permissions: 0xff,
    base: '/',
    protocol: http,
  })
  t.equal(principal.signal.aborted, false)
  const claims = jwt.decode(token, { json: true })
  t.match(claims, { username: 'ada', pwd_ts: 0, jti: /^[0-9a-f-]{36}$/ })
  t.equal(claims?.exp, (claims?.iat ?? 0) + 48 * 3600)
  t.equal(claims?.nbf, claims?.iat)
  for (const hash of [staticHash(adaPassword).toUpperCase(), '', 'x'.repeat(64)]) {
    await t.rejects(accounts.signIn.issueToken(credentials({ password: { hash } })), wrong)
  }
  await t.rejects(accounts.signIn.issueToken(credentials({ plain: '' })), refused('wrong_credentials'))
  await t.rejects(accounts.signIn.issueToken(credentials({ username: 'x'.repeat(100_000) })), wrong)
})

void t.test(
  'forged, malformed, not yet active and expired tokens are rejected, each with its own detail',
  async (t) => {
    const { accounts, store, clock, ada } = await fixture(t)
    const token = await accounts.signIn.issueToken(credentials())
    const [head, body = '', tail] = token.split('.')
    const secret = await store.secrets.obtain('session tokens', '')
    const claims = jwt.decode(token, { json: true }) ?? {}
    const none = `${Buffer.from('{"alg":"none","typ":"JWT"}').toString('base64url')}.${body}.`
    for (const bad of [
      '',
      'nonsense',
      'a.b.c',
      `${head}.${body}.${tail?.slice(1)}`,
      none,
      jwt.sign(claims, 'another secret'),
      jwt.sign(claims, secret, { algorithm: 'HS512' }),
      jwt.sign({ username: 'ada' }, secret),
      `Bearer ${token}`,
      'x'.repeat(100_000),
    ]) {
      await t.rejects(accounts.tokens.principalOf(bad, http), refused('token_revoked'), bad.slice(0, 40))
    }
    const seconds = Math.floor(clock.time / 1000)
    await t.rejects(
      accounts.tokens.principalOf(jwt.sign({ ...claims, nbf: seconds + 3600 }, secret), http),
      refused('token_not_active'),
    )
    await t.rejects(
      accounts.tokens.principalOf(jwt.sign({ ...claims, sub: String(ada.id + 1) }, secret), http),
      refused('account_missing'),
      'the name belongs to another account',
    )
    clock.time += 48 * 3600_000 + 1000
    await t.rejects(accounts.tokens.principalOf(token, http), refused('token_expired'))
  },
)

void t.test('a token survives a restart, and signing out revokes it in every process', async (t) => {
  const { accounts, file, clock } = await fixture(t)
  const [token, kept] = [
    await accounts.signIn.issueToken(credentials()),
    await accounts.signIn.issueToken(credentials()),
  ]
  const second = await openAccounts(t, file, clock)
  const there = await second.accounts.tokens.principalOf(token, webdav)
  const here = await accounts.tokens.principalOf(token, http)
  const other = await accounts.tokens.principalOf(kept, http)
  await accounts.tokens.revoke(token)
  await accounts.tokens.revoke(token)
  await accounts.tokens.revoke('nonsense')
  t.equal(here.signal.aborted, true)
  t.match(here.signal.reason, refused('token_revoked'))
  t.equal(other.signal.aborted, false)
  await t.rejects(accounts.tokens.principalOf(token, http), refused('token_revoked'))
  await ended(there)
  await t.rejects(second.accounts.tokens.principalOf(token, http), refused('token_revoked'))
  await second.accounts.tokens.principalOf(kept, http)
  const third = await openAccounts(t, file, clock)
  await t.rejects(third.accounts.tokens.principalOf(token, http), refused('token_revoked'))
})

void t.test('the permanent token authenticates the admin, is never empty, and survives signing out', async (t) => {
  const { accounts, settings, admin } = await fixture(t)
  const token = settings.get('token')
  const principal = await accounts.tokens.principalOf(token, webdav)
  t.match(principal, { userId: admin.id, role: 'admin', permissions: allPermissions })
  await accounts.tokens.revoke(token)
  await accounts.tokens.principalOf(token, http)
  await t.rejects(accounts.tokens.principalOf('', http), refused('token_revoked'))
  await t.rejects(accounts.tokens.principalOf(token.slice(1), http), refused('token_revoked'))
  await settings.resetToken()
  t.equal(principal.signal.aborted, true)
  await t.rejects(accounts.tokens.principalOf(token, http), refused('token_revoked'))
  await accounts.tokens.principalOf(settings.get('token'), http)
})

void t.test('an enabled guest needs no credentials', async (t) => {
  const { accounts } = await fixture(t)
  t.throws(() => accounts.principals.guest(http, '127.0.0.1'), refused('guest_disabled'))
  const guest = accounts.users.byUniqueRole('guest')!
  t.notOk(accounts.principals.isGuestName('guest'), 'the guest is disabled')
  await accounts.users.update(guest.id, { disabled: false, basePath: '/public' })
  t.ok(accounts.principals.isGuestName('guest'))
  for (const name of ['admin', 'ada', 'nobody', '']) t.notOk(accounts.principals.isGuestName(name), name)
  const principal = accounts.principals.guest(http, '127.0.0.1')
  t.match(principal, { role: 'guest', username: 'guest', permissions: 0, base: '/public' })
  await accounts.users.update(guest.id, { disabled: true })
  t.equal(principal.signal.aborted, true)
})

void t.test(
  'a change of password, name or state revokes sessions permanently; a change of permissions does not',
  async (t) => {
    const { accounts, ada, clock } = await fixture(t)
    const session = async () => {
      const token = await accounts.signIn.issueToken(credentials({ plain: password }))
      return { token, principal: await accounts.tokens.principalOf(token, http) }
    }
    let password = adaPassword
    const first = await session()
    await accounts.users.update(ada.id, { ssoId: 'x' })
    await accounts.tokens.principalOf(first.token, http)
    t.equal(first.principal.signal.aborted, false, 'an unrelated update leaves sessions valid')

    password = 'another one'
    await accounts.users.update(ada.id, { password })
    t.equal(first.principal.signal.aborted, true)
    await t.rejects(accounts.tokens.principalOf(first.token, http), refused('password_changed'))
    const time = accounts.users.get(ada.id)!.passwordTime
    t.equal(time, Math.floor(clock.time / 1000))
    clock.time -= 3600_000
    await accounts.users.update(ada.id, { password })
    t.equal(
      accounts.users.get(ada.id)!.passwordTime,
      time + 1,
      'the time of the password never decreases, even if the clock is set back',
    )
    clock.time += 3600_000

    const second = await session()
    await accounts.users.update(ada.id, { disabled: true })
    t.equal(second.principal.signal.aborted, true)
    await t.rejects(accounts.tokens.principalOf(second.token, http), refused('account_disabled'))
    await t.rejects(accounts.signIn.issueToken(credentials({ plain: password })), disabled)
    await t.rejects(
      accounts.signIn.issueToken(credentials()),
      wrong,
      'a caller with a wrong password does not learn that the account is disabled',
    )
    await accounts.users.update(ada.id, { disabled: false })
    await t.rejects(accounts.tokens.principalOf(second.token, http), { code: 'unauthenticated' })

    const third = await session()
    await accounts.users.update(ada.id, { username: 'lovelace' })
    t.equal(third.principal.signal.aborted, true)
    await t.rejects(accounts.tokens.principalOf(third.token, http), refused('account_missing'))
    await accounts.users.update(ada.id, { username: 'ada' })
    await t.rejects(accounts.tokens.principalOf(third.token, http), { code: 'unauthenticated' })

    const fourth = await session()
    await accounts.users.update(ada.id, { permission: 1 })
    t.equal(fourth.principal.signal.aborted, true, 'a principal ends when its permissions change')
    const refreshed = await accounts.tokens.principalOf(fourth.token, http)
    t.match(refreshed, { permissions: 1 })
    t.equal(refreshed.signal.aborted, false, 'the session continues with the new permissions')
    await accounts.users.update(ada.id, { basePath: '/home' })
    t.equal(refreshed.signal.aborted, true)

    const last = await accounts.tokens.principalOf(fourth.token, http)
    await accounts.users.delete(ada.id)
    t.equal(last.signal.aborted, true)
    await accounts.users.create(newUser({}))
    await t.rejects(accounts.tokens.principalOf(fourth.token, http), refused('account_missing'))
  },
)

void t.test('a change by another process revokes principals of this process', async (t) => {
  const { accounts, file, clock, ada } = await fixture(t)
  const other = (await openAccounts(t, file, clock)).accounts
  const principal = await accounts.signIn.byPassword(credentials(), webdav)
  await other.users.update(ada.id, { permission: 3 })
  await ended(principal)
  const next = await accounts.signIn.byPassword(credentials(), webdav)
  t.match(next, { permissions: 3 })
  await other.users.delete(ada.id)
  await ended(next)
  await t.rejects(accounts.signIn.byPassword(credentials(), webdav), wrong)
})

void t.test('several processes accept an imported password at once, and store one new hash', async (t) => {
  const { store, file, clock, ada } = await fixture(t)
  const imported = `$2y$${hashSync('neap tide', 4).slice(4)}`
  await store.users.change(ada.id, () => ({ passwordHash: imported }))
  const processes = await Promise.all([1, 2, 3].map(() => openAccounts(t, file, clock)))
  const signIns = processes.map(({ accounts }) =>
    accounts.signIn.byPassword(credentials({ plain: 'neap tide' }), webdav),
  )
  t.same(
    (await Promise.all(signIns)).map(({ username }) => username),
    ['ada', 'ada', 'ada'],
  )
  const stored = (await store.users.all()).find(({ id }) => id === ada.id)
  t.match(stored?.passwordHash, /^scrypt\$/)
  const costs = ['04', '12', '13', '31'].map((cost) => isBcrypt(`$2a$${cost}$${'a'.repeat(53)}`))
  t.same(costs, [true, true, false, false], 'each attempt at a higher cost would take seconds')
})

void t.test('an imported password is right whose hash another process replaces while it is compared', async (t) => {
  const { store, file, clock, ada } = await fixture(t)
  await store.users.change(ada.id, () => ({ passwordHash: `$2y$${hashSync('neap tide', 12).slice(4)}` }))
  const replaced = await hashPassword(staticHash('neap tide'))
  const { accounts } = await openAccounts(t, file, clock)
  const signIn = accounts.signIn.byPassword(credentials({ plain: 'neap tide' }), webdav)
  await store.users.change(ada.id, () => ({ passwordHash: replaced }))
  t.equal((await signIn).username, 'ada')
})

void t.test('an imported password signs in, and keeps its hash, where a new one cannot be stored', async (t) => {
  const { store, file, clock, ada } = await fixture(t)
  const imported = `$2y$${hashSync('neap tide', 4).slice(4)}`
  await store.users.change(ada.id, () => ({ passwordHash: imported }))
  const { accounts, store: full } = await openAccounts(t, file, clock)
  full.users.change = () => Promise.reject(new GatewayError('no_space'))
  for (let attempt = 0; attempt < 6; attempt++) {
    const signIn = accounts.signIn.byPassword(credentials({ plain: 'neap tide', address: '192.0.2.7' }), webdav)
    t.equal((await signIn).username, 'ada')
  }
  t.equal((await store.users.all()).find(({ id }) => id === ada.id)?.passwordHash, imported)
})

void t.test('users: an invalid field or change is rejected with its reason', async (t) => {
  const { accounts, ada, admin } = await fixture(t)
  const { users } = accounts
  for (const [fields, reason] of [
    [{ role: 'guest' }, 'an admin or a guest cannot be created'],
    [{ role: 'admin' }, 'an admin or a guest cannot be created'],
    [{ username: 'bob', password: '' }, 'an empty password is not accepted'],
    [{ username: '' }, 'a user needs a name'],
    [{ username: 'a:b' }, 'a user name cannot hold control characters or colons'],
    [{ username: 'a\nb' }, 'a user name cannot hold control characters or colons'],
    [{ username: 'é'.repeat(128) }, 'the user name is too long'],
    [{ username: 'bob', permission: allPermissions + 1 }, `a permission is a number from 0 to ${allPermissions}`],
    [{ username: 'bob', permission: -1 }, `a permission is a number from 0 to ${allPermissions}`],
    [{ username: 'bob', basePath: '/a/../..' }, 'a path cannot hold ".."'],
  ] as const) {
    await t.rejects(users.create(newUser(fields)), { code: 'invalid', reason })
  }
  await t.rejects(users.create(newUser({})), { code: 'exists', reason: 'a user of this name exists already' })
  t.equal((await users.create(newUser({ username: 'bob', basePath: 'home//bob/' }))).basePath, '/home/bob')
  await t.rejects(users.update(ada.id, { username: 'bob' }), { code: 'exists' })
  await t.rejects(users.update(ada.id, { role: 'admin' }), { code: 'invalid', detail: 'role_changed' })
  await t.rejects(users.update(ada.id, { password: '' }), { code: 'invalid' })
  await t.rejects(users.update(admin.id, { disabled: true }), {
    code: 'invalid',
    detail: 'admin_disabled',
  })
  await t.rejects(users.update(99, { ssoId: '' }), { code: 'not_found', reason: 'there is no such row' })
  await t.rejects(users.delete(admin.id), { code: 'invalid', detail: 'built_in_deleted' })
  await t.rejects(users.delete(99), { code: 'not_found' })
  t.same(
    users.list().map(({ username }) => username),
    ['admin', 'guest', 'ada', 'bob'],
  )
})

void t.test(
  'two-step verification: sign-in asks for a code, a code works once, and other protocols reject the password alone',
  async (t) => {
    const { accounts, ada, clock } = await fixture(t)
    const before = await accounts.signIn.byPassword(credentials(), webdav)
    const secret = newOtpSecret()
    t.match(otpUri(secret, 'ada'), /^otpauth:\/\/totp\/Tidegate:ada\?.*issuer=Tidegate/)
    const token = await accounts.signIn.issueToken(credentials())
    await accounts.users.update(ada.id, { otpSecret: secret })
    t.equal(before.signal.aborted, true, 'principals that signed in with the password alone are revoked')
    await accounts.tokens.principalOf(token, http)

    const codeAt = (offset: number): string => generateSync({ secret, epoch: Math.floor(clock.time / 1000) + offset })
    await t.rejects(accounts.signIn.issueToken(credentials()), asked)
    await t.rejects(accounts.signIn.issueToken(credentials({ code: '' })), asked)
    await t.rejects(accounts.signIn.issueToken(credentials({ code: '12345' })), asked)
    await t.rejects(accounts.signIn.issueToken(credentials({ code: codeAt(-90) })), asked)
    await t.rejects(accounts.signIn.issueToken(credentials({ code: codeAt(0), plain: 'wrong' })), wrong)
    await accounts.signIn.issueToken(credentials({ code: codeAt(-30) }))
    await accounts.signIn.issueToken(credentials({ code: codeAt(0) }))
    await t.rejects(accounts.signIn.issueToken(credentials({ code: codeAt(0) })), asked, 'a code works once')
    await t.rejects(accounts.signIn.issueToken(credentials({ code: codeAt(-30) })), asked)
    clock.time += 60_000

    const error = await accounts.signIn.byPassword(credentials(), webdav).catch((error: unknown) => error)
    t.match(error, { code: 'denied', detail: 'code_required' })
    const code = codeAt(0)
    t.match(await accounts.signIn.byPassword(credentials({ code }), sftp), { username: 'ada', protocol: sftp })
    await t.rejects(accounts.signIn.byPassword(credentials({ code }), sftp), asked)
    await accounts.users.update(ada.id, { otpSecret: '' })
    await accounts.signIn.byPassword(credentials(), webdav)
  },
)

void t.test('SSH keys are found by user and blob, record their use, and end sessions when deleted', async (t) => {
  const { accounts, ada, admin, file, clock, store } = await fixture(t)
  const folder = dirname(file)
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(folder, 'key')])
  const line = readFileSync(join(folder, 'key.pub'), 'utf8')
  const key = await accounts.keys.add(ada.id, ' laptop ', line)
  const digest = createHash('sha256').update(key.blob).digest('base64').replace(/=+$/, '')
  t.match(key, { title: ' laptop ', type: 'ssh-ed25519', fingerprint: `SHA256:${digest}` })
  t.same(key.lastUsed, key.added)
  await t.rejects(accounts.keys.add(ada.id, ' laptop ', line), {
    code: 'exists',
    reason: 'key with the same title already exists',
  })
  await t.rejects(accounts.keys.add(ada.id, 'x', 'nonsense'), { code: 'invalid', reason: /^provided key invalid/ })
  await t.rejects(accounts.keys.add(ada.id, '', line), { code: 'invalid' })
  await t.rejects(accounts.keys.add(999, 'x', line), { code: 'not_found' })
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(folder, 'other')])
  const otherLine = readFileSync(join(folder, 'other.pub'), 'utf8')
  const more = Array.from({ length: 110 }, (_, number) => accounts.keys.add(admin.id, `key ${number}`, otherLine))
  const added = (await Promise.allSettled(more)).filter(({ status }) => status === 'fulfilled')
  t.equal(added.length, 100, 'more than 100 keys of one account')
  await t.rejects(accounts.keys.add(admin.id, 'one more', otherLine), { code: 'too_large', reason: /at most 100 keys/ })

  t.equal(accounts.signIn.findKey('ada', key.blob)?.id, key.id)
  t.equal(accounts.signIn.findKey('admin', key.blob), undefined)
  t.equal(accounts.signIn.findKey('nobody', key.blob), undefined)
  t.same((await store.keys.all())[0]?.lastUsed, key.added, 'a look-up records no use')
  clock.time += 5000
  const principal = await accounts.signIn.byKey(key, sftp)
  t.match(principal, { username: 'ada', protocol: sftp })
  t.same((await store.keys.all())[0]?.lastUsed, new Date(clock.time))

  await accounts.users.update(ada.id, { password: 'another one' })
  t.equal(principal.signal.aborted, false, 'a key does not depend on the password')
  await t.rejects(accounts.keys.delete(admin.id, key.id), { code: 'not_found', reason: 'there is no such key' })
  const other = (await openAccounts(t, file, clock)).accounts
  await other.keys.delete(ada.id, key.id)
  await ended(principal)
  await t.rejects(accounts.signIn.byKey(key, sftp), { code: 'unauthenticated' })

  const again = await accounts.keys.add(ada.id, 'again', line)
  const last = await accounts.signIn.byKey(again, sftp)
  const used = (await store.keys.all())[0]?.lastUsed
  await accounts.users.update(ada.id, { disabled: true })
  t.equal(last.signal.aborted, true)
  t.equal(accounts.signIn.findKey('ada', key.blob)?.id, again.id, 'a public key proves nothing, so it tells nothing')
  t.equal(accounts.signIn.findKey('ada', Buffer.from('another')), undefined)
  clock.time += 5000
  await t.rejects(accounts.signIn.byKey(again, sftp), disabled)
  t.same((await store.keys.all())[0]?.lastUsed, used, 'a refused sign-in is no use')
  await accounts.users.delete(ada.id)
  t.same(accounts.keys.list(ada.id), [])
})
