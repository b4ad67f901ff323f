/** Identities, sessions of providers, passkeys and pending sign-ins in the database. */
import t, { type Test } from 'tap'
import type { WhichSessions } from '../../src/database/identities.js'
import { maxPending, type PendingSignIn } from '../../src/database/pending-sign-ins.js'
import { openStore } from '../../src/database/store.js'
import type { Store } from '../../src/database/tables.js'
import { engines } from './engines.js'
import { identityRow, passkeyRow, userRow } from './store-rows.js'

const now = new Date(10_000)

function pending(fields: Partial<PendingSignIn>): PendingSignIn {
  return { id: 'a', purpose: 'provider', network: '192.0.2.1', data: { n: 1 }, expires: new Date(11_000), ...fields }
}

for (const engine of engines) {
  void t.test(`sign-ins by others on ${engine.name}`, { skip: engine.skip }, async (s) => {
    const fresh = async (t: Test): Promise<Store> => {
      const store = await openStore(await engine.newDatabase(t))
      t.teardown(() => store.close())
      return store
    }

    void s.test('an identity belongs to one user, and is deleted with it and its sessions', async (t) => {
      const { users, identities, providerSessions } = await fresh(t)
      const ada = await users.insert(userRow({ username: 'ada' }))
      const row = { ...identityRow({ userId: ada.id, subject: 'b' }) }
      const { userId: _, ...ofBob } = identityRow({ subject: 'a', provisioned: true })
      const bob = await users.insert(userRow({ username: 'bob' }), { identity: ofBob })
      const added = await identities.add(row, 1)
      t.match(await identities.all(), [{ ...ofBob, userId: bob.id }, { ...row }])
      t.equal(await identities.add({ ...row, subject: 'c' }, 1), undefined, 'no more than that')
      await t.rejects(identities.add({ ...row, userId: bob.id }, 9), { code: 'exists' })
      await t.rejects(users.insert(userRow({ username: 'eve' }), { identity: ofBob }), { code: 'exists' })
      t.match(await users.all(), [{ username: 'ada' }, { username: 'bob' }], 'all of it, or nothing')
      await identities.see(added?.id ?? 0, { checked: new Date(5) })
      t.match(await identities.all(), [{}, { lastUsed: row.lastUsed, checked: new Date(5) }])

      const session = {
        identityId: added?.id ?? 0,
        credential: 'console:1',
        sid: 's',
        idToken: undefined,
        expires: now,
      }
      await providerSessions.insert(session)
      await providerSessions.insert({ ...session, credential: 'console:2', sid: undefined, expires: new Date(20_000) })
      await t.rejects(providerSessions.insert(session), { code: 'exists' })
      t.match(await providerSessions.ofCredential('console:1'), session)
      await providerSessions.insert({ ...session, credential: 'reserved:x' })
      t.equal(await providerSessions.open('reserved:y', { credential: 'console:3', expires: now }), false)
      t.equal(await providerSessions.open('reserved:x', { credential: 'console:3', expires: now }), true)
      t.match(await providerSessions.ofCredential('console:3'), { ...session, credential: 'console:3' })
      const { identityId } = session
      const ending = async (which: WhichSessions) =>
        (await providerSessions.ending(which)).map(({ userId, credential }) => `${userId} ${credential}`).sort()
      const [one, two, three] = [1, 2, 3].map((id) => `${ada.id} console:${id}`)
      t.same(await ending({ identityId }), [one, two, three])
      t.same(await ending({ issuer: row.issuer, sid: 's' }), [one, three])
      t.same(await ending({ issuer: row.issuer, subject: row.subject }), [one, two, three])
      t.same(await ending({ issuer: row.issuer, subject: ofBob.subject }), [])
      t.same(await ending({ issuer: 'https://other.test', sid: 's' }), [])
      await providerSessions.insert({ ...session, credential: 'reserved:z' })
      t.same(await ending({ issuer: row.issuer, subject: row.subject, sid: 's' }), [one, three])
      t.equal(await providerSessions.open('reserved:z', { credential: 'console:4', expires: now }), false)
      await providerSessions.sweep(now)
      t.same(await ending({ identityId }), [two])
      await users.delete(ada.id)
      t.match(await identities.all(), [{ userId: bob.id }])
      t.same(await ending({ identityId }), [])
    })

    void s.test('a counter of a passkey works once', async (t) => {
      const { users, passkeys } = await fresh(t)
      const { id: userId } = await users.insert(userRow({}))
      const row = await passkeys.add(passkeyRow({ userId, counter: 4 }), 1)
      if (row === undefined) throw new Error('it was not added')
      t.same(await passkeys.all(), [row])
      t.equal(await passkeys.add(passkeyRow({ userId, credentialId: 'other' }), 1), undefined)
      await t.rejects(passkeys.add(passkeyRow({ userId }), 9), { code: 'exists' })
      const shown = { counter: 5, lastUsed: now }
      const uses = await Promise.all([1, 2, 3].map(() => passkeys.use(row, shown)))
      t.same(uses.sort(), [false, false, true])
      t.same(await passkeys.all(), [{ ...row, ...shown }])
      t.same(await passkeys.of(userId), [{ ...row, ...shown }])
      t.same(await passkeys.of(userId + 1), [])
      t.same(await passkeys.withCredentialId(row.credentialId), { ...row, ...shown })
      t.equal(await passkeys.withCredentialId('other'), undefined)
      await users.delete(userId)
      t.same(await passkeys.all(), [])
    })

    void s.test('a pending sign-in is taken once, for its purpose, before it expires', async (t) => {
      const { pendingSignIns } = await fresh(t)
      await pendingSignIns.add(pending({}), now)
      t.equal(await pendingSignIns.take('a', 'passkey', now), undefined)
      const taken = await Promise.all([1, 2, 3].map(() => pendingSignIns.take('a', 'provider', now)))
      t.same(
        taken.filter((each) => each !== undefined),
        [pending({})],
      )
      await pendingSignIns.add(pending({}), now)
      t.equal(await pendingSignIns.take('a', 'provider', new Date(11_000)), undefined, 'it has expired')
      await pendingSignIns.add(pending({}), now)
      await pendingSignIns.sweep(new Date(11_000))
      t.equal(await pendingSignIns.take('a', 'provider', now), undefined, 'it was swept')
    })

    void s.test('pending sign-ins of one network replace its oldest of their purpose', async (t) => {
      const { pendingSignIns } = await fresh(t)
      await pendingSignIns.add(pending({ id: 'other', network: '192.0.2.2' }), now)
      await pendingSignIns.add(pending({ id: 'code', purpose: 'provider-code' }), now)
      for (let n = 0; n <= maxPending.network; n++) {
        await pendingSignIns.add(pending({ id: `${n}`, expires: new Date(20_000 + n) }), now)
      }
      t.equal(await pendingSignIns.take('0', 'provider', now), undefined)
      t.match(await pendingSignIns.take('1', 'provider', now), { id: '1' })
      t.match(await pendingSignIns.take('other', 'provider', now), { id: 'other' })
      t.match(await pendingSignIns.take('code', 'provider-code', now), { id: 'code' })
    })

    void s.test('a flood of pending sign-ins replaces its own', async (t) => {
      const location = await engine.newDatabase(t)
      const store = await openStore(location)
      t.teardown(() => store.close())
      const { pendingSignIns } = store
      const numbers = `with recursive number(n) as (select 1 union all select n + 1 from number where n < 5000)`
      const flood = (network: string, site: string, first: string) =>
        engine.query(
          location,
          `insert into pending_sign_ins (id, purpose, network, site, data, expires) ${numbers}
           select '${first}' || n, 'provider', ${network}, ${site}, '{}', 30000 + n from number`,
        )
      // Each of a network of its own, of which the first half is in one /48.
      await flood(`'2001:db8:1:' || n || '::/64'`, `'2001:db8:1'`, 'v6-')
      await flood(`n`, `n`, 'v4-')
      await pendingSignIns.add(pending({}), now)
      await pendingSignIns.add(pending({ id: 'b', network: '2001:db8:1:5::/64', expires: new Date(40_000) }), now)
      await pendingSignIns.add(pending({ id: 'c', network: '2001:db8:2:1::/64' }), now)
      for (const id of ['a', 'b', 'c', 'v6-3', 'v4-1', 'v4-5000']) {
        t.match(await pendingSignIns.take(id, 'provider', now), { id })
      }
      for (const id of ['v6-1', 'v6-2']) t.equal(await pendingSignIns.take(id, 'provider', now), undefined)
      t.equal(await pendingSignIns.take('v6-5', 'provider', now), undefined, 'its network had two')
    })
  })
}
