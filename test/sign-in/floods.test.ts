/** One network that begins sign-ins at the provider, or completes them, without end. */
import t from 'tap'
import { isGatewayError } from '../../src/base/errors.js'
import { begunLimit } from '../../src/sign-in/pending-sign-ins.js'
import type { Served } from '../protocols/http/served.js'
import { until } from '../until.js'
import { LyingProvider } from './lying-provider.js'
import { serveSite, useProvider } from './site.js'

function begin(site: Served, address: string) {
  const begun = { method: 'console', redirectUri: `${site.url}/api/auth/sso_callback`, after: '/' } as const
  return site.gateway.singleSignOn.begin(begun, { secret: undefined, address, userAgent: 'test' }, false)
}

void t.test('one network cannot begin sign-ins at the provider without end, nor keep others from it', async (t) => {
  const site = await serveSite(t)
  const provider = await LyingProvider.start(t)
  await useProvider(site, provider.issuer)
  for (let count = 0; count < begunLimit.count; count++) await begin(site, '127.0.0.1')
  const answer = await fetch(`${site.url}/api/auth/sso?method=sso_get_token`)
  t.match(await answer.json(), { code: 429, error: 'sign_in_throttled' })
  t.ok(Number(answer.headers.get('retry-after')) > 0)
  await site.gateway.settings.set(new Map([['privacy_regs', 'unsuccessful sign-in']]))
  const accept = 'text/html'
  const page = await fetch(`${site.url}/api/auth/sso?method=sso_get_token`, { headers: { accept } })
  t.equal(page.status, 429)
  t.ok(Number(page.headers.get('retry-after')) > 0, 'a page says it too')
  t.match(await page.text(), `Too many ${'*'.repeat(20)} attempts`, 'and has the masks of the settings')
  await t.resolves(begin(site, '192.0.2.9'))
})

void t.test('codes of one network that the provider does not answer keep no other network waiting', async (t) => {
  const site = await serveSite(t)
  const provider = await LyingProvider.start(t)
  await useProvider(site, provider.issuer, { sso_auto_register: 'true' })
  let release: () => void = () => undefined
  const released = new Promise<void>((resolve) => (release = resolve))
  const address = '192.0.2.1'
  const complete = async (query: URLSearchParams, secret: string, from = address) =>
    site.gateway.singleSignOn.complete(query, { secret, address: from, userAgent: 'test' })
  const proved = async ({ page }: Awaited<ReturnType<typeof begin>>) => {
    const answer = await fetch(page, { redirect: 'manual' })
    return new URL(answer.headers.get('location') ?? '').searchParams
  }
  const other = await begin(site, '192.0.2.9')
  provider.sign = async (claims) => {
    if (claims.nonce !== other.page.searchParams.get('nonce')) await released
    return provider.token(claims)
  }
  const begun = await Promise.all(Array.from({ length: 20 }, () => begin(site, address)))
  const flood = begun.map(async (each) => [await proved(each), each.secret] as const)
  let refused = 0
  const completed = (await Promise.all(flood)).map(async (each) =>
    complete(...each).catch((error: unknown) => {
      if (isGatewayError(error, 'throttled')) refused++
    }),
  )
  await until(() => refused >= 4)
  t.equal(refused, 4, 'sixteen of a network wait, or are redeemed')
  t.match(await complete(await proved(other), other.secret, '192.0.2.9'), { kind: 'session' })
  release()
  await Promise.all(completed)
})
