/** What users have by their groups, while they are signed in. */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { http } from '../../protocols/http/index.js'
import { permissionBits } from '../../src/accounts/principal.js'
import { groupRow } from '../database/store-rows.js'
import { credentials, fixture, openAccounts } from './accounts-fixture.js'

void t.test('the permissions of groups are in force at once, and no session ends', async (t) => {
  const { accounts, store, ada } = await fixture(t)
  await accounts.users.update(ada.id, { permission: 0 })
  const principal = await accounts.byToken(await accounts.signIn(credentials()), http)
  t.equal(principal.hasPermission('remove'), false)
  const one = await store.groups.insert(groupRow({ name: 'one', permission: permissionBits.remove }))
  const two = await store.groups.insert(groupRow({ name: 'two', permission: permissionBits.write }))
  await store.groups.setMembers(one.id, [ada.id])
  await store.groups.setMembers(two.id, [ada.id])
  await accounts.reload()
  t.same(
    (['remove', 'write', 'move'] as const).map((permission) => principal.hasPermission(permission)),
    [true, true, false],
  )
  t.same(principal.membership.groups, [one.id, two.id])
  await store.groups.setMembers(one.id, [])
  await accounts.reload()
  t.equal(principal.hasPermission('remove'), false)
  t.equal(principal.signal.aborted, false)
})

void t.test('members of a group of admins are admins', async (t) => {
  const { accounts, store, ada, admin } = await fixture(t)
  const principal = await accounts.byToken(await accounts.signIn(credentials()), http)
  t.equal(principal.role, 'general')
  t.throws(() => principal.withWholeTree(), { code: 'denied' })
  const { id } = await store.groups.insert(groupRow({ admin: true }))
  await store.groups.setMembers(id, [ada.id])
  await accounts.reload()
  t.equal(principal.role, 'admin')
  t.equal(principal.withWholeTree().role, 'admin')
  t.equal(accounts.users.byUniqueRole('admin')?.id, admin.id, 'the permanent token stays that of the built-in admin')
  await store.groups.delete(id)
  await accounts.reload()
  t.equal(principal.role, 'general')
})

void t.test('a change by another process is known within a moment', async (t) => {
  const { accounts, file, clock, ada } = await fixture(t)
  const principal = await accounts.byToken(await accounts.signIn(credentials()), http)
  const other = await openAccounts(t, file, clock)
  const { id } = await other.store.groups.insert(groupRow({ admin: true }))
  await other.store.groups.setMembers(id, [ada.id])
  for (let n = 0; n < 500 && principal.role !== 'admin'; n++) await wait(20)
  t.equal(principal.role, 'admin')
})

void t.test('a user who becomes granted only is signed out', async (t) => {
  const { accounts, ada } = await fixture(t)
  const principal = await accounts.byToken(await accounts.signIn(credentials()), http)
  t.equal(principal.grantedOnly, false)
  await accounts.users.update(ada.id, { grantedOnly: true })
  t.equal(principal.signal.aborted, true)
  t.equal((await accounts.byToken(await accounts.signIn(credentials()), http)).grantedOnly, true)
})
