/** Sessions of the console that are confirmed at the provider, and sign-ins during which something else changes. */
import { generateSync } from 'otplib'
import t, { type Test } from 'tap'
import type { SsoMethod } from '../../src/sign-in/browser-sign-ins.js'
import { until } from '../until.js'
import { sessionCookieAt } from '../session-cookie.js'
import { Browser } from './browser.js'
import { LyingProvider } from './lying-provider.js'
import { serveSite, useProvider } from './site.js'

const expired = { code: 'denied', detail: 'provider_sign_in_expired' }
const seconds = () => Math.floor(Date.now() / 1000)

/** A site with `ada`, whom the provider has made, and whose session is not recent. */
async function adaAtConsole(t: Test) {
  const site = await serveSite(t)
  const provider = await LyingProvider.start(t)
  const use = (settings: Readonly<Record<string, string>> = {}) => useProvider(site, provider.issuer, settings)
  await use({ sso_auto_register: 'true' })
  const { accounts, singleSignOn } = site.gateway
  /** Who is at the provider, and how long ago it was asked for a password there. */
  const is = (sub: string, ago: number | undefined, claims: object = {}) => {
    const authTime = ago === undefined ? {} : { auth_time: seconds() - ago }
    Object.assign(provider, { claims: { sub, preferred_username: sub, ...authTime, ...claims }, userinfo: { sub } })
  }
  is('ada', 3600)
  const browser = new Browser()
  await browser.go(`${site.url}/api/auth/sso?method=console`, {}, (to) => to.pathname === '/')
  const headers = {
    authorization: '',
    cookie: `${sessionCookieAt(site.url)}=${browser.cookie(site.url, sessionCookieAt(site.url)) ?? ''}`,
  }
  const ada = accounts.users.byName('ada')!
  const sessions = () => accounts.consoleSessions.list(ada.id)
  const from = { secret: undefined, address: '127.0.0.1', userAgent: '' }
  const begin = (method: SsoMethod = 'confirm') => {
    const begun = { method, redirectUri: `${site.url}/api/auth/sso_callback`, session: sessions()[0]?.id, after: '/@x' }
    return singleSignOn.begin(begun, from, false)
  }
  const answerOf = async ({ page }: Awaited<ReturnType<typeof begin>>) =>
    new URL((await fetch(page, { redirect: 'manual' })).headers.get('location') ?? '').searchParams
  const complete = async (begun: Awaited<ReturnType<typeof begin>>, signal?: AbortSignal) =>
    singleSignOn.complete(await answerOf(begun), { ...from, secret: begun.secret }, signal)
  const isRecent = async () => {
    const change = { name: 'x', protocols: ['webdav'], read_only: false }
    return (await site.post('/api/me/app_password/add', change, headers)).code !== 403
  }
  return { site, provider, use, accounts, singleSignOn, is, ada, sessions, from, begin, complete, isRecent }
}

void t.test('a confirmation at the provider confirms the session that asked for it, and opens no other', async (t) => {
  const { provider, accounts, singleSignOn, is, ada, sessions, from, begin, complete, isRecent } = await adaAtConsole(t)
  t.equal(await isRecent(), false)
  const [session] = sessions()
  is('ada', 1800)
  const begun = await begin()
  t.equal(begun.page.searchParams.get('max_age'), '600', 'the provider is told to ask')
  t.match(await complete(begun), { kind: 'confirmed', after: '/@x' })
  t.equal(await isRecent(), false, 'it has not asked')
  is('ada', undefined)
  t.match(await complete(await begin()), { kind: 'confirmed' })
  t.equal(await isRecent(), false, 'it does not say whether it has')

  is('eve', 1)
  await t.rejects(complete(await begin()), { code: 'denied', detail: 'identity_refused' })
  t.equal(accounts.users.byName('eve'), undefined, 'no account is made for somebody else')
  t.equal(await isRecent(), false)

  const secret = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
  await accounts.users.update(ada.id, { otpSecret: secret })
  is('ada', 1)
  const asked = await begin()
  const outcome = await complete(asked)
  if (outcome.kind !== 'code') throw new Error(outcome.kind)
  t.equal(await isRecent(), false)
  const code = generateSync({ secret })
  const browser = { ...from, secret: asked.secret }
  t.match(await singleSignOn.completeWithCode(outcome.secret, code, browser), { kind: 'confirmed' })
  t.equal(await isRecent(), true)
  t.match(sessions(), [{ id: session?.id }])
  t.equal(sessions().length, 1)

  const late = await begin()
  await accounts.consoleSessions.end(ada.id, session?.id ?? 0)
  await t.rejects(complete(late), expired, 'the session has ended')
  t.ok(provider.requests.length > 0)
})

void t.test('GitHub cannot confirm: it asks nothing while its session goes on', async (t) => {
  const { use, begin } = await adaAtConsole(t)
  await use({ sso_login_platform: 'Github' })
  await t.rejects(begin(), { code: 'invalid', detail: 'provider_failed', reason: /GitHub/ })
  await t.resolves(begin('console'))
})

void t.test('a code of one provider is not sent to another, nor is an ID token', async (t) => {
  const { site, singleSignOn, sessions, begin, complete, use } = await adaAtConsole(t)
  const begun = await begin('console')
  const other = await LyingProvider.start(t)
  other.metadata = { end_session_endpoint: `${other.issuer}/end` }
  await useProvider(site, other.issuer, { sso_logout_provider: 'true' })
  await t.rejects(complete(begun), expired)
  const credential = `console:${sessions()[0]?.id ?? 0}`
  t.equal(await singleSignOn.signOutPage(credential, `${site.url}/@login`), undefined)
  t.notOk(other.requests.includes('/token'))
  await use()
  t.match(await complete(await begin('console')), { kind: 'session' })
})

void t.test('a client that leaves ends what is asked of the provider, and leaves its turn to others', async (t) => {
  const { provider, accounts, begin, complete } = await adaAtConsole(t)
  let asked = 0
  provider.sign = () => {
    asked++
    return new Promise(() => undefined)
  }
  const leaving = new AbortController()
  const left = await Promise.all(Array.from({ length: 6 }, () => begin('console')))
  const waiting = left.map(async (begun) => t.rejects(complete(begun, leaving.signal), { code: 'aborted' }))
  t.ok(await until(() => asked === 4), 'four of a network are asked at once')
  leaving.abort()
  await Promise.all(waiting)
  t.ok(await until(() => provider.left === 4))
  provider.sign = undefined
  t.match(await complete(await begin('console')), { kind: 'session' })
  t.equal(accounts.users.list().filter(({ role }) => role === 'general').length, 1)
})
