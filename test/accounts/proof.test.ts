/** Sign-ins that a provider, a directory or a passkey proves, and what such accounts lose without them. */
import { mock } from 'node:test'
import { generateSync } from 'otplib'
import { allPermissions } from '../../src/accounts/principal.js'
import { http } from '../../protocols/http/index.js'
import { webdav } from '../../protocols/webdav/index.js'
import type { MadeSession, SignInProof, Proved } from '../../src/accounts/proof.js'
import { GatewayError } from '../../src/base/errors.js'
import type { UserRow } from '../../src/database/tables/accounts.js'
import { credentials, fixture, openAccounts } from './accounts-fixture.js'
import t from 'tap'
import '../fast-hashes.js'

const address = '192.0.2.7'
const secret = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
const shown = { kind: 'oidc', issuer: 'https://idp.test', subject: '1', name: 'Ada' } as const
const newcomer = { basePath: '/', role: 'general', permission: allPermissions, disabled: false, ssoId: '' } as const

function proof(user: UserRow, fields: Partial<SignInProof & Proved> = {}): SignInProof {
  const { hasTwoStep = false, onSession, ...others } = fields
  const prove = () => Promise.resolve({ user, hasTwoStep, onSession })
  return { kind: 'oidc', username: '', address, prove, ...others }
}

void t.test('a proof opens sessions of its account, which are told apart', async (t) => {
  const { accounts, ada } = await fixture(t)
  const made: MadeSession[] = []
  const by = proof(ada, { onSession: async (session) => void made.push(session) })
  const token = await accounts.signIn.issueToken(by)
  const { row, secret: cookie } = await accounts.signIn.openConsoleSession(by, { userAgent: 'x' })
  t.match(await accounts.tokens.principalOf(token, http), { userId: ada.id, credential: made[0]?.credential })
  t.match(await accounts.consoleSessions.principalOf(cookie, http), { userId: ada.id })
  t.match(made, [{ credential: /^token:/ }, { credential: `console:${row.id}`, expires: row.expires }])
  const [first] = made
  await accounts.tokens.revokeId(ada.id, first?.credential.slice('token:'.length) ?? '', first?.expires ?? new Date())
  await t.rejects(accounts.tokens.principalOf(token, http), { code: 'unauthenticated', detail: 'token_revoked' })
})

void t.test('a failed proof is logged with what proves, and an account that cannot be used is refused', async (t) => {
  const { accounts, ada, warnings } = await fixture(t)
  const refused = new GatewayError('denied', { op: 'sign in', reason: 'no' })
  await t.rejects(accounts.signIn.issueToken(proof(ada, { prove: () => Promise.reject(refused) })), refused)
  t.match(warnings, [{ by: 'oidc', address, reason: 'no' }])
  await accounts.users.update(ada.id, { disabled: true })
  const disabled = accounts.users.get(ada.id) ?? ada
  await t.rejects(accounts.signIn.issueToken(proof(disabled)), { code: 'denied', detail: 'account_disabled' })
})

void t.test('the code of the account is asked unless the proof counts as two-step verification', async (t) => {
  const {
    accounts,
    clock,
    ada: { id },
  } = await fixture(t)
  const ada = await accounts.users.update(id, { otpSecret: secret })
  const asked = { code: 'unauthenticated', detail: 'code_required' }
  await t.rejects(accounts.signIn.issueToken(proof(ada)), asked)
  await t.resolves(accounts.signIn.issueToken(proof(ada, { code: generateSync({ secret, epoch: clock.time / 1000 }) })))
  await t.resolves(accounts.signIn.issueToken(proof(ada, { hasTwoStep: true })))
})

void t.test('a proof that counts as two-step verification satisfies a group that requires it', async (t) => {
  const { accounts, ada, file, clock } = await fixture(t)
  const group = { name: 'staff', description: '', permission: 0, admin: false, members: [ada.id] }
  await accounts.groups.create({ ...group, requireTwoStep: true })
  const refused = { code: 'denied', detail: 'two_step_set_up_required' }
  const weak = await accounts.signIn.issueToken(proof(ada))
  const strong = await accounts.signIn.issueToken(proof(ada, { hasTwoStep: true }))
  const { secret: cookie } = await accounts.signIn.openConsoleSession(proof(ada, { hasTwoStep: true }), {
    userAgent: '',
  })
  const other = await openAccounts(t, file, clock)
  for (const each of [accounts, other.accounts]) {
    await t.rejects(each.tokens.principalOf(weak, http), refused)
    for (const again of [false, true]) {
      await t.resolves(each.tokens.principalOf(strong, http), again ? 'from the cache' : 'the first time')
    }
    await t.resolves(each.consoleSessions.principalOf(cookie, http))
  }
})

void t.test('a proof of another account does not confirm a session of the console', async (t) => {
  const { accounts, ada, admin } = await fixture(t)
  const { secret: cookie } = await accounts.signIn.openConsoleSession(proof(ada), { userAgent: '' })
  await t.resolves(accounts.signIn.confirmConsoleSession(cookie, proof(ada)))
  await t.rejects(accounts.signIn.confirmConsoleSession(cookie, proof(admin)), { code: 'unauthenticated' })
})

void t.test('an account that a provider has made loses other credentials until it signs in there', async (t) => {
  const { accounts, clock, settings } = await fixture(t)
  const { identities } = accounts
  const eve = await accounts.users.create({ ...newcomer, username: 'eve', identity: identities.newRow(shown, true) })
  const [identity] = identities.of(eve.id)
  if (identity === undefined) throw new Error('it was not linked')
  t.equal(identities.find(shown.issuer, shown.subject), identity)
  await t.rejects(accounts.signIn.issueToken(credentials({ username: 'eve', plain: '' })), {
    code: 'unauthenticated',
    detail: 'wrong_credentials',
  })
  const app = { name: 'phone', protocols: ['webdav'], readOnly: false }
  const { password } = await accounts.appPasswords.add(eve.id, app)
  const mount = () => accounts.signIn.byPassword(credentials({ username: 'eve', plain: password }), webdav)
  const token = await accounts.signIn.issueToken(proof(eve))
  await mount()
  clock.time += 7 * 24 * 3600_000
  const due = { code: 'denied', detail: 'provider_sign_in_due' }
  await t.rejects(mount(), due)
  await accounts.users.update(eve.id, { password: 'a password of its own' })
  await t.rejects(accounts.signIn.issueToken(credentials({ username: 'eve', plain: 'a password of its own' })), due)
  await settings.set(new Map([['sso_recheck_days', '0']]))
  await t.resolves(mount())
  await settings.set(new Map([['sso_recheck_days', '7']]))
  await identities.signedIn(identity)
  await t.resolves(mount())
  await identities.lookedUp(identity, false)
  await t.rejects(mount(), due, 'the account has ended there')
  await settings.set(new Map([['sso_recheck_days', '0']]))
  await t.rejects(mount(), due, 'whatever the days')
  await identities.lookedUp(identity, true)
  await t.resolves(mount())
  t.type(token, 'string')
})

void t.test('an end at the provider that cannot be stored at first ends sessions all the same', async (t) => {
  const { accounts, store, file, clock } = await fixture(t)
  const { identities, tokens } = accounts
  const eve = await accounts.users.create({ ...newcomer, username: 'eve', identity: identities.newRow(shown, true) })
  const [identity] = identities.of(eve.id)
  if (identity === undefined) throw new Error('it was not linked')
  const token = await accounts.signIn.issueToken(proof(eve))
  const failure = new GatewayError('unavailable', { reason: 'the database is gone' })
  const fails = () => Promise.reject(failure)

  mock.method(store.users, 'change', fails, { times: 1 })
  await t.rejects(accounts.ended(identity), failure)
  await t.resolves(tokens.principalOf(token, http))
  mock.method(store.identities, 'see', fails, { times: 1 })
  await t.rejects(accounts.ended(identity), failure)
  t.same(identities.get(identity.id), identity, 'nothing is recorded')
  await t.rejects(tokens.principalOf(token, http), { code: 'unauthenticated' })

  await accounts.ended(identity)
  const other = await openAccounts(t, file, clock)
  for (const each of [accounts, other.accounts]) t.equal(each.identities.isDue(eve.id, 'provisioned'), true)
  const { passwordTime } = accounts.users.get(eve.id) ?? eve
  await accounts.ended(identity)
  t.equal(accounts.users.get(eve.id)?.passwordTime, passwordTime, 'once it is known, it ends nothing')
})

void t.test('an identity that was linked to a local account takes nothing from it', async (t) => {
  const { accounts, ada, clock } = await fixture(t)
  const identity = await accounts.identities.link(ada.id, shown)
  await t.rejects(accounts.identities.link(ada.id, shown), { code: 'exists' })
  clock.time += 30 * 24 * 3600_000
  await t.resolves(accounts.signIn.issueToken(credentials()))
  await t.rejects(accounts.identities.unlink(ada.id + 1, identity.id), { code: 'not_found' })
  await accounts.identities.unlink(ada.id, identity.id)
  t.equal(accounts.identities.find(shown.issuer, shown.subject), undefined)
})

void t.test('another identity does not outlive that with which the account was made', async (t) => {
  const { accounts, clock, settings } = await fixture(t)
  const { identities } = accounts
  const eve = await accounts.users.create({ ...newcomer, username: 'eve', identity: identities.newRow(shown, true) })
  const own = await identities.link(eve.id, { ...shown, kind: 'oauth', issuer: 'https://github.test' })
  const [company] = identities.of(eve.id)
  if (company === undefined) throw new Error('it was not linked')
  const { password } = await accounts.appPasswords.add(eve.id, { name: 'x', protocols: ['webdav'], readOnly: false })
  const mount = () => accounts.signIn.byPassword(credentials({ username: 'eve', plain: password }), webdav)
  const group = { name: 'staff', description: '', permission: 0, admin: false, members: [eve.id] }
  const { id: staff } = await accounts.groups.create({ ...group, requireProvider: true })
  await t.resolves(accounts.signIn.issueToken(proof(eve)))
  await t.resolves(mount())
  const due = { code: 'denied', detail: 'provider_sign_in_due' }
  const isRefused = async (why: string) => {
    await identities.signedIn(own)
    await t.rejects(accounts.signIn.issueToken(proof(eve, { kind: 'oauth' })), due, why)
    await t.rejects(mount(), due, why)
  }
  await identities.lookedUp(company, false)
  await isRefused('it has ended')
  await accounts.groups.delete(staff)
  await isRefused('in no group')
  await identities.signedIn(company)
  await t.resolves(accounts.signIn.issueToken(proof(eve)))
  clock.time += 7 * 24 * 3600_000
  await isRefused('it was not confirmed for too long')
  await settings.set(new Map([['sso_recheck_days', '0']]))
  await t.resolves(accounts.signIn.issueToken(proof(eve)))
})

void t.test('members of a group that requires a provider sign in there only, the built-in admin anyhow', async (t) => {
  const { accounts, ada, admin, clock } = await fixture(t)
  const app = { name: 'phone', protocols: ['webdav'], readOnly: false }
  const { password } = await accounts.appPasswords.add(ada.id, app)
  const mount = () => accounts.signIn.byPassword(credentials({ plain: password }), webdav)
  const group = { name: 'staff', description: '', permission: 0, admin: false, members: [ada.id, admin.id] }
  await accounts.groups.create({ ...group, requireProvider: true })
  const refused = { code: 'denied', detail: 'provider_required' }
  await t.rejects(accounts.signIn.issueToken(credentials()), refused)
  await t.rejects(accounts.signIn.issueToken(proof(ada, { kind: 'passkey' })), refused)
  await t.rejects(mount(), refused, 'it has no identity')
  await accounts.identities.link(ada.id, shown)
  await t.resolves(mount())
  await t.resolves(accounts.signIn.issueToken(proof(ada)))
  await t.rejects(accounts.signIn.issueToken(credentials({ plain: 'wrong' })), {
    code: 'unauthenticated',
    detail: 'wrong_credentials',
  })
  clock.time += 7 * 24 * 3600_000
  await t.rejects(mount(), { code: 'denied', detail: 'provider_sign_in_due' })
  await t.resolves(accounts.signIn.issueToken(credentials({ username: 'admin', plain: 'admin password' })))
})
