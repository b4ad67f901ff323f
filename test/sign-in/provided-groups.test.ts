/** Groups that a provider decides, of accounts that have other ways in, and of two sources. */
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { webdav } from '../../protocols/webdav/index.js'
import { permissionBits } from '../../src/accounts/principal.js'
import { ProvidedAccounts } from '../../src/accounts/provided-accounts.js'
import { applyProvidedGroups } from '../../src/accounts/provided-groups.js'
import { GatewayError } from '../../src/base/errors.js'
import { fixture, newUser, openAccounts } from '../accounts/accounts-fixture.js'
import { Browser, posted } from './browser.js'
import { LyingProvider, type Claims } from './lying-provider.js'
import { serveSite, useProvider } from './site.js'

interface Me {
  readonly username: string
  readonly role: number
  readonly groups: readonly { readonly name: string }[]
}

/** A site with `ann`, who has a password and an identity at the provider, and how she signs in there. */
async function annAtProvider(t: Test, settings: Readonly<Record<string, string>>) {
  const site = await serveSite(t)
  const provider = await LyingProvider.start(t)
  const use = (changes: Readonly<Record<string, string>>) => useProvider(site, provider.issuer, changes)
  await use(settings)
  await site.as('ann', [])
  const { accounts } = site.gateway
  const id = accounts.users.byName('ann')?.id ?? 0
  await accounts.identities.link(id, { kind: 'oidc', issuer: provider.issuer, subject: 'ada-1', name: 'ann' })
  const begin = (claims: Claims, sub = 'ada-1') => {
    Object.assign(provider, { claims, userinfo: { sub } })
    return new Browser().go(`${site.url}/api/auth/sso?method=sso_get_token`)
  }
  const signIn = async (claims: Claims, sub?: string) => {
    const authorization = posted((await begin(claims, sub)).body, 'token')
    return (await site.get('/api/me', { authorization })).data as Me
  }
  const byPassword = () => site.post('/api/auth/login', { username: 'ann', password: 'password' })
  return { accounts, gateway: site.gateway, id, use, begin, signIn, byPassword }
}

void t.test('who is admin by the provider is one only after a sign-in there', async (t) => {
  const { accounts, id, use, signIn, byPassword } = await annAtProvider(t, { sso_admin_groups: 'root' })
  t.match(await signIn({ groups: ['root'] }), { role: 2, groups: [{ name: 'admins by provider' }] })
  t.match(await byPassword(), { code: 400, message: /provider/ }, 'the provider may have taken it away since')
  await use({ sso_update_on_login: 'false' })
  t.match(await signIn({ groups: [] }), { role: 0, groups: [] }, 'whatever is said of other groups')
  t.match(await byPassword(), { code: 200 })
  t.match(await signIn({ groups: ['root'] }), { role: 2 })
  await use({ sso_admin_groups: '' })
  t.match(await signIn({ groups: ['root'] }), { role: 0 }, 'nobody is admin by the provider')
  t.same(accounts.groups.of(id).groups, [])
})

void t.test('the group of admins is the same one, whatever its name is', async (t) => {
  const { accounts, id, signIn } = await annAtProvider(t, { sso_admin_groups: 'root' })
  const { groups } = accounts
  const lookalike = { name: 'Admins by provider', description: '', permission: 0, admin: false, members: [] }
  const other = await groups.create(lookalike)
  t.match(await signIn({ groups: ['root'] }), { role: 2, groups: [{ name: 'admins by provider 2' }] })
  await groups.delete(other.id)
  const [made = 0] = groups.of(id).groups
  for (const name of ['ADMINS BY PROVIDER', 'chiefs']) {
    await groups.update(made, { name })
    t.match(await signIn({ groups: ['root'] }), { role: 2, groups: [{ name }] })
    t.match(await signIn({ groups: [] }), { role: 0, groups: [] }, name)
  }
  await groups.delete(made)
  t.match(await signIn({ groups: ['root'] }), { role: 2, groups: [{ name: 'admins by provider' }] })
})

void t.test('two who are the first admins at once are in one group, also on two nodes', async (t) => {
  const { accounts, file, clock } = await fixture(t)
  const other = await openAccounts(t, file, clock)
  const ids = []
  for (const username of ['ann', 'bob', 'eve']) ids.push((await accounts.users.create(newUser({ username }))).id)
  await other.accounts.reload()
  const provided = { map: {}, admins: ['root'] }
  const join = (at: typeof accounts, userId = 0) =>
    applyProvidedGroups(at, { userId, provisioned: true }, ['root'], provided)
  await Promise.all([join(accounts, ids[0]), join(accounts, ids[1]), join(other.accounts, ids[2])])
  await accounts.reload()
  t.match(accounts.groups.list(), [{ name: 'admins by provider', members: ids }])
  t.equal(accounts.groups.list().length, 1)
})

void t.test('a provider without a group of admins leaves the admins of the directory as they are', async (t) => {
  const { accounts, id, signIn } = await annAtProvider(t, {})
  const shown = { kind: 'ldap', issuer: 'ldap:dc=test', subject: 'uuid', name: 'ann' } as const
  const inDirectory = await accounts.identities.link(id, shown)
  await applyProvidedGroups(accounts, inDirectory, ['cn=root'], { map: {}, admins: ['cn=root'] })
  t.match(await signIn({ groups: [] }), { role: 2, groups: [{ name: 'admins by provider' }] })
  await applyProvidedGroups(accounts, inDirectory, [], { map: {}, admins: ['cn=root'] })
  t.match(await signIn({ groups: ['cn=root'] }), { role: 0, groups: [] })
})

void t.test(
  'who is refused at the provider has no groups of it, and no app passwords if it was made there',
  async (t) => {
    const settings = { sso_required_groups: 'staff', sso_admin_groups: 'root', sso_auto_register: 'true' }
    const { accounts, id, begin, signIn, byPassword } = await annAtProvider(t, settings)
    const isRefused = async (claims: Claims) =>
      t.match((await begin(claims)).body, /a group at the provider of which you are none/)
    t.match(await signIn({ groups: ['staff', 'root'] }), { role: 2 })
    await isRefused({ groups: [] })
    t.same(accounts.groups.of(id).groups, [])
    t.match(await byPassword(), { code: 200 }, 'the account is of this server')

    await accounts.identities.unlink(id, accounts.identities.of(id)[0]?.id ?? 0)
    t.match(await signIn({ groups: ['staff', 'root'], preferred_username: 'bob' }), { role: 2, username: 'bob' })
    const bob = accounts.users.byName('bob')?.id ?? 0
    const { password } = await accounts.appPasswords.add(bob, { name: 'x', protocols: ['webdav'], readOnly: false })
    const mount = () =>
      accounts.signIn.byPassword({ username: 'bob', password: { plain: password }, address: '192.0.2.7' }, webdav)
    await t.resolves(mount())
    await isRefused({ groups: ['root'] })
    await t.rejects(mount(), { code: 'denied', detail: 'provider_sign_in_due' })
    await isRefused({ groups: [] })
    t.same(accounts.groups.of(bob).groups, [])
    t.match(await signIn({ groups: ['staff'] }), { role: 0 })
    await t.resolves(mount())
  },
)

void t.test('groups that the provider does not send take rights away, and lift no restrictions', async (t) => {
  const map = JSON.stringify({ rights: 'rights', steps: 'two steps', chiefs: 'chiefs', denied: 'denied' })
  const { accounts, gateway, id, use, signIn } = await annAtProvider(t, { sso_group_map: map })
  const group = { description: '', permission: 0, admin: false, members: [] }
  await accounts.groups.create({ ...group, name: 'rights', permission: permissionBits.write })
  await accounts.groups.create({ ...group, name: 'two steps', requireTwoStep: true })
  await accounts.groups.create({ ...group, name: 'chiefs', admin: true, requireTwoStep: true, requireProvider: true })
  const denied = await accounts.groups.create({ ...group, name: 'denied' })
  await gateway.grants.replace({ groupId: denied.id }, [{ path: '/secret', allow: [], deny: ['read'] }])
  const names = () => accounts.groups.of(id).groups.map((each) => accounts.groups.get(each)?.name)
  const groups = ['rights', 'steps', 'chiefs', 'denied']
  const overage = { _claim_names: { groups: 'src1' }, _claim_sources: { src1: { endpoint: 'https://x' } } }
  for (const claims of [overage, { ...overage, groups: ['rights'] }, {}, { groups: 7 }]) {
    await signIn({ amr: ['mfa'], groups })
    t.same(names(), ['rights', 'two steps', 'chiefs', 'denied'])
    await signIn({ amr: ['mfa'], ...claims })
    t.same(names(), ['two steps', 'denied'], JSON.stringify(claims))
  }
  await signIn({ amr: ['mfa'], groups: [] })
  t.same(names(), [], 'a claim that says so lifts them')
  await signIn({ amr: ['mfa'], groups })
  await use({ sso_required_groups: 'staff' })
  await accounts.identities.lookedUp(accounts.identities.of(id)[0]!, true)
  await t.rejects(signIn({ amr: ['mfa'], groups: [] }))
  t.same(names(), ['two steps', 'denied'], 'nor does an end of the account there')
})

void t.test('a linked account is made an admin only by a group that requires the provider', async (t) => {
  const map = JSON.stringify({ loose: 'loose admins', strict: 'strict admins' })
  const { accounts, id, signIn, byPassword } = await annAtProvider(t, { sso_group_map: map, sso_auto_register: 'true' })
  const group = { description: '', permission: 0, admin: true, members: [] }
  const loose = await accounts.groups.create({ ...group, name: 'loose admins' })
  await accounts.groups.create({ ...group, name: 'strict admins', requireProvider: true })
  t.match(await signIn({ groups: ['loose', 'strict'] }), { role: 2, groups: [{ name: 'strict admins' }] })
  t.match(await byPassword(), { code: 400, message: /provider/ })
  t.match(await signIn({ groups: ['loose'] }), { role: 0, groups: [] })
  await accounts.groups.update(loose.id, { members: [id] })
  t.match(await signIn({ groups: ['loose'] }), { role: 0, groups: [] }, 'nor does one stay that was given by hand')
  t.match(await byPassword(), { code: 200 })
  const made = { sub: 'new-1', preferred_username: 'new', groups: ['loose'] }
  t.match(await signIn(made, 'new-1'), { username: 'new', role: 2 }, 'the provider has made this account')
  const newId = accounts.users.byName('new')?.id ?? 0
  const elsewhere = { kind: 'oidc', issuer: 'https://other.test', subject: 'new', name: 'new' } as const
  const linked = await accounts.identities.link(newId, elsewhere)
  await applyProvidedGroups(accounts, linked, ['x'], { map: { x: 'loose admins' }, admins: [] })
  t.equal(accounts.groups.of(newId).isAdmin, false, 'another provider has not')
})

void t.test('a look-up that finds a full group takes rights away, and is due again', async (t) => {
  const { accounts, ada, clock } = await fixture(t)
  const shown = { kind: 'ldap', issuer: 'ldap:dc=test', subject: 'uuid', name: 'ada' } as const
  const identity = await accounts.identities.link(ada.id, shown)
  const full = { name: 'full', description: '', permission: 0, admin: false, members: [] }
  const { id: fullId } = await accounts.groups.create(full)
  const recorded: unknown[] = []
  const audit = { record: ({ fields }: { readonly fields?: unknown }) => void recorded.push(fields) }
  const provided = new ProvidedAccounts({ accounts, log: { info: () => undefined }, audit })
  const rules = { map: { full: 'full' }, admins: ['root'], required: [] }
  const lookUp = (...groups: readonly string[]) => provided.lookedUp(identity, { identity: shown, groups }, rules)
  const checked = () => accounts.identities.get(identity.id)?.checked.getTime()

  await lookUp('root')
  t.equal(accounts.groups.of(ada.id).isAdmin, true)
  const before = clock.time
  clock.time += 24 * 3600_000
  const refusal = new GatewayError('invalid', { reason: 'a group can have at most 10000 members' })
  const refuses = () => {
    throw refusal
  }
  mock.method(accounts.groups, 'assertMayJoin', refuses, { times: 1 })
  await t.rejects(lookUp('full'), refusal)
  t.same(accounts.groups.of(ada.id).groups, [])
  t.same(recorded, [['becomes admin'], ['is admin no more']])
  t.equal(checked(), before)
  await lookUp('full')
  t.same(accounts.groups.of(ada.id).groups, [fullId])
  t.equal(checked(), clock.time)
})

void t.test('a sign-in changes no membership that another process changes meanwhile', async (t) => {
  const { accounts, store, ada, file, clock } = await fixture(t)
  const group = { description: '', permission: 0, admin: false, members: [] }
  const [managed, own, given] = [
    await accounts.groups.create({ ...group, name: 'managed' }),
    await accounts.groups.create({ ...group, name: 'own', members: [ada.id] }),
    await accounts.groups.create({ ...group, name: 'given' }),
  ]
  const other = await openAccounts(t, file, clock)
  // What this process has in memory is older than what is stored.
  await other.store.groups.setMembers(own.id, [])
  await other.store.groups.setMembers(given.id, [ada.id])
  const identity = { userId: ada.id, provisioned: false }
  await applyProvidedGroups(accounts, identity, ['there'], { map: { there: 'managed' }, admins: [] })
  const stored = (await store.groups.members()).filter(({ userId }) => userId === ada.id)
  t.same(stored.map(({ groupId }) => groupId).sort(), [managed.id, given.id])
})
