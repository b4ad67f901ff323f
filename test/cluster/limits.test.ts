/** Limits of one user hold for all nodes that share a database. */
import t from 'tap'
import { newUser, openAccounts } from '../accounts/accounts-fixture.js'
import { engines } from '../database/engines.js'

for (const engine of engines) {
  void t.test(`limits of a user on ${engine.name}`, { skip: engine.skip }, async (t) => {
    const location = await engine.newDatabase(t)
    const clock = { time: Date.now() }
    const one = await openAccounts(t, location, clock)
    const ada = await one.accounts.users.create(newUser({}))
    const two = await openAccounts(t, location, clock)
    const nodes = [one, two]

    const names = Array.from({ length: 60 }, (_, n) => `n${n}`)
    const app = { protocols: ['webdav'], readOnly: false }
    const added = await Promise.allSettled(
      nodes.flatMap(({ accounts }, node) =>
        names.map((name) => accounts.appPasswords.add(ada.id, { ...app, name: `${name} ${node}` })),
      ),
    )
    t.equal(added.filter(({ status }) => status === 'fulfilled').length, 100)
    t.match(
      added.find(({ status }) => status === 'rejected'),
      { reason: { code: 'invalid' } },
    )

    const browser = { address: '', userAgent: '' }
    const sessions = nodes.flatMap(({ accounts }) => names.map(() => accounts.consoleSessions.open(ada, browser)))
    await Promise.all(sessions)
    t.equal((await one.store.consoleSessions.all()).length, 100)
    await one.accounts.reload()
    t.equal(one.accounts.consoleSessions.list(ada.id).length, 100)
  })
}
