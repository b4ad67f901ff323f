/**
 * The database: its creation and migration, its tables, notifications of changes by other processes, and concurrent
 * processes.
 */
import { execFile } from 'node:child_process'
import { chmodSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { asPath, root } from '../../src/base/path.js'
import type { Right } from '../../src/base/rights.js'
import { migrations, type Migration } from '../../src/database/migrations.js'
import type { Property } from '../../src/database/tables/files.js'
import type { Grant } from '../../src/database/tables/grants.js'
import type { Lock } from '../../src/database/tables/locks.js'
import type { Topic } from '../../src/database/topics.js'
import type { Store } from '../../src/database/tables.js'
import { openStore } from '../../src/database/store.js'
import { engines } from './engines.js'
import { schema17 } from './schema-17.js'
import {
  grantRow,
  groupRow,
  identityRow,
  passkeyRow,
  ruleRow,
  shareRow,
  storageRow,
  taskRow,
  userRow,
} from './store-rows.js'
import knex from 'knex'
import t, { type Test } from 'tap'

const run = promisify(execFile)

/** Runs `script` in another process, with the store of `file` as `store`. Resolves to its output. */
async function elsewhere(file: string, script: string): Promise<string> {
  const module = new URL('../../src/database/store.js', import.meta.url).href
  const program = `
    import { openStore } from ${JSON.stringify(module)}
    const store = await openStore(${JSON.stringify(file)})
    ${script}
    await store.close()`
  return (await run(process.execPath, ['--input-type=module', '-e', program])).stdout
}

const wait = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds))

void t.test('as many visits of a share are stored as it may have, and no more than 100,000', async (t) => {
  const file = join(t.testdir(), 'tidegate.db')
  const store = await openStore(file)
  const { shares, shareVisits, users } = store
  const { id: creatorId } = await users.insert(userRow({}))
  await shares.insert(shareRow({ id: 's', creatorId, maxVisits: 1_000_000 }), [], 0)
  await databaseOf(
    file,
    `insert into share_visits (share_id, cookie, client, shown, started)
     with recursive number(n) as (select 1 union all select n + 1 from number where n < 99999)
     select 's', n, n, 1, 0 from number`.replaceAll('\n', ' '),
  )
  const visitor = (name: string) => ({ cookie: name, issued: name, client: name })
  t.equal(await shareVisits.enter('s', visitor('last'), 1000), 'begun')
  t.equal(await shareVisits.enter('s', visitor('another'), 1000), 'begun')
  t.ok(await shareVisits.isIn('s', visitor('last'), 60_000))
  t.notOk(await shareVisits.isIn('s', visitor('another'), 60_000))
  t.equal((await shares.use(['s'])).get('s')?.visits, 2)
  await store.close()
})

const property = (name: string, value = name): Property => ({ namespace: 'urn:x', name, value, language: '' })

void t.test('a new database and its side files are readable by their owner only', async (t) => {
  const folder = t.testdir()
  const before = process.umask(0)
  t.teardown(() => process.umask(before))
  const store = await openStore(join(folder, 'tidegate.db'))
  await store.settings.set(new Map([['a', 'b']]))
  const modes = readdirSync(folder).map((name) => [name, statSync(join(folder, name)).mode & 0o777])
  t.same(modes.sort(), [
    ['tidegate.db', 0o600],
    ['tidegate.db-shm', 0o600],
    ['tidegate.db-wal', 0o600],
  ])
  await store.close()
  chmodSync(join(folder, 'tidegate.db'), 0o644)
  const again = await openStore(join(folder, 'tidegate.db'))
  t.equal(statSync(join(folder, 'tidegate.db')).mode & 0o777, 0o600, 'permissions of others are removed')
  await again.close()
})

/** A database file created by these statements, one per line. */
async function databaseOf(file: string, statements: string): Promise<string> {
  const database = knex({ client: 'sqlite3', connection: { filename: file }, useNullAsDefault: true })
  for (const statement of statements.trim().split('\n')) await database.raw(statement)
  await database.destroy()
  return file
}

void t.test('a database of an earlier build opens with its rows, and gets the same schema as a new one', async (t) => {
  const file = await databaseOf(join(t.testdir(), 'old.db'), schema17)
  const tablesOf = async (each: string) => {
    const database = knex({ client: 'sqlite3', connection: { filename: each }, useNullAsDefault: true })
    const tables: readonly { sql: string }[] = await database.raw('select sql from sqlite_master where sql is not null')
    const versions: readonly object[] = await database('schema_version')
    await database.destroy()
    return { tables: tables.map(({ sql }) => sql.replaceAll('`', '"')).sort(), versions }
  }
  const before = await tablesOf(file)
  const store = await openStore(file)
  t.same([...(await store.settings.all())], [['kept', 'yes']])
  const [storage] = await store.storages.all()
  t.match(storage, { mountPath: '/disk', driver: 'Memory', modified: new Date(1_700_000_000_000) })
  const intent = { storageId: storage?.id, kind: 'spare backup', from: '/x', to: '/x-aside' }
  t.match(await store.intents.all(), [intent])
  t.match(await store.attributes.of(asPath('/disk/x')), { mode: 0o600 })
  t.match(await store.appPasswords.all(), [{ name: 'phone', protocols: ['webdav', 'sftp'], readOnly: false }])
  await store.close()
  const after = await tablesOf(file)
  // Later migrations add columns.
  const added =
    /, "(?:(?:user_id|size)" integer|(?:confirmed|expires)" bigint|error_name" text)(?! not null)|, "(?:granted_only|two_step)" boolean not null default '0'|, "(?:allow_from|folder)" text not null default '\/?'/g
  const others = after.tables.map((table) => table.replace(added, ''))
  for (const table of before.tables) t.ok(others.includes(table), table)
  const empty = join(t.testdir(), 'new.db')
  await (await openStore(empty)).close()
  t.same(await tablesOf(empty), after)
})

void t.test('a database of an unreleased version is rejected with instructions', async (t) => {
  for (const version of [1, 16]) {
    const file = await databaseOf(
      join(t.testdir(), `version-${version}.db`),
      `create table schema_version (id integer not null primary key, version integer not null)
      insert into schema_version values (1, ${version})`,
    )
    await t.rejects(openStore(file), {
      code: 'unsupported',
      message: new RegExp(
        `its schema is version ${version}, .*: rename data\\.db, so that the next start creates a new one`,
      ),
    })
  }
})

void t.test('a file that is not a database, or cannot be opened, is rejected with one sentence', async (t) => {
  const folder = t.testdir()
  writeFileSync(join(folder, 'text.db'), 'This is a text of some length, and surely not a database.\n'.repeat(40))
  await t.rejects(openStore(join(folder, 'text.db')), { code: 'unavailable', message: /cannot be used/ })
  await t.rejects(openStore(join(folder, 'missing', 'tidegate.db')), { code: 'unavailable', message: /cannot be used/ })
  await t.rejects(openStore(folder), { code: 'unavailable', message: /cannot be used/ })
})

for (const engine of engines) {
  void t.test(`the store on ${engine.name}`, { skip: engine.skip }, async (s) => {
    const newDatabase = (t: Test) => engine.newDatabase(t)
    const fresh = async (t: Test): Promise<Store> => {
      const store = await openStore(await newDatabase(t))
      t.teardown(() => store.close())
      return store
    }
    void s.test('a failed migration leaves the database at its previous version', async (t) => {
      const file = await newDatabase(t)
      await (await openStore(file)).close()
      const faulty: Migration = async (query) => {
        await query.schema.createTable('half', (table) => table.increments('id'))
        throw new Error('the step went wrong')
      }
      await t.rejects(openStore(file, { steps: [...migrations, faulty] }), {
        code: 'unavailable',
        message: /the step went wrong/,
      })
      const store = await openStore(file, {
        steps: [
          ...migrations,
          async (query) => {
            t.notOk(await query.schema.hasTable('half'), 'the failed migration left no table')
          },
        ],
      })
      await store.close()
    })

    void s.test('a database of a newer Tidegate is rejected with one sentence', async (t) => {
      const file = await newDatabase(t)
      await (await openStore(file, { steps: [...migrations, { breaking: () => Promise.resolve() }] })).close()
      await t.rejects(openStore(file), { code: 'unsupported', message: /written by a newer Tidegate/ })
    })

    void s.test('a program starts on a newer schema unless a step of it is breaking', async (t) => {
      const file = await newDatabase(t)
      const nothing = () => Promise.resolve()
      const newer = [...migrations, nothing, { breaking: nothing }, nothing]
      await (await openStore(file, { steps: newer.slice(0, -2) })).close()
      const older = await openStore(file)
      t.same([...(await older.settings.all())], [])
      await older.close()
      await (await openStore(file, { steps: newer })).close()
      await (await openStore(file, { steps: newer.slice(0, -1) })).close()
      await t.rejects(openStore(file, { steps: newer.slice(0, -2) }), { code: 'unsupported' })
    })

    void s.test('a breaking step waits for the end of living nodes, and ends dead ones', async (t) => {
      const file = await newDatabase(t)
      const store = await openStore(file)
      t.teardown(() => store.close())
      await store.nodes.join({ id: 'one', name: 'host:1', version: 'v1', addresses: '{}' })
      await store.nodes.join({ id: 'two', name: 'host:2', version: 'v1', addresses: '{}' })
      const steps = [...migrations, { breaking: () => Promise.resolve() }]
      const runs = (id: string) => id !== 'two'
      await t.rejects(openStore(file, { steps, runs }), {
        code: 'unsupported',
        message: /stop them first \(host:1\)/,
      })
      await (await openStore(file)).close()
      await store.nodes.end('one')
      await (await openStore(file, { steps, runs })).close()
      t.match(await store.nodes.all(), [{ ended: Date }, { ended: Date }])
      t.equal(await store.nodes.renew('two', '{}'), undefined)
      const late = store.nodes.join({ id: 'late', name: 'host:3', version: 'v1', addresses: '{}' })
      await t.rejects(late, { code: 'unsupported' })
    })

    void s.test('several processes can migrate a new database concurrently', async (t) => {
      const file = await newDatabase(t)
      const answers = await Promise.all(
        [1, 2, 3].map((n) => elsewhere(file, `console.log(await store.secrets.obtain('x', 'candidate ${n}'))`)),
      )
      t.equal(new Set(answers).size, 1, 'all processes got the same secret')
    })

    void s.test('users: names are unique, there is one admin, and ids are never reused', async (t) => {
      const { users } = await fresh(t)
      const ada = await users.insert(userRow({ username: 'ada', basePath: asPath('/home/ada'), disabled: true }))
      t.same(await users.all(), [ada])
      t.equal(ada.basePath, '/home/ada')
      t.equal(ada.disabled, true)
      await t.rejects(users.insert(userRow({ username: 'ada' })), { code: 'exists' })
      const admin = await users.insert(userRow({ username: 'admin', role: 'admin' }))
      await t.rejects(users.insert(userRow({ username: 'root', role: 'admin' })), { code: 'exists' })
      await t.rejects(
        users.change(ada.id, () => ({ username: 'admin' })),
        { code: 'exists' },
      )
      await t.rejects(
        users.change(99, () => ({ ssoId: 'x' })),
        { code: 'not_found' },
      )
      const changes = { disabled: false, permission: 7 }
      t.match(await users.change(ada.id, () => changes), changes)
      t.match(await users.change(ada.id, () => ({})), { permission: 7 })
      t.equal(await users.delete(admin.id), true)
      t.equal(await users.delete(admin.id), false)
      t.ok((await users.insert(userRow({ username: 'eve' }))).id > admin.id)
    })

    void s.test('users: change() computes from the stored row, also with concurrent processes', async (t) => {
      const file = await newDatabase(t)
      const store = await openStore(file)
      t.teardown(() => store.close())
      const { id } = await store.users.insert(userRow({ username: 'ada' }))
      const add = `for (let i = 0; i < 20; i++)
    await store.users.change(${id}, (stored) => ({ passwordTime: stored.passwordTime + 1 }))`
      await Promise.all([
        elsewhere(file, add),
        elsewhere(file, add),
        ...Array.from({ length: 20 }, () =>
          store.users.change(id, (stored) => ({ passwordTime: stored.passwordTime + 1 })),
        ),
      ])
      t.equal((await store.users.all())[0]?.passwordTime, 60)
      await t.rejects(
        store.users.change(id, () => {
          throw new RangeError('refused')
        }),
        { code: 'internal' },
      )
      t.equal((await store.users.all())[0]?.passwordTime, 60)
    })

    void s.test('users: a step of two-step verification can be used once', async (t) => {
      const { users } = await fresh(t)
      const { id } = await users.insert(userRow({ username: 'ada' }))
      t.equal(await users.useOtpStep(id, 100), true)
      t.equal(await users.useOtpStep(id, 100), false)
      t.equal(await users.useOtpStep(id, 99), false)
      t.equal(await users.useOtpStep(id, 101), true)
    })

    void s.test(
      'recovery codes: used once, replaced together, deleted with their secret and with their user',
      async (t) => {
        const { users, recoveryCodes } = await fresh(t)
        const { id } = await users.insert(userRow({ username: 'ada', otpSecret: 'one' }))
        const bob = await users.insert(userRow({ username: 'bob', otpSecret: 'two' }))
        t.equal(await recoveryCodes.replace(id, 'one', ['a', 'b']), true)
        t.equal(await recoveryCodes.replace(bob.id, 'two', ['a']), true, 'codes of users are apart')
        t.equal(await recoveryCodes.replace(id, 'other', ['x']), false)
        t.equal(await recoveryCodes.count(id), 2)
        const uses = await Promise.all([1, 2, 3].map(() => recoveryCodes.use(id, 'a')))
        t.same(uses.sort(), [false, false, true])
        t.equal(await recoveryCodes.replace(id, 'one', ['c', 'd', 'e']), true)
        t.equal(await recoveryCodes.use(id, 'b'), false)
        await users.change(id, () => ({ otpSecret: 'one', disabled: true }))
        t.equal(await recoveryCodes.count(id), 3, 'the secret is the same')
        await users.change(id, () => ({ otpSecret: '' }))
        t.equal(await recoveryCodes.count(id), 0)
        t.equal(await recoveryCodes.replace(id, 'one', ['x']), false, 'the secret has gone meanwhile')
        t.equal(await recoveryCodes.use(bob.id, 'x'), false)
        await users.delete(bob.id)
        t.equal(await recoveryCodes.count(bob.id), 0)
      },
    )

    void s.test('keys: deleted with their user, and titles are unique per user', async (t) => {
      const { users, keys } = await fresh(t)
      const ada = await users.insert(userRow({ username: 'ada' }))
      const bob = await users.insert(userRow({ username: 'bob' }))
      const row = {
        userId: ada.id,
        title: 'laptop',
        type: 'ssh-ed25519',
        blob: Buffer.from([0, 255, 1]),
        fingerprint: 'SHA256:x',
        added: new Date(5000),
        lastUsed: new Date(5000),
      }
      const key = await keys.add(row, 9)
      t.same(key, { ...row, id: key?.id })
      t.equal(await keys.add({ ...row, title: 'other' }, 1), undefined, 'one more than permitted')
      await t.rejects(keys.add(row, 9), { code: 'exists' })
      await t.rejects(keys.add({ ...row, userId: 99 }, 9), { code: 'not_found' })
      await keys.add({ ...row, userId: bob.id }, 9)
      await keys.touch(key?.id ?? 0, new Date(7000))
      t.same((await keys.all())[0]?.lastUsed, new Date(7000))
      await users.delete(ada.id)
      t.same(
        (await keys.all()).map((left) => left.userId),
        [bob.id],
      )
    })

    void s.test('storages and rules: every field is returned as stored', async (t) => {
      const { storages, rules } = await fresh(t)
      const storage = storageRow({ mountPath: asPath('/s'), enableSign: true, modified: new Date(12345) })
      const stored = await storages.insert(storage)
      t.same(stored, { ...storage, id: stored.id })
      t.same(await storages.all(), [stored])
      await t.rejects(storages.insert(storage), { code: 'exists' })
      t.match(await storages.update(stored.id, { status: 'work', order: 3 }), { status: 'work', order: 3 })

      const rule = ruleRow({ path: asPath('/r'), hide: 'a\nb', readUsers: [1, 5] })
      const inserted = await rules.insert(rule)
      t.same(inserted, { ...rule, id: inserted.id })
      t.same(await rules.all(), [inserted])
      await t.rejects(rules.insert(rule), { code: 'exists' })
      t.match(await rules.update(inserted.id, { writeUsers: [2] }), { writeUsers: [2], readUsers: [1, 5] })
      t.equal(await rules.delete(inserted.id), true)
    })

    void s.test('rules move with their folder, and replace only a rule of the same path', async (t) => {
      const { rules } = await fresh(t)
      for (const path of ['/a', '/a/x', '/a b', '/a0', '/b', '/b/y']) {
        await rules.insert(ruleRow({ path: asPath(path), readme: path }))
      }
      await rules.move(asPath('/a'), asPath('/b'))
      t.same(
        (await rules.all()).map(({ path, readme }) => [path, readme]),
        [
          ['/b', '/a'],
          ['/b/x', '/a/x'],
          ['/a b', '/a b'],
          ['/a0', '/a0'],
          ['/b/y', '/b/y'],
        ],
      )
    })

    void s.test('networks, ends and folders of accounts and app passwords are returned as stored', async (t) => {
      const { users, appPasswords } = await fresh(t)
      const end = new Date(4_000_000_000_123)
      const bound = userRow({ username: 'ada', allowFrom: ['10.0.0.0/8', '2001:db8::/32'], expires: end })
      const { id: userId } = await users.insert(bound)
      t.same(await users.all(), [{ ...bound, id: userId }])
      await users.change(userId, () => ({ allowFrom: [], expires: undefined }))
      t.match(await users.all(), [{ allowFrom: [], expires: undefined }])
      const dates = { added: new Date(1), lastUsed: undefined }
      const row = { userId, name: 'x', prefix: 'x', digest: 'x', protocols: [], readOnly: false, ...dates }
      await appPasswords.add({ ...row, folder: asPath('/a,b'), expires: end }, 9)
      t.match(await appPasswords.all(), [{ folder: '/a,b', expires: end }])
    })

    void s.test('grants and groups are returned as stored, and are deleted with what they belong to', async (t) => {
      const { users, groups, grants } = await fresh(t)
      const { id: userId } = await users.insert(userRow({ username: 'ada' }))
      const flags = { admin: true, requireTwoStep: true, providedAdmins: true }
      const group = groupRow({ name: 'sales', description: 'all', permission: 8, ...flags })
      const sales = await groups.insert(group)
      t.same(sales, { ...group, id: sales.id })
      await t.rejects(groups.insert(group), { code: 'exists' })
      await groups.setMembers(sales.id, [userId, userId])
      t.same(await groups.members(), [{ groupId: sales.id, userId }])
      const same = () => ({})
      await users.change(userId, same, { groups: [] })
      t.same(await groups.members(), [])
      await users.change(userId, same, { groups: [sales.id, sales.id] })
      t.same(await groups.members(), [{ groupId: sales.id, userId }])
      await t.rejects(groups.setMembers(sales.id, [userId, 99]), { code: 'not_found' })
      const renamed = () => ({ username: 'eve' })
      await t.rejects(users.change(userId, renamed, { groups: [99] }), { code: 'not_found' })
      await t.rejects(users.insert(userRow({ username: 'eve' }), { groups: [99] }), { code: 'not_found' })
      t.match(await users.all(), [{ username: 'ada' }], 'all of it, or nothing')
      const granted = [{ path: asPath('/g'), allow: ['see'] as const, deny: [] }]
      const contents = { members: [userId, 99], grants: granted }
      await t.rejects(groups.insert(groupRow({ name: 'other' }), contents), { code: 'not_found' })
      await t.rejects(groups.update(sales.id, { name: 'trade' }, { ...contents }), { code: 'not_found' })
      t.same(await groups.all(), [sales])
      t.same(await grants.all(), [])
      t.same(await groups.members(), [{ groupId: sales.id, userId }], 'nothing has changed')
      const own = grantRow({ userId, path: asPath('/a'), allow: ['see', 'read'], deny: ['write'] })
      const stored = await grants.insert(own)
      t.same(stored, { ...own, id: stored.id })
      await t.rejects(grants.insert(own), { code: 'exists' }, 'one for each path and user')
      await grants.insert(grantRow({ groupId: sales.id, path: asPath('/a') }))
      await t.rejects(grants.insert(grantRow({ groupId: sales.id, path: asPath('/a') })), { code: 'exists' })
      await users.delete(userId)
      t.same(
        (await grants.all()).map(({ groupId }) => groupId),
        [sales.id],
      )
      t.same(await groups.members(), [])
      await groups.delete(sales.id)
      t.same(await grants.all(), [])
    })

    void s.test('the grants of a user or a group are replaced, and keep their ids where the path stays', async (t) => {
      const { users, groups, grants } = await fresh(t)
      const { id: userId } = await users.insert(userRow({ username: 'ada' }))
      const { id: groupId } = await groups.insert(groupRow({}))
      const at = (path: string, right: Right) => ({ path: asPath(path), allow: [right], deny: [] })
      const shown = async () =>
        (await grants.all()).map(({ id, userId: user, path, allow }) => [id, user !== undefined, path, ...allow])
      await grants.replace({ userId, groupId: undefined }, [at('/a', 'read'), at('/b', 'read')])
      await grants.replace({ userId: undefined, groupId }, [at('/a', 'write')])
      t.same(await shown(), [
        [1, true, '/a', 'read'],
        [2, true, '/b', 'read'],
        [3, false, '/a', 'write'],
      ])
      await grants.replace({ userId, groupId: undefined }, [at('/c', 'read'), at('/b', 'move')])
      t.same(await shown(), [
        [2, true, '/b', 'move'],
        [3, false, '/a', 'write'],
        [4, true, '/c', 'read'],
      ])
      await t.rejects(grants.replace({ userId: 99, groupId: undefined }, [at('/a', 'read')]), { code: 'not_found' })
      await grants.replace({ userId: undefined, groupId }, [])
      t.equal((await shown()).length, 2)
    })

    void s.test('grants move with their folder, and replace only one of the same path and subject', async (t) => {
      const { users, groups, grants } = await fresh(t)
      const { id: ada } = await users.insert(userRow({ username: 'ada' }))
      const { id: bob } = await users.insert(userRow({ username: 'bob' }))
      const { id: sales } = await groups.insert(groupRow({}))
      const put = (subject: Partial<Grant>, path: string, right: Right) =>
        grants.insert(grantRow({ ...subject, path: asPath(path), allow: [right] }))
      await put({ userId: ada }, '/a', 'read')
      await put({ groupId: sales }, '/a/x', 'read')
      await put({ userId: ada }, '/b', 'write')
      await put({ userId: bob }, '/b', 'write')
      await put({ groupId: sales }, '/b', 'write')
      await put({ userId: ada }, '/b/x', 'write')
      await put({ groupId: sales }, '/b/x', 'write')
      await put({ userId: ada }, '/a b', 'see')
      await grants.move(asPath('/a'), asPath('/b'))
      t.same(
        (await grants.all()).map(({ userId, path, allow }) => [userId ?? 'sales', path, ...allow]),
        [
          [ada, '/b', 'read'],
          ['sales', '/b/x', 'read'],
          [bob, '/b', 'write'],
          ['sales', '/b', 'write'],
          [ada, '/b/x', 'write'],
          [ada, '/a b', 'see'],
        ],
      )
    })

    void s.test('shares are returned as stored, and are deleted with their creator', async (t) => {
      const { users, shares, shareRoots, shareVisits } = await fresh(t)
      const { id: creatorId } = await users.insert(userRow({ username: 'ada' }))
      const row = shareRow({
        ...{ id: '分享', creatorId, mode: 'both', code: 'c', expires: new Date(5), maxVisits: 2, disabled: true },
        ...{ remark: 'r', readme: 'm', header: 'h', orderBy: 'size', orderDirection: 'desc', extractFolder: 'back' },
        ...{ allowFrom: ['10.0.0.0/8', '::1'], webdav: true, uploadMaxBytes: 2 ** 40, uploadMaxFiles: 3 },
      })
      await shares.insert(row, [asPath('/b'), asPath('/a')], 7)
      t.same(await shares.all(), [row])
      await t.rejects(shares.insert(row, [asPath('/a')], 0), { code: 'exists' })
      await t.rejects(shares.insert(shareRow({ id: 'x', creatorId: 99 }), [], 0), { code: 'not_found' })
      t.same((await shares.use(['分享', 'none'])).get('分享'), { visits: 7, uploadedBytes: 0, uploadedFiles: 0 })
      const roots = async () => (await shareRoots.all()).map(({ id, path, position }) => [id, path, position])
      t.same(await roots(), [
        [1, '/b', 0],
        [2, '/a', 1],
      ])
      await shares.insert(shareRow({ id: 'other', creatorId }), [asPath('/a')], 0)
      await t.rejects(shares.update('分享', { id: 'other' }, undefined, undefined), { code: 'exists' })
      await t.rejects(shares.update('none', { remark: '' }, undefined, undefined), { code: 'not_found' })
      await shareVisits.enter('other', { cookie: undefined, issued: 'i', client: 'c' }, 1000)
      await shares.update('分享', { id: 'new', remark: 's' }, [asPath('/a'), asPath('/c')], 1)
      t.same((await shares.all())[0], { ...row, id: 'new', remark: 's' })
      t.equal((await shares.use(['new'])).get('new')?.visits, 1)
      t.same(await roots(), [
        [2, '/a', 0],
        [3, '/a', 0],
        [4, '/c', 1],
      ])
      t.equal(await shares.delete('new'), true)
      t.equal(await shares.delete('new'), false)
      t.same(await roots(), [[3, '/a', 0]])
      await users.delete(creatorId)
      t.same([await shares.all(), await roots(), (await shares.use(['other'])).size], [[], [], 0])
    })

    void s.test('the roots of shares move with their folder, and are marked when it is removed', async (t) => {
      const { users, shares, shareRoots } = await fresh(t)
      const { id: creatorId } = await users.insert(userRow({ username: 'ada' }))
      await shares.insert(shareRow({ id: 'one', creatorId }), [asPath('/a'), asPath('/b'), asPath('/a b')], 0)
      await shares.insert(shareRow({ id: 'two', creatorId }), [asPath('/a/x'), asPath('/b')], 0)
      await shareRoots.move(asPath('/a'), asPath('/b'))
      const shown = async () =>
        (await shareRoots.all()).map(({ id, shareId, path, removed }) => [id, shareId, path, removed])
      t.same(await shown(), [
        [1, 'one', '/b', false],
        [3, 'one', '/a b', false],
        [4, 'two', '/b/x', false],
        [5, 'two', '/b', false],
      ])
      await shareRoots.markRemoved(asPath('/b/x'))
      t.same(
        (await shown()).filter(([, , , removed]) => removed),
        [[4, 'two', '/b/x', true]],
      )
      await shareRoots.markRemoved(asPath('/b'))
      t.same(
        (await shown()).filter(([, , , removed]) => removed).map(([id]) => id),
        [1, 4, 5],
      )
    })

    void s.test('visits begin once each, exactly as many as there may be, and end after their time', async (t) => {
      const { users, shares, shareVisits } = await fresh(t)
      const { id: creatorId } = await users.insert(userRow({ username: 'ada' }))
      await shares.insert(shareRow({ id: 'one', creatorId, maxVisits: 3 }), [asPath('/a')], 0)
      const hour = 3600_000
      const plain = (client: string) => ({ cookie: undefined, issued: `cookie of ${client}`, client })
      const withCookie = (client: string) => ({ ...plain(client), cookie: `cookie of ${client}` })
      const enter = (visitor: ReturnType<typeof plain> | ReturnType<typeof withCookie>) =>
        shareVisits.enter('one', visitor, hour)
      t.same(await Promise.all([enter(plain('a')), enter(plain('a')), enter(plain('a'))]).then((all) => all.sort()), [
        'begun',
        'in',
        'in',
      ])
      t.equal(await enter(withCookie('a')), 'in', 'its cookie is shown')
      t.equal(await enter(plain('a')), 'begun', 'another client that looks the same')
      t.same((await Promise.all(['b', 'c', 'd', 'e'].map((client) => enter(plain(client))))).filter(Boolean), ['begun'])
      t.equal((await shares.use(['one'])).get('one')?.visits, 3)
      t.equal(await enter(withCookie('a')), 'in', 'who is in stays in')
      t.equal(await shareVisits.isIn('one', plain('z'), hour), false)
      t.equal(await enter(withCookie('z')), undefined, 'a cookie of its own does not let in')
      t.equal(await shareVisits.isIn('one', withCookie('a'), -1), false, 'after its time')
      await shareVisits.sweep(hour)
      t.equal(await enter(withCookie('a')), 'in')
      await shareVisits.sweep(-1)
      t.equal(await enter(withCookie('a')), undefined)
      await shares.update('one', { maxVisits: 0 }, undefined, undefined)
      t.equal(await enter(withCookie('z')), 'begun')
      t.equal(await enter(withCookie('z')), 'in')
    })

    void s.test('uploads to a share reserve within its limits, as long as their node is alive', async (t) => {
      const location = await engine.newDatabase(t)
      const one = await openStore(location, { node: 'one' })
      const two = await openStore(location, { node: 'two' })
      t.teardown(() => Promise.all([one.close(), two.close()]))
      for (const [id, { nodes }] of Object.entries({ one, two })) {
        await nodes.join({ id, name: id, version: 'v0', addresses: '{}' })
      }
      const { users, shares, shareUploads: uploads } = one
      const { id: creatorId } = await users.insert(userRow({ username: 'ada' }))
      await shares.insert(shareRow({ id: 's', creatorId, uploadMaxBytes: 100, uploadMaxFiles: 3 }), [asPath('/a')], 0)
      await t.rejects(uploads.reserve('none', 1, 1), { code: 'not_found' })
      t.equal(await uploads.reserve('s', 101, 1), undefined)
      const first = (await uploads.reserve('s', 60, 1)) ?? 0
      const second = (await two.shareUploads.reserve('s', 10, 1)) ?? 0
      t.equal(await uploads.reserve('s', 31, 1), undefined)
      t.equal(await uploads.extend(first, 1, 20), 20)
      t.equal(await uploads.extend(first, 5, 20), 10, 'no more than is left')
      t.equal(await uploads.extend(first, 1, 20), undefined)
      t.ok(await uploads.claim(first, '/A/X'))
      t.notOk(await two.shareUploads.claim(second, '/A/X'))
      t.ok(await two.shareUploads.claim(second, '/A/Y'))
      t.ok(await uploads.claim(first, '/A/Z'))
      t.same(await Promise.all(['/A/X', '/A/Y', '/A/Z'].map((path) => uploads.isClaimed(path))), [false, true, true])
      await uploads.finish(first, 50, 1)
      await uploads.finish(first, 50, 1)
      t.match((await shares.use(['s'])).get('s'), { uploadedBytes: 50, uploadedFiles: 1 }, 'it is counted once')
      await t.rejects(uploads.extend(first, 1, 1), { code: 'not_found' })
      t.equal(await uploads.reserve('s', 41, 1), undefined)
      await one.nodes.end('two')
      const third = (await uploads.reserve('s', 41, 1)) ?? 0
      t.notOk(await uploads.isClaimed('/A/Y'), 'what the dead node had is free')
      await t.rejects(two.shareUploads.extend(second, 1, 1), { code: 'not_found' })
      await two.shareUploads.finish(second, 10, 1)
      await uploads.release(third)
      t.ok(await uploads.reserve('s', 50, 2))
      t.equal(await uploads.reserve('s', 0, 1), undefined, 'no more files')
      await shares.update('s', { id: 'renamed', uploadMaxBytes: 0, uploadMaxFiles: 0 }, undefined, undefined)
      t.ok(await uploads.reserve('renamed', Number.MAX_SAFE_INTEGER, 1))
      t.ok(await uploads.reserve('renamed', 1, 1))
    })

    void s.test('settings, secrets, driver state and tasks are returned as stored', async (t) => {
      const { settings, secrets, storages, driverState, tasks } = await fresh(t)
      await settings.set(
        new Map([
          ['a', '1'],
          ['b', ''],
        ]),
      )
      await settings.set(new Map([['a', '2']]))
      await settings.set(new Map())
      t.same([...(await settings.all())].sort(), [
        ['a', '2'],
        ['b', ''],
      ])
      t.equal(await settings.delete('a'), true)
      t.equal(await settings.delete('a'), false)

      t.equal(await secrets.obtain('jwt', 'first'), 'first')
      t.equal(await secrets.obtain('jwt', 'second'), 'first')
      t.equal(await secrets.get('jwt'), 'first')
      t.equal(await secrets.get('other'), undefined)
      await secrets.replace(
        new Map([
          ['jwt', 'third'],
          ['other', 'x'],
        ]),
      )
      t.equal(await secrets.obtain('jwt', 'fourth'), 'third')
      t.equal(await secrets.get('other'), 'x')

      const { id } = await storages.insert(storageRow({ mountPath: root }))
      await driverState.set(id, 'cursor', '1')
      await driverState.set(id, 'cursor', '2')
      t.equal(await driverState.get(id, 'cursor'), '2')
      await driverState.set(id, 'cursor', undefined)
      t.equal(await driverState.get(id, 'cursor'), undefined)
      await t.rejects(driverState.set(99, 'cursor', '1'), { code: 'not_found' })

      const task = taskRow({
        ...{ id: 'k1', subject: 'copy a to b', plan: '{"from":"/a"}', tries: 2, created: new Date(500) },
        ...{ totalBytes: 2 ** 45, doneBytes: 7, started: new Date(1000), phase: { tool: 'aria2', state: 'active' } },
      })
      await tasks.insert(task)
      t.same(await tasks.all(), [task])
      t.equal(await tasks.update({ ...task, ended: new Date(2000), state: 'succeeded' }), true)
      t.match(await tasks.all(), [{ state: 'succeeded', ended: new Date(2000) }])

      const item = { taskId: 'k1', state: 'copied', source: 'r1', copy: 'c1', size: 2 ** 40, error: '' } as const
      const at = (path: string) => ({ ...item, path: asPath(path) })
      const many = Array.from({ length: 450 }, (_, index) => at(`/a/many/${index}`))
      const lost = { ...at('/a/lost'), state: 'failed', error: 'not found' } as const
      await tasks.putItems([at('/'), at('/a'), at('/a/b'), lost, ...many, { ...at('/a/c'), taskId: 'gone' }])
      await tasks.putItems([{ ...at('/a/b'), source: 'r2' }])
      await tasks.putItems([])
      t.same(await tasks.itemsIn('k1', asPath('/a')), [{ ...at('/a/b'), source: 'r2' }, lost])
      t.same(await tasks.itemsIn('k1', root), [at('/a')])
      t.equal((await tasks.itemsIn('k1', asPath('/a/many'))).length, 450)
      t.same(await tasks.item('k1', root), at('/'))
      t.match(await tasks.item('k1', asPath('/a/lost')), { state: 'failed' })
      await tasks.deleteItem('k1', asPath('/a/many/0'))
      t.equal(await tasks.item('k1', asPath('/a/many/0')), undefined)
      t.same(await tasks.failed('k1'), [lost])
      // A copied item stays known if its source could not be removed.
      await tasks.putItems([
        { ...at('/a/b'), source: '', copy: '', size: 0, state: 'failed', error: 'it does not answer' },
      ])
      t.same(await tasks.item('k1', asPath('/a/b')), { ...at('/a/b'), source: 'r2', error: 'it does not answer' })
      t.equal((await tasks.failed('k1')).length, 2)
      await tasks.clearFailures('k1')
      t.same(await tasks.failed('k1'), [])
      t.same(await tasks.itemsIn('k1', asPath('/a')), [{ ...at('/a/b'), source: 'r2' }])
      await tasks.delete(['k1', 'gone'])
      t.same(await tasks.all(), [])
      await tasks.insert(task)
      t.equal(await tasks.item('k1', root), undefined, 'items are deleted with their task')
    })

    void s.test('revoked tokens are stored until they expire', async (t) => {
      const { revokedTokens } = await fresh(t)
      const expires = new Date(Date.now() + 60_000)
      await revokedTokens.insert('live', expires)
      await revokedTokens.insert('live', expires)
      await revokedTokens.insert('dead', new Date(Date.now() - 1))
      t.same([...(await revokedTokens.all())], [['live', expires]])
      await revokedTokens.sweep(new Date(Date.now() + 120_000))
      t.equal((await revokedTokens.all()).size, 0)
    })

    void s.test('of conflicting locks on one path, one is granted', async (t) => {
      const file = await newDatabase(t)
      const store = await openStore(file)
      t.teardown(() => store.close())
      const lock = (token: string): Lock => ({
        token,
        path: asPath('/f'),
        userId: 1,
        username: 'ada',
        scope: 'exclusive',
        deep: true,
        owner: '<D:href>x</D:href>',
        expires: new Date(Date.now() + 60_000),
      })
      const [first] = await Promise.all([
        elsewhere(
          file,
          `const lock = { ...${JSON.stringify(lock('theirs'))}, expires: new Date(Date.now() + 60_000) }
       console.log((await store.locks.grant(lock, (standing) => standing[0])) === undefined ? 'granted' : 'refused')`,
        ),
        ...['a', 'b', 'c'].map((token) => store.locks.grant(lock(token), (standing) => standing[0])),
      ])
      const standing = await store.locks.all()
      t.equal(standing.length, 1)
      t.equal(first.trim(), standing[0]?.token === 'theirs' ? 'granted' : 'refused')

      const token = standing[0]!.token
      t.same(standing, [{ ...lock(token), expires: standing[0]!.expires }])
      t.equal(await store.locks.refresh(token, new Date(Date.now() - 1)), true)
      t.equal(await store.locks.refresh('none', new Date()), false)
      t.equal(
        await store.locks.grant(lock('next'), (locks) => locks[0]),
        undefined,
        'an expired lock does not conflict',
      )
      await store.locks.sweep(new Date())
      t.same(
        (await store.locks.all()).map((left) => left.token),
        ['next'],
      )
      t.equal(await store.locks.delete('next'), true)
      t.equal((await store.locks.all()).length, 0)
      t.equal(await store.locks.delete('next'), false)
    })

    void s.test('a lock owner that is longer than the limit is read as empty', async (t) => {
      const { locks } = await fresh(t)
      const lock = (token: string, owner: string): Lock => ({
        ...{ token, owner, path: asPath(`/${token}`), userId: 1, username: 'ada', scope: 'shared', deep: false },
        expires: new Date(Date.now() + 60_000),
      })
      for (const length of [4096, 4097]) await locks.grant(lock(`${length}`, 'o'.repeat(length)), () => undefined)
      t.same(
        (await locks.all(4096)).map(({ token, owner }) => [token, owner.length]),
        [
          ['4096', 4096],
          ['4097', 0],
        ],
      )
      t.equal((await locks.get('4097', 4096))?.owner, '')
      t.equal(await locks.delete('4097'), true)
    })

    void s.test('the properties of a file are limited in number, even if they are small', async (t) => {
      const { properties } = await fresh(t)
      const path = asPath('/f')
      const some = (start: number, count: number) =>
        Array.from({ length: count }, (_, index) => ({ set: property(`${start + index}`, '') }))
      const limits = { ofPath: 256 * 1024 }
      await properties.change(path, some(0, 900), undefined, limits)
      await t.rejects(properties.change(path, some(900, 200), undefined, limits), { code: 'no_space' })
      t.equal((await properties.of(path)).length, 900)
      t.ok((await properties.sizeOfChildren(root)) > 900 * 256)
    })

    void s.test('the properties of one user are limited in total, copies included', async (t) => {
      const { properties } = await fresh(t)
      const [limit, ada, bob] = [10_000, 1, 2]
      const set = (path: string, length: number, userId = ada) =>
        properties.change(asPath(path), [{ set: property('p', 'v'.repeat(length)) }], userId, { ofUser: limit })
      await set('/a', 4000)
      await set('/b', 4000)
      await t.rejects(set('/c', 4000), { code: 'no_space' })
      t.same(await properties.of(asPath('/c')), [], 'nothing is stored')
      await set('/c', 4000, bob)
      await set('/b', 3000)
      await set('/d', 1000)
      await properties.assertRoom(ada, limit)
      await properties.copy(asPath('/c'), asPath('/e'), true, ada)
      await t.rejects(properties.assertRoom(ada, limit), { code: 'no_space' })
      await properties.assertRoom(bob, limit)
      await properties.transfer([[asPath('/a'), asPath('/f')]], false)
      await properties.delete(asPath('/f'))
      await properties.assertRoom(ada, limit)
      await properties.transfer([[asPath('/e'), asPath('/g')]], true, ada)
      await t.rejects(set('/h', 10), { code: 'no_space' })
    })

    void s.test('properties: set, replaced and removed in one change', async (t) => {
      const { properties } = await fresh(t)
      const path = asPath('/f%_')
      await properties.change(path, [{ set: property('one') }, { set: property('two') }])
      await properties.change(path, [{ set: property('one', 'new') }, { remove: property('two') }])
      t.same(await properties.of(path), [property('one', 'new')])
      await properties.change(root, [{ set: property('top') }])
      await properties.change(asPath('/f%_/below'), [{ set: property('deep') }])
      t.same([...(await properties.ofChildren(root))], [[path, [property('one', 'new')]]], 'direct children only')
      await properties.delete(path)
      t.same(await properties.of(asPath('/f%_/below')), [])
      t.same(await properties.of(root), [property('top')])
    })

    const tree = ['/a', '/a/é "%_\'', '/a/é "%_\'/世界', '/a b', '/a0', '/A', '/b', '/b/old'].map(asPath)

    void s.test('properties move with their path, whatever its name, and replace those of the target', async (t) => {
      const { properties } = await fresh(t)
      for (const path of tree) await properties.change(path, [{ set: property(path) }])
      await properties.move(asPath('/a'), asPath('/b'))
      t.same(await properties.of(asPath('/b')), [property('/a')])
      t.same(await properties.of(asPath('/b/é "%_\'/世界')), [property('/a/é "%_\'/世界')])
      t.same([...(await properties.ofChildren(asPath('/b'))).keys()], ['/b/é "%_\''])
      t.same(await properties.of(asPath('/b/old')), [])
      t.same(await properties.of(asPath('/a')), [])
      for (const path of ['/a b', '/a0', '/A'].map(asPath)) t.same(await properties.of(path), [property(path)])
      t.same([...(await properties.ofChildren(asPath('/'))).keys()].sort(), ['/A', '/a b', '/a0', '/b'])
      await properties.move(asPath('/a0'), asPath('/a0'))
      t.same(await properties.of(asPath('/a0')), [property('/a0')])
      await t.rejects(properties.move(asPath('/b'), asPath('/b/c')), { code: 'invalid' })
    })

    void s.test('properties are copied for a path alone or with its tree', async (t) => {
      const { properties } = await fresh(t)
      for (const path of tree) await properties.change(path, [{ set: property(path) }])
      await properties.copy(asPath('/a'), asPath('/b'), false)
      t.same(await properties.of(asPath('/b')), [property('/a')])
      t.same(await properties.of(asPath('/b/old')), [property('/b/old')])
      await properties.copy(asPath('/a'), asPath('/b'), true)
      t.same(await properties.of(asPath('/b/old')), [])
      t.same(await properties.of(asPath('/b/é "%_\'/世界')), [property('/a/é "%_\'/世界')])
      t.same([...(await properties.ofChildren(asPath('/b/é "%_\''))).keys()], ['/b/é "%_\'/世界'])
      t.same(await properties.of(asPath('/a')), [property('/a')], 'the source keeps its properties')
    })

    void s.test('attributes: set one by one, moved and copied with their path', async (t) => {
      const { attributes, folders, storages } = await fresh(t)
      const [f, g] = [asPath('/d/f'), asPath('/e/g')]
      t.equal(await attributes.of(f), undefined)
      await attributes.set(f, {})
      t.equal(await attributes.of(f), undefined)
      await attributes.set(f, { modified: new Date(-5) })
      await attributes.set(f, { mode: 0o640 })
      t.same(await attributes.of(f), { modified: new Date(-5), mode: 0o640 })
      t.same([...(await attributes.ofChildren(asPath('/d'))).keys()], [f])
      await attributes.set(g, { mode: 1 })
      await attributes.copy(f, g)
      t.same(await attributes.of(g), { modified: new Date(-5), mode: 0o640 })
      await attributes.copy(asPath('/none'), g)
      t.equal(await attributes.of(g), undefined, 'a copy without attributes replaces, too')
      await folders.put(asPath('/d/folder'))
      const { id } = await storages.insert(storageRow({}))
      const { remark } = await storages.updateAndMove(id, { remark: 'moved' }, asPath('/d'), asPath('/e'))
      t.equal(remark, 'moved')
      t.same([...(await attributes.ofChildren(asPath('/e'))).keys()], ['/e/f'])
      t.same([...(await folders.ofChildren(asPath('/e'))).keys()], ['/e/folder'])
      await attributes.delete(asPath('/e'))
      t.equal(await attributes.of(asPath('/e/f')), undefined)
    })

    void s.test(
      'hasWithin() is correct after the first row is inserted, despite the cached emptiness of the table',
      async (t) => {
        const store = await fresh(t)
        const path = asPath('/a/b')
        // The query of the empty table and the insertion run concurrently.
        const [early] = await Promise.all([
          store.properties.hasWithin(path),
          store.relaxed.properties.change(path, [{ set: property('x') }]),
        ])
        t.type(early, 'boolean')
        t.equal(await store.properties.hasWithin(path), true)
        t.equal(await store.relaxed.properties.hasWithin(asPath('/a')), true, 'below')
        t.equal(await store.properties.hasWithin(asPath('/c'), path), true, 'one of several paths')
        t.equal(await store.properties.hasWithin(asPath('/a/bc')), false)
        t.equal(await store.attributes.hasWithin(root), false)
        await store.relaxed.attributes.set(path, { mode: 0o600 })
        t.equal(await store.attributes.hasWithin(root), true)
        await store.attributes.delete(path)
        t.equal(await store.attributes.hasWithin(root), false)
      },
    )

    void s.test('applying an intent moves rules, properties and attributes once', async (t) => {
      const { intents, rules, properties, attributes, storages } = await fresh(t)
      const [from, to] = [asPath('/mount/a'), asPath('/mount/b')]
      await rules.insert(ruleRow({ path: from }))
      await properties.change(asPath('/mount/a/f'), [{ set: property('p') }])
      await attributes.set(asPath('/mount/a/f'), { mode: 1 })
      const { id: storageId } = await storages.insert(storageRow({ mountPath: asPath('/mount') }))
      const { id: other } = await storages.insert(storageRow({ mountPath: asPath('/other') }))
      const moved = { storageId, kind: 'move', from: asPath('/a'), to: asPath('/b') } as const
      const backup = { storageId, kind: 'backup', from: moved.to, to: asPath('/c') } as const
      const id = await intents.insert(moved)
      const backupId = await intents.insert(backup)
      const elsewhere = await intents.insert({ ...backup, storageId: other })
      t.same(await intents.all(), [
        { ...moved, id },
        { ...backup, id: backupId },
        { ...backup, id: elsewhere, storageId: other },
      ])
      await intents.apply(id, asPath('/mount'))
      await intents.apply(id, asPath('/mount'))
      t.equal(await intents.get(id), undefined)
      t.same(
        await intents.ofStorage(storageId),
        [{ ...backup, id: backupId, kind: 'spare backup' }],
        'the backup of the target is a spare one',
      )
      t.same(await intents.ofStorage(other), [{ ...backup, id: elsewhere, storageId: other }])
      await intents.drop(backupId)
      await storages.delete(other)
      t.same(await intents.all(), [], 'intents are deleted with their storage')
      t.equal((await rules.all())[0]?.path, to)
      t.same(await properties.of(asPath('/mount/b/f')), [property('p')])
      t.same(await attributes.of(asPath('/mount/b/f')), { modified: undefined, mode: 1 })
    })

    void s.test('removals end with their source or their target', async (t) => {
      const { intents, storages } = await fresh(t)
      const { id: storageId } = await storages.insert(storageRow({ mountPath: asPath('/m') }))
      const { id: other } = await storages.insert(storageRow({ mountPath: asPath('/other') }))
      const rows = [
        [storageId, '/d', '/m/e'],
        [storageId, '/d/n', '/m/f/n'],
        [storageId, '/dd', '/m/ee'],
        [other, '/d', '/m/e/n'],
      ] as const
      for (const [id, from, to] of rows)
        await intents.insert({ storageId: id, kind: 'removal', from: asPath(from), to: asPath(to) })
      const backup = { storageId, kind: 'backup', from: asPath('/d'), to: asPath('/m/e') } as const
      await intents.insert(backup)
      const left = async () => (await intents.all()).map(({ from, to }) => `${from} ${to}`)
      await intents.endRemovals(asPath('/m/x'))
      t.equal((await left()).length, 5)
      await intents.endRemovals(asPath('/m/e'))
      t.same(await left(), ['/d/n /m/f/n', '/dd /m/ee', '/d /m/e'])
      await intents.endRemovals(asPath('/m/d'), { storageId: other, from: asPath('/d') })
      t.equal((await left()).length, 3)
      await intents.endRemovals(asPath('/m/d'), { storageId, from: asPath('/d') })
      t.same(await left(), ['/dd /m/ee', '/d /m/e'])
    })

    void s.test('onForeignChange() reports changes of other processes only', async (t) => {
      const file = await newDatabase(t)
      const store = await openStore(file)
      t.teardown(() => store.close())
      let told = 0
      let rejected = 0
      const ended = store.onForeignChange('settings', async () => {
        told++
        if (rejected === 2) return
        rejected++
        throw new Error('not now')
      })
      await store.settings.set(new Map([['ours', '1']]))
      await wait(600)
      t.equal(told, 0)
      await elsewhere(file, `await store.settings.set(new Map([['theirs', '1']]))`)
      // Opening the store elsewhere is a commit too. On SQLite, a poll between it and the change adds a call.
      while (told < 3) await wait(20)
      t.equal(rejected, 2, 'called again while the listener rejects')
      t.equal((await store.settings.all()).get('theirs'), '1')
      ended()
      const before = told
      let others = 0
      store.onForeignChange('settings', () => {
        others++
      })
      await elsewhere(file, `await store.settings.set(new Map([['theirs', '2']]))`)
      while (others === 0) await wait(20)
      t.equal(told, before, 'not called after it was removed')
    })

    void s.test('each change is reported to the listeners of its topic only', async (t) => {
      const file = await newDatabase(t)
      const [store, other] = [await openStore(file), await openStore(file)]
      t.teardown(() => Promise.all([store.close(), other.close()]))
      const topics: readonly Topic[] = [
        ...(['accounts', 'grants', 'groups', 'locks', 'rules', 'settings', 'storages', 'tasks'] as const),
      ]
      const notified: Topic[] = []
      for (const topic of topics) store.onForeignChange(topic, () => void notified.push(topic))
      const [from, to] = [asPath('/a'), asPath('/b')]
      const lock: Lock = {
        token: 'urn:uuid:1',
        path: from,
        userId: 1,
        username: 'ada',
        scope: 'exclusive',
        deep: true,
        owner: '',
        expires: new Date(Date.now() + 60_000),
      }
      const key = { userId: 1, title: 'k', type: 'ssh-ed25519', blob: Buffer.from('b'), fingerprint: 'f' }
      const appPassword = {
        userId: 1,
        name: 'n',
        prefix: 'p',
        digest: 'd',
        protocols: ['webdav'],
        readOnly: false,
        folder: root,
        expires: undefined,
      } as const
      const dates = { added: new Date(0), lastUsed: new Date(0) }
      const session = {
        ...{ userId: 1, prefix: 'p', digest: 'd', passwordTime: 0, address: '', userAgent: '' },
        ...{ created: new Date(0), lastUsed: new Date(0), expires: new Date(0), twoStep: false },
      }
      const move = { storageId: 1, kind: 'move', from, to } as const
      const changes: readonly (readonly [topic: Topic | undefined, change: () => Promise<unknown>])[] = [
        ['accounts', () => other.users.insert(userRow({}))],
        ['accounts', () => other.users.change(1, () => ({ disabled: true }))],
        ['accounts', () => other.keys.add({ ...key, ...dates }, 9)],
        ['accounts', () => other.keys.delete(1)],
        ['accounts', () => other.appPasswords.add({ ...appPassword, ...dates }, 9)],
        ['accounts', () => other.appPasswords.delete(1)],
        ['accounts', () => other.consoleSessions.add(session, 9)],
        ['accounts', () => other.consoleSessions.touch(1, new Date(1))],
        ['accounts', () => other.consoleSessions.confirm(1, new Date(1))],
        ['accounts', () => other.consoleSessions.sweep(new Date(1))],
        ['accounts', () => other.identities.add(identityRow({}), 9)],
        ['accounts', () => other.identities.see(1, { checked: new Date(1) })],
        [undefined, () => other.passkeys.add(passkeyRow({}), 9)],
        ['accounts', () => other.revokedTokens.insert('token', new Date())],
        ['accounts', () => other.users.delete(1)],
        ['locks', () => other.locks.grant(lock, () => undefined)],
        ['locks', () => other.locks.refresh(lock.token, new Date(Date.now() + 90_000))],
        ['locks', () => other.locks.delete(lock.token)],
        ['storages', () => other.storages.insert(storageRow({}))],
        ['storages', () => other.storages.update(1, { disabled: true })],
        ['rules', () => other.rules.insert(ruleRow({ path: from }))],
        ['rules', () => other.intents.insert(move).then((id) => other.intents.apply(id, root))],
        ['rules', () => other.rules.move(to, from)],
        ['rules', () => other.rules.delete(1)],
        ['groups', () => other.groups.insert(groupRow({}))],
        ['accounts', () => other.users.insert(userRow({}))],
        ['groups', () => other.groups.setMembers(1, [2])],
        ['groups', () => other.users.change(2, () => ({}), { groups: [] })],
        ['grants', () => other.grants.insert(grantRow({ groupId: 1, path: from }))],
        ['grants', () => other.intents.insert(move).then((id) => other.intents.apply(id, root))],
        ['grants', () => other.grants.move(to, from)],
        ['grants', () => other.grants.delete(1)],
        ['grants', () => other.grants.replace({ userId: undefined, groupId: 1 }, [grantRow({ path: from })])],
        ['grants', () => other.grants.replace({ userId: undefined, groupId: 1 }, [])],
        ['settings', () => other.settings.set(new Map([['a', 'b']]))],
        ['settings', () => other.settings.delete('a')],
        [undefined, () => other.intents.insert(move).then((id) => other.intents.apply(id, root))],
        [undefined, () => other.properties.change(from, [{ set: property('p') }])],
        [undefined, () => other.attributes.set(from, { mode: 1 })],
        [undefined, () => other.folders.put(from)],
        [undefined, () => other.driverState.set(1, 'key', 'value')],
        [undefined, () => other.secrets.obtain('name', 'value')],
        [undefined, () => other.tasks.insert(taskRow({ id: 'k' }))],
        [undefined, () => other.tasks.update(taskRow({ id: 'k', state: 'failed' }))],
        ['tasks', () => other.tasks.request(['k', 'gone'], 'retry')],
        ['tasks', () => other.tasks.deleteRequest(1)],
        ['tasks', () => other.tasks.request(['k'], 'delete')],
        ['tasks', () => other.tasks.delete(['k'])],
        ['storages', () => other.storages.deleteWithUploads(1)],
      ]
      for (const [index, [topic, change]] of changes.entries()) {
        notified.length = 0
        await change()
        while (topic !== undefined && notified.length === 0) await wait(20)
        // Long enough for the poll that follows a change without a topic.
        if (topic === undefined) await wait(300)
        t.same(notified, topic === undefined ? [] : [topic], `change ${index + 1}`)
      }
    })

    void s.test('a committed change survives a killed process', async (t) => {
      const file = await newDatabase(t)
      await (await openStore(file)).close()
      const killed = elsewhere(
        file,
        `await store.settings.set(new Map([['kept', 'yes']]))
    process.kill(process.pid, 'SIGKILL')
    await new Promise((resolve) => setTimeout(resolve, 60_000))`,
      )
      t.match(await killed.catch((error: unknown) => error), { signal: 'SIGKILL' })
      const store = await openStore(file)
      t.teardown(() => store.close())
      t.equal((await store.settings.all()).get('kept'), 'yes')
    })

    void s.test('two processes can read and write concurrently', async (t) => {
      const file = await newDatabase(t)
      const store = await openStore(file)
      t.teardown(() => store.close())
      const theirs = elsewhere(
        file,
        `for (let i = 0; i < 50; i++) {
      await store.settings.set(new Map([['theirs', String(i)]]))
      await store.settings.all()
    }`,
      )
      for (let i = 0; i < 50; i++) await store.settings.set(new Map([['ours', String(i)]]))
      await theirs
      t.same(Object.fromEntries(await store.settings.all()), { ours: '49', theirs: '49' })
    })

    void s.test('calls of a closed store reject', async (t) => {
      const store = await openStore(await newDatabase(t))
      await store.close()
      await t.rejects(store.settings.all(), { name: 'GatewayError' })
    })

    void s.test('uploads are orphaned without their task, and deleted with their storage', async (t) => {
      const { tasks, uploads, storages } = await fresh(t)
      const storage = await storages.insert(storageRow({ mountPath: asPath('/a') }))
      const other = await storages.insert(storageRow({ mountPath: asPath('/b') }))
      for (const id of ['one', 'two']) await tasks.insert(taskRow({ id }))
      const row = { taskId: 'one', path: asPath('/a/x'), source: 'r1', storageId: storage.id, token: 'first' }
      const id = await uploads.insert(row)
      await t.rejects(uploads.insert(row), { code: 'exists' })
      await t.rejects(uploads.insert({ ...row, taskId: 'none' }), { code: 'not_found' })
      await uploads.setToken(id, 'second')
      t.same(await uploads.of('one', row.path), { ...row, id, token: 'second' })
      t.equal(await uploads.of('two', row.path), undefined)
      const second = await uploads.insert({ ...row, taskId: 'two', storageId: other.id })
      const third = await uploads.insert({ ...row, taskId: 'two', path: asPath('/y'), token: 'third' })
      t.same(await uploads.tokens(), ['second', 'first', 'third'])
      t.same((await uploads.tasksWithUploads()).sort(), ['one', 'two'])
      await uploads.orphan(id)
      await uploads.insert({ ...row, token: 'fourth' })
      await tasks.delete(['two'])
      t.same(
        (await uploads.orphaned()).map((each) => each.id),
        [id, second, third],
      )
      t.same(await uploads.tokens(), ['fourth'])
      t.same(await storages.deleteWithUploads(other.id), ['first'])
      t.equal(await storages.deleteWithUploads(other.id), undefined)
      await uploads.delete(third)
      await uploads.orphanAll('one')
      t.match(await uploads.orphaned(), [{ id }, { token: 'fourth' }])
    })
  })
}
