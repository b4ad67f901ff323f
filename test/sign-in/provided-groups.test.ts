/** Groups that a provider decides, of accounts that have other ways in, and of two sources. */
import t, { type Test } from 'tap'
import { webdav } from '../../protocols/webdav/index.js'
import { applyProvidedGroups } from '../../src/accounts/provided-groups.js'
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
  const begin = (claims: Claims) => {
    provider.claims = claims
    return new Browser().go(`${site.url}/api/auth/sso?method=sso_get_token`)
  }
  const signIn = async (claims: Claims) => {
    const authorization = posted((await begin(claims)).body, 'token')
    return (await site.get('/api/me', { authorization })).data as Me
  }
  const byPassword = () => site.post('/api/auth/login', { username: 'ann', password: 'password' })
  return { accounts, id, use, begin, signIn, byPassword }
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

void t.test('a provider without a group of admins leaves the admins of the directory as they are', async (t) => {
  const { accounts, id, signIn } = await annAtProvider(t, {})
  await accounts.identities.link(id, { kind: 'ldap', issuer: 'ldap:dc=test', subject: 'uuid', name: 'ann' })
  await applyProvidedGroups(accounts, id, ['cn=root'], { map: {}, admins: ['cn=root'] })
  t.match(await signIn({ groups: [] }), { role: 2, groups: [{ name: 'admins by provider' }] })
  await applyProvidedGroups(accounts, id, [], { map: {}, admins: ['cn=root'] })
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
