/** The cache of principals of verified tokens. */
import t from 'tap'
import '../fast-hashes.js'
import { TokenCache } from '../../src/accounts/token-cache.js'
import { http } from '../../protocols/http/index.js'
import { webdav } from '../../protocols/webdav/index.js'
import { credentials, fixture } from './accounts-fixture.js'
import { principal } from './principals.js'

void t.test('a token yields the same principal until it expires or its session ends, for each protocol', async (t) => {
  const { accounts, ada, clock } = await fixture(t)
  const token = await accounts.signIn.issueToken(credentials())
  const first = await accounts.tokens.principalOf(token, http)
  t.equal(await accounts.tokens.principalOf(token, http), first)
  t.match(await accounts.tokens.principalOf(token, webdav), { protocol: webdav })
  t.equal(await accounts.tokens.principalOf(token, http), first)
  await accounts.users.update(ada.id, { permission: 1 })
  const second = await accounts.tokens.principalOf(token, http)
  t.not(second, first)
  t.match(second, { permissions: 1 })
  clock.time += 48 * 3600_000 + 1000
  await t.rejects(accounts.tokens.principalOf(token, http), { code: 'unauthenticated', detail: 'token_expired' })
})

void t.test('the permanent token yields the same principal until it is replaced', async (t) => {
  const { accounts, settings } = await fixture(t)
  const token = settings.get('token')
  const first = await accounts.tokens.principalOf(token, http)
  t.equal(await accounts.tokens.principalOf(token, http), first)
  await settings.resetToken()
  await t.rejects(accounts.tokens.principalOf(token, http), { code: 'unauthenticated', detail: 'token_revoked' })
  t.match(await accounts.tokens.principalOf(settings.get('token'), http), { role: 'admin' })
})

void t.test('the oldest of more than a thousand tokens is dropped', (t) => {
  const cache = new TokenCache(() => 0)
  for (let number = 0; number <= 1000; number++) cache.add(String(number), principal({ userId: number }), 1)
  t.equal(cache.get('0', http), undefined)
  t.match(cache.get('1', http), { userId: 1 })
  t.match(cache.get('1000', http), { userId: 1000 })
  t.end()
})
