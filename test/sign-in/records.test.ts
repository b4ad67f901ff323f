/** What the audit, the metrics and the log have of sign-ins by others. */
import t, { type Test } from 'tap'
import { EgressGuard } from '../../src/net/egress.js'
import { SingleSignOn } from '../../src/sign-in/single-sign-on.js'
import { Browser, posted } from './browser.js'
import { LyingProvider } from './lying-provider.js'
import { serveSite, useProvider } from './site.js'

async function withProvider(t: Test) {
  const site = await serveSite(t)
  const provider = await LyingProvider.start(t)
  const use = (settings: Readonly<Record<string, string>> = {}) => useProvider(site, provider.issuer, settings)
  const is = (sub: string, claims: object = {}) =>
    Object.assign(provider, { claims: { sub, preferred_username: sub, ...claims }, userinfo: { sub } })
  return { site, provider, use, is }
}

void t.test('accounts that a sign-in makes, links, and makes admin or no longer, are in the audit', async (t) => {
  const { site, use, is } = await withProvider(t)
  const { accounts, audit } = site.gateway
  await use({ sso_auto_register: 'true', sso_admin_groups: 'root', sso_oidc_username_key: 'sub' })
  await site.as('former', [])
  await accounts.users.update(accounts.users.byName('former')?.id ?? 0, { ssoId: 'old-1' })
  const events: object[] = []
  audit.on(({ kind, actor, subject, fields, result }) => {
    if (kind === 'admin.user') events.push({ by: actor.name, subject, fields, result })
  })
  const signIn = async (sub: string, claims: object = {}) => {
    is(sub, claims)
    posted((await new Browser().go(`${site.url}/api/auth/sso?method=sso_get_token`)).body, 'token')
    return events.splice(0)
  }
  const change = (subject: string, ...fields: readonly string[]) => ({
    by: 'gateway:',
    subject,
    fields,
    result: 'done',
  })
  t.same(await signIn('new-1'), [change('new-1', 'username', 'identity')])
  t.same(await signIn('new-1'), [])
  t.same(await signIn('new-1', { groups: ['root'] }), [change('new-1', 'becomes admin')])
  t.same(await signIn('new-1', { groups: ['root'] }), [])
  t.same(await signIn('new-1', { groups: [] }), [change('new-1', 'is admin no more')])
  t.same(await signIn('old-1'), [change('former', 'identity')])

  const browser = new Browser()
  const isStart = (to: URL) => to.pathname === '/'
  is('new-1', { auth_time: Math.floor(Date.now() / 1000) })
  await browser.go(`${site.url}/api/auth/sso?method=console`, {}, isStart)
  is('second')
  await browser.go(`${site.url}/api/auth/sso?method=link`, {}, isStart)
  t.same(events, [{ by: 'new-1', subject: 'new-1', fields: ['identity'], result: 'done' }], 'a link of the user')
})

void t.test('sign-ins are counted by what has proved the user', async (t) => {
  const { site, use, is } = await withProvider(t)
  await use({ sso_auto_register: 'true' })
  const counts = async () => {
    const lines = (await site.gateway.metrics.text()).split('\n')
    const entries = lines.flatMap((line) => {
      const [, by, count] = /^tidegate_sign_ins_total\{by="([^"]+)"\} (\d+)$/.exec(line) ?? []
      return by === undefined ? [] : [[by, Number(count)] as const]
    })
    return Object.fromEntries(entries)
  }
  const before = await counts()
  is('ada')
  posted((await new Browser().go(`${site.url}/api/auth/sso?method=sso_get_token`)).body, 'token')
  const actor = { name: 'ann', protocol: 'sftp' }
  for (const credential of ['key:3', 'app:4', 'password', 'console:5']) {
    await site.gateway.audit.record({ kind: 'signin.ok', actor: { ...actor, credential }, result: 'done' })
  }
  for (const subject of ['passkey', 'ldap']) {
    await site.gateway.audit.record({ kind: 'signin.ok', actor, subject, result: 'done' })
  }
  await site.gateway.audit.record({ kind: 'signin.refused', actor, subject: 'ldap', result: 'refused' })
  t.same(await counts(), {
    ...{ password: (before.password ?? 0) + 2, 'ssh key': 1, 'app password': 1 },
    ...{ passkey: 1, provider: 1, directory: 1 },
  })
})

void t.test('the log has the reason of each sign-in that the provider or its settings refuse, once', async (t) => {
  const { site, provider, use } = await withProvider(t)
  const lines: object[] = []
  const log = { info: () => undefined, warn: (facts: object) => void lines.push(facts) }
  const egress = new EgressGuard(() => '127.0.0.0/8')
  const { accounts, settings, store, audit } = site.gateway
  const sso = new SingleSignOn({ accounts, settings, store, audit, egress, log })
  const from = { secret: undefined, address: '192.0.2.7', userAgent: '' }
  const begin = (method: 'console' | 'get_sso_id') =>
    sso.begin({ method, redirectUri: `${site.url}/api/auth/sso_callback`, after: '/' }, from, false)
  const signIn = async (method: 'console' | 'get_sso_id') => {
    const { page, secret } = await begin(method)
    const { headers } = await fetch(page, { redirect: 'manual' })
    return sso.complete(new URL(headers.get('location') ?? '').searchParams, { ...from, secret })
  }
  await use()
  provider.claims = { aud: 'somebody else' }
  await t.rejects(signIn('get_sso_id'), { code: 'invalid' })
  t.match(lines.splice(0), [{ address: '192.0.2.7', error: 'provider_failed', reason: /not accepted/ }])
  await t.rejects(signIn('console'), { code: 'invalid' })
  t.same(lines.splice(0), [], 'this one is logged as a refused sign-in')
  await useProvider(site, 'http://127.0.0.1:1')
  await t.rejects(begin('console'), { code: 'invalid' })
  t.match(lines.splice(0), [{ error: 'provider_failed', reason: /ECONNREFUSED/ }])
  await use({ sso_login_enabled: 'false' })
  await t.rejects(begin('console'), { detail: 'provider_off', code: 'denied' })
  t.same(lines, [], 'nothing is wrong')
})
