/** What users have by their groups, while they are signed in. */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { http } from '../../protocols/http/index.js'
import { permissionBits } from '../../src/accounts/principal.js'
import { maxGroups, maxMembers } from '../../src/accounts/groups.js'
import { root } from '../../src/base/path.js'
import { groupOf } from '../../src/installation/import/group.js'
import { ImportedGrants } from '../../src/installation/import/grants.js'
import { groupRow, userRow } from '../database/store-rows.js'
import { credentials, fixture, openAccounts } from './accounts-fixture.js'

void t.test('the permissions of groups are in force at once, and no session ends', async (t) => {
  const { accounts, store, ada } = await fixture(t)
  await accounts.users.update(ada.id, { permission: 0 })
  const principal = await accounts.tokens.principalOf(await accounts.signIn.issueToken(credentials()), http)
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
  const principal = await accounts.tokens.principalOf(await accounts.signIn.issueToken(credentials()), http)
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
  const principal = await accounts.tokens.principalOf(await accounts.signIn.issueToken(credentials()), http)
  const other = await openAccounts(t, file, clock)
  const { id } = await other.store.groups.insert(groupRow({ admin: true }))
  await other.store.groups.setMembers(id, [ada.id])
  for (let n = 0; n < 500 && principal.role !== 'admin'; n++) await wait(20)
  t.equal(principal.role, 'admin')
})

void t.test('a user who becomes granted only is signed out', async (t) => {
  const { accounts, ada } = await fixture(t)
  const principal = await accounts.tokens.principalOf(await accounts.signIn.issueToken(credentials()), http)
  t.equal(principal.grantedOnly, false)
  await accounts.users.update(ada.id, { grantedOnly: true })
  t.equal(principal.signal.aborted, true)
  t.equal((await accounts.tokens.principalOf(await accounts.signIn.issueToken(credentials()), http)).grantedOnly, true)
})

const none = { description: '', permission: 0, admin: false, members: [] }

void t.test('groups are created, changed and deleted', async (t) => {
  const { accounts, ada } = await fixture(t)
  const { groups, users } = accounts
  const principal = await accounts.tokens.principalOf(await accounts.signIn.issueToken(credentials()), http)
  const one = await groups.create({ ...none, name: 'one', permission: permissionBits.remove, members: [ada.id] })
  t.strictSame(groups.list(), [one])
  t.same(one.members, [ada.id])
  t.same(principal.membership.groups, [one.id], 'at once')
  const two = await groups.create({ ...none, name: 'two' })
  await users.update(ada.id, {}, undefined, { groups: [two.id, two.id] })
  t.same(principal.membership.groups, [two.id])
  t.strictSame(await groups.update(one.id, { description: 'first' }), { ...one, description: 'first', members: [] })
  await groups.update(one.id, { members: [ada.id, ada.id], admin: true })
  t.equal(principal.role, 'admin')
  t.equal(groups.byName('one')?.description, 'first', 'what is not given stays')
  await groups.delete(one.id)
  t.equal(principal.role, 'general')
  await t.rejects(groups.delete(one.id), { code: 'not_found' })
  await t.rejects(groups.update(one.id, { name: 'x' }), { code: 'not_found' })
  await t.rejects(groups.update(two.id, { name: '' }), { code: 'invalid' })
  await t.rejects(groups.create({ ...none, name: 'two' }), { code: 'exists', reason: /of this name/ })
  t.equal(principal.signal.aborted, false, 'no session has ended')
  await users.delete(ada.id)
  t.same(groups.get(two.id)?.members, [])
})

void t.test('no two groups have names that look alike', async (t) => {
  const { accounts, store } = await fixture(t)
  const { groups } = accounts
  const first = await groups.create({ ...none, name: 'Caf\u00e9' })
  const other = await groups.create({ ...none, name: 'bar' })
  for (const name of [
    'caf\u00e9',
    'Cafe\u0301',
    ' Caf\u00e9',
    'Caf\u00e9\u3000',
    'Ca\u200bf\u00e9',
    '\ufeffCAF\u00c9',
  ]) {
    await t.rejects(groups.create({ ...none, name }), { code: 'exists' }, JSON.stringify(name))
    await t.rejects(groups.update(other.id, { name }), { code: 'exists' }, JSON.stringify(name))
  }
  for (const name of ['a\u009b31m', 'a\u202eb', 'a\u2066b']) {
    await t.rejects(groups.create({ ...none, name }), { code: 'invalid' }, JSON.stringify(name))
  }
  t.equal((await groups.update(first.id, { name: 'CAF\u00c9' })).name, 'CAF\u00c9', 'its own name in another case')
  const earlier = await store.groups.insert(groupRow({ name: 'cafe\u0301' }))
  await accounts.reload()
  const kept = await groups.update(earlier.id, { name: 'cafe\u0301', description: 'kept' })
  t.equal(kept.description, 'kept', 'one that was made earlier can be changed')
})

void t.test('what another process has deleted meanwhile is reported', async (t) => {
  const { accounts, file, clock, store } = await fixture(t)
  const group = await accounts.groups.create({ ...none, name: 'one' })
  const user = await accounts.users.create({
    username: 'short',
    password: 'password',
    basePath: '/',
    role: 'general',
    permission: 0,
    disabled: false,
    ssoId: '',
  })
  await store.users.delete(user.id)
  await t.rejects(accounts.groups.update(group.id, { members: [user.id] }), { code: 'not_found' })
  const other = await openAccounts(t, file, clock)
  await other.accounts.groups.delete(group.id)
  await t.rejects(accounts.groups.update(group.id, { name: 'two' }), { code: 'not_found' })
})

void t.test('a user is changed with its groups and grants, or not at all', async (t) => {
  const { accounts, ada, store } = await fixture(t)
  const { groups, users } = accounts
  const one = await groups.create({ ...none, name: 'one', members: [ada.id] })
  const two = await groups.create({ ...none, name: 'two' })
  await store.groups.delete(two.id)
  const grants = { checked: [{ path: root, allow: [], deny: ['read'] as const }], reload: async () => undefined }
  const rights = { groups: [two.id], grants }
  await t.rejects(users.update(ada.id, { permission: 0 }, undefined, rights), { code: 'not_found' })
  t.match(users.get(ada.id), { permission: ada.permission })
  t.same(groups.of(ada.id).groups, [one.id])
  t.same(await store.grants.all(), [])
  const eve = { ...ada, username: 'eve', password: 'password', expires: null }
  await t.rejects(users.create(eve, undefined, { groups: [99] }), { code: 'invalid', reason: 'there is no group 99' })
  let seen: unknown
  const reload = async () => void (seen = users.byName('eve'))
  const { id } = await users.create(eve, undefined, { groups: [one.id], grants: { ...grants, reload } })
  t.equal(seen, undefined, 'it can sign in when its denials are in force')
  t.same(groups.of(id).groups, [one.id])
  t.match(await store.grants.all(), [{ userId: id, deny: ['read'] }])
})

void t.test('nobody joins a group that is full, by whichever change', async (t) => {
  const { accounts, ada, store } = await fixture(t)
  const { groups, users } = accounts
  const full = await groups.create({ ...none, name: 'full', members: [ada.id] })
  const ids: number[] = []
  for (let index = 0; index < 2; index++) ids.push((await store.users.insert(userRow({ username: `u${index}` }))).id)
  await accounts.reload()
  const list = groups.get(full.id)?.members as number[]
  // As if there were so many users: they are only counted.
  while (list.length < maxMembers) list.push(-list.length)
  const refused = { code: 'invalid', reason: 'a group can have at most 10000 members' }
  const [id = 0] = ids
  await t.rejects(users.update(id, {}, undefined, { groups: [full.id] }), refused)
  const eve = { ...ada, username: 'eve', password: 'password', expires: null }
  await t.rejects(users.create(eve, undefined, { groups: [full.id] }), refused)
  const members = Array.from({ length: maxMembers + 1 }, () => id)
  const imported = { name: 'x', description: '', permission: 0, members, grants: [] }
  t.throws(() => groupOf(imported, [], new ImportedGrants()), refused)
  await users.update(ada.id, {}, undefined, { groups: [full.id] })
})

void t.test('all groups together have an end', async (t) => {
  const { accounts, store } = await fixture(t)
  for (let index = 0; index < maxGroups; index++) await store.groups.insert(groupRow({ name: `group ${index}` }))
  await accounts.reload()
  await t.rejects(accounts.groups.create({ ...none, name: 'one more' }), { code: 'invalid', reason: /1000 groups/ })
})
