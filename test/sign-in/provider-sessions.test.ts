/** Sessions that a provider ends, on whichever node, and while they are being opened. */
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { http } from '../../protocols/http/index.js'
import type { WhichSessions } from '../../src/database/identities.js'
import { ProviderSessions } from '../../src/sign-in/provider-sessions.js'
import { SingleSignOn } from '../../src/sign-in/single-sign-on.js'
import { fixture, openAccounts } from '../accounts/accounts-fixture.js'
import { until } from '../until.js'

const shown = { kind: 'oidc', issuer: 'https://idp.test', subject: 'ada-1', name: 'ada' } as const
const answer = { ...shown, claims: {}, sid: 'desk', idToken: 'x'.repeat(20_000) }

/** Ada, whose identity is known to a second process too, and her sessions as each of them has them. */
async function twoNodes(t: Test) {
  const one = await fixture(t)
  const identity = await one.accounts.identities.link(one.ada.id, shown)
  const other = await openAccounts(t, one.file, one.clock)
  return { ...one, identity, other, sessions: new ProviderSessions(one), elsewhere: new ProviderSessions(other) }
}

const later = new Date(Date.now() + 3600_000)

void t.test('what another node has opened just now is ended by its user, its session, or both', async (t) => {
  const { accounts, ada, identity, sessions, elsewhere } = await twoNodes(t)
  const open = async () => {
    const { row, secret } = await accounts.consoleSessions.open(ada, { address: '192.0.2.1', userAgent: '' })
    const { id, token } = accounts.tokens.issue(ada)
    for (const credential of [`console:${row.id}`, `token:${id}`] as const) {
      await sessions.open(await sessions.reserve(identity.id, answer, later), ada.id, { credential, expires: later })
    }
    const principal = await accounts.consoleSessions.principalOf(secret, http)
    return { principal, token: await accounts.tokens.principalOf(token, http) }
  }
  const { issuer, subject } = shown
  for (const which of [
    { issuer, subject },
    { issuer, sid: 'desk' },
    { issuer, subject, sid: 'desk' },
  ]) {
    const { principal, token } = await open()
    t.equal(await elsewhere.end({ ...which, sid: 'phone' }), 0, 'another session')
    t.equal(await elsewhere.end({ ...which, issuer: 'https://other.test' }), 0, 'another provider')
    t.ok((await elsewhere.end(which)) >= 2)
    t.ok(await until(() => principal.signal.aborted && token.signal.aborted), JSON.stringify(which))
  }
  t.equal((await sessions.ofCredential('console:1'))?.idToken, undefined, 'a long ID token is not stored')
})

void t.test('a session that is ended while it is opened does not begin', async (t) => {
  const { accounts, ada, identity, sessions, elsewhere } = await twoNodes(t)
  const reserved = await sessions.reserve(identity.id, answer, later)
  const { row } = await accounts.consoleSessions.open(ada, { address: '192.0.2.1', userAgent: '' })
  t.equal(await elsewhere.end({ issuer: shown.issuer, subject: shown.subject }), 0, 'it is not open yet')
  const opening = sessions.open(reserved, ada.id, { credential: `console:${row.id}`, expires: later })
  await t.rejects(opening, { code: 'denied', detail: 'provider_sign_in_expired' })
  t.same(accounts.consoleSessions.list(ada.id), [])
})

void t.test('a session that is opened while its identity is unlinked ends', async (t) => {
  const nodes = await twoNodes(t)
  const { accounts, ada, identity, sessions, store } = nodes
  const log = { info: () => undefined, warn: () => undefined }
  const egress = {
    agentFor: () => {
      throw new Error('nobody is asked')
    },
  }
  const singleSignOn = new SingleSignOn({ ...nodes, egress, log, audit: { record: () => undefined } })
  const { id, token } = accounts.tokens.issue(ada)
  const ending = store.providerSessions.ending.bind(store.providerSessions)
  const endingThenOpened = async (which: WhichSessions) => {
    const ended = await ending(which)
    const made = { credential: `token:${id}`, expires: later } as const
    await sessions.open(await sessions.reserve(identity.id, answer, later), ada.id, made)
    return ended
  }
  mock.method(store.providerSessions, 'ending', endingThenOpened, { times: 1 })
  await singleSignOn.unlink(ada.id, identity.id)
  t.equal(accounts.identities.get(identity.id), undefined)
  await t.rejects(accounts.tokens.principalOf(token, http), { code: 'unauthenticated', detail: 'token_revoked' })
})

void t.test('a logout token is accepted once, on all nodes together', async (t) => {
  const { accounts, ada, identity, sessions, elsewhere } = await twoNodes(t)
  const open = async () => {
    const { id, token } = accounts.tokens.issue(ada)
    const made = { credential: `token:${id}`, expires: later } as const
    await sessions.open(await sessions.reserve(identity.id, answer, later), ada.id, made)
    return accounts.tokens.principalOf(token, http)
  }
  const request = { issuer: shown.issuer, subject: shown.subject, tokenId: 'one', expires: later }
  const first = await open()
  t.equal(await elsewhere.endBy(request), 1)
  t.ok(await until(() => first.signal.aborted))
  const second = await open()
  const again = { code: 'invalid', detail: 'provider_failed', reason: /used before/ }
  for (const each of [sessions, elsewhere]) await t.rejects(each.endBy(request), again)
  t.notOk(second.signal.aborted)
  t.equal(await elsewhere.endBy({ ...request, tokenId: 'two' }), 2)
})
