/** One network that begins sign-ins at the provider, or completes them, without end. */
import t from 'tap'
import { begunLimit } from '../../src/sign-in/beginnings.js'
import { LyingProvider } from './lying-provider.js'
import { serveSite, useProvider } from './site.js'

const from = (address: string) => ({ secret: undefined, address, userAgent: 'test' })

void t.test('one network cannot begin sign-ins at the provider without end, nor keep others from it', async (t) => {
  const site = await serveSite(t)
  const provider = await LyingProvider.start(t)
  await useProvider(site, provider.issuer)
  const { singleSignOn } = site.gateway
  const how = { method: 'console', redirectUri: `${site.url}/api/auth/sso_callback`, userId: undefined } as const
  const begin = (address: string) => singleSignOn.begin({ ...how, after: '/' }, from(address), false)
  for (let count = 0; count < begunLimit.count; count++) await begin('127.0.0.1')
  const answer = await fetch(`${site.url}/api/auth/sso?method=sso_get_token`)
  t.match(await answer.json(), { code: 429, error: 'sign_in_throttled' })
  t.ok(Number(answer.headers.get('retry-after')) > 0)
  await t.resolves(begin('192.0.2.9'))
})
