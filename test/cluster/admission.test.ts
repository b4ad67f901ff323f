/** Networks, ends and required two-step verification of a user hold at all nodes, for what another node has opened. */
import t from 'tap'
import { http } from '../../protocols/http/index.js'
import { webdav } from '../../protocols/webdav/index.js'
import '../fast-hashes.js'
import { credentials, newUser, openAccounts } from '../accounts/accounts-fixture.js'
import { engines } from '../database/engines.js'
import { until } from '../until.js'

const inside = '192.0.2.7'
const outside = '198.51.100.7'
const group = { name: 'staff', description: '', permission: 0, admin: false, requireTwoStep: true }

for (const engine of engines) {
  void t.test(`a session of one node is asked at another on ${engine.name}`, { skip: engine.skip }, async (t) => {
    const location = await engine.newDatabase(t)
    const clock = { time: Date.now() }
    const one = (await openAccounts(t, location, clock, true)).accounts
    const ada = await one.users.create(newUser({}))
    const two = (await openAccounts(t, location, clock, true)).accounts
    const { secret } = await one.signIn.openConsoleSession(credentials({ address: inside }), { userAgent: '' })
    const token = await one.signIn.issueToken(credentials({ address: inside }))
    const ask = async (address: string) => {
      await two.tokens.principalOf(token, http, { address })
      return two.consoleSessions.principalOf(secret, http, { address })
    }
    const principals = [await ask(outside), await two.signIn.byPassword(credentials({ address: inside }), webdav)]
    const ended = () => principals.every(({ signal }) => signal.aborted)

    await one.users.update(ada.id, { allowFrom: ['192.0.2.0/24'] })
    t.ok(await until(ended), 'a change ends what is open')
    await t.rejects(ask(outside), { code: 'unauthenticated', detail: 'network_refused' })
    principals.push(await ask(inside))

    await one.groups.create({ ...group, members: [ada.id] })
    t.ok(await until(ended))
    await t.rejects(ask(inside), { code: 'denied', detail: 'two_step_set_up_required' })
    await one.users.update(ada.id, { otpSecret: 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567' })
    t.ok(await until(() => two.users.get(ada.id)?.otpSecret !== ''))
    principals.push(await ask(inside))

    await one.users.update(ada.id, { expires: new Date(clock.time + 500) })
    t.ok(await until(ended))
    principals.push(await ask(inside), two.principals.forTask(ada.id))
    clock.time += 500
    t.ok(await until(ended), 'the end of the account ends it at each node')
    await t.rejects(ask(inside), { code: 'unauthenticated', detail: 'account_expired' })
    t.throws(() => two.principals.forTask(ada.id), { code: 'unauthenticated', detail: 'account_expired' })
  })
}
