/** The built program, run as a user or a script runs it, beside a running daemon. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import ssh2 from 'ssh2'
import t, { type Test } from 'tap'
import { allPermissions, permissionBits } from '../../src/accounts/principal.js'
import { fingerprintOf } from '../../src/accounts/public-keys.js'
import { asPath } from '../../src/base/path.js'
import type { ResumableUpload } from '../../src/storage/fallbacks/resumable-write.js'
import { generateKeyPair } from '../../protocols/sftp/host-keys.js'
import { startGateway } from '../gateway.js'
import { storeVariables, withoutSqlite } from '../store-location.js'
import { connectHttp } from '../stories/protocols.js'
import { main, outcomeOf, type Outcome } from './outcome.js'
import { until } from '../until.js'

const publicKey = (await generateKeyPair('ed25519', { comment: 'someone@somewhere' })).public

async function tidegate(
  words: readonly string[],
  { input = '', environment = {} }: { input?: string | Buffer; environment?: Record<string, string> } = {},
): Promise<Outcome> {
  const at = words.indexOf('--data') + 1
  const store = at > 0 ? await storeVariables(words[at] ?? '') : {}
  const child = spawn(process.execPath, [main, ...words], { env: { ...process.env, ...store, ...environment } })
  child.stdin.on('error', () => undefined)
  child.stdin.end(input)
  return outcomeOf(child)
}

async function folder(t: Test): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'tidegate-cli-'))
  t.teardown(() => rm(made, { recursive: true, force: true }))
  return made
}

async function canSignIn(url: string, username: string, password: string): Promise<boolean> {
  try {
    await connectHttp({ url, davUrl: '', sftpPort: 0 }, { username, password })
    return true
  } catch {
    return false
  }
}

void t.test('user commands take effect in a running daemon', async (t) => {
  const { url, dataFolder, gateway } = await startGateway(t, { driver: { name: 'Memory' } })
  const data = ['--data', dataFolder]
  const known = () => gateway.accounts.users.byName('anna')

  const added = await tidegate(['user', 'add', 'anna', ...data, '--json', '--password-stdin'], { input: 'tide\n' })
  t.equal(added.status, 0, added.err)
  t.match(JSON.parse(added.out), {
    username: 'anna',
    role: 'general',
    base_path: '/',
    permissions: ['webdav-read', 'sftp-read'],
    disabled: false,
  })
  t.ok(await until(() => known() !== undefined), 'the daemon knows the new user')
  t.ok(await canSignIn(url, 'anna', 'tide'))
  const before = known()?.passwordHash

  const again = await tidegate(['user', 'add', 'anna', ...data], { environment: { TIDEGATE_PASSWORD: 'x' } })
  t.equal(again.status, 1)
  t.equal(again.err, 'tidegate: a user of this name exists already\n')

  const environment = { TIDEGATE_PASSWORD: '', TIDEGATE_PASSWORD_FILE: join(await folder(t), 'password') }
  await writeFile(environment.TIDEGATE_PASSWORD_FILE, 'ebb\n')
  const changed = await tidegate(['user', 'passwd', 'anna', ...data], { environment })
  t.equal(changed.status, 0, changed.err)
  t.ok(await until(() => known()?.passwordHash !== before), 'the daemon knows the new password')
  t.ok(await canSignIn(url, 'anna', 'ebb'))
  t.notOk(await canSignIn(url, 'anna', 'tide'), 'the daemon rejects the old password')

  const protocol = await connectHttp({ url, davUrl: '', sftpPort: 0 }, { username: 'anna', password: 'ebb' })
  t.same(await protocol.names('/'), [])
  t.equal((await tidegate(['user', 'disable', 'anna', ...data])).status, 0)
  const refused = async () => (await protocol.names('/')) === 'refused'
  t.ok(await until(refused), 'the session of a disabled user has ended')
  t.equal((await tidegate(['user', 'enable', 'anna', ...data])).status, 0)

  const random = await tidegate(['user', 'add', 'ben', ...data, '--random', '--permissions', 'all', '--json'])
  t.match(JSON.parse(random.out), { username: 'ben', permission: allPermissions, password: /^[a-z0-9]{20}$/ })

  const table = await tidegate(['user', 'list', ...data])
  t.match(table.out, /^ID {2}USERNAME {2}ROLE/)
  t.match(table.out, /admin +admin +\/ +no +all\n/)
  t.equal((await tidegate(['user', 'rm', 'ben', ...data])).status, 0)
  const missing = await tidegate(['user', 'rm', 'ben', ...data])
  t.equal(missing.err, 'tidegate: there is no user ben\n')
  t.equal(missing.status, 1)
})

void t.test('group and grant commands take effect in a running daemon, and no session ends', async (t) => {
  const { url, dataFolder, gateway, adminPassword } = await startGateway(t, { driver: { name: 'Memory' } })
  const data = ['--data', dataFolder]
  const at = { url, davUrl: '', sftpPort: 0 }
  const admin = await connectHttp(at, { username: 'admin', password: adminPassword })
  for (const path of ['/open', '/shut']) t.equal(await admin.makeFolder(path), 'done')
  await tidegate(['user', 'add', 'ann', ...data, '--password-stdin'], { input: 'tide\n' })
  t.ok(await until(() => gateway.accounts.users.byName('ann') !== undefined))
  const ann = await connectHttp(at, { username: 'ann', password: 'tide' })
  const run = (...words: readonly string[]) => tidegate([...words, ...data])
  const names = async () => JSON.stringify(await ann.names('/'))

  t.match(await run('group', 'add', 'sales', '--permissions', 'write'), {
    status: 0,
    out: 'the group sales is added\n',
  })
  t.match(await run('group', 'join', 'sales', 'ann'), { status: 0, out: 'ann joined the group sales\n' })
  t.match(await run('grant', 'add', '/shut', '--group', 'sales', '--deny', 'see'), { status: 0 })
  t.ok(await until(async () => (await names()) === '["open"]'), 'the daemon knows the grant')
  t.equal(await ann.put('/open/file', Buffer.from('x')), 'done', 'and the permission')
  const own = await run('grant', 'add', '/shut/', '--user', 'ann', '--allow', 'read, write', '--json')
  t.match(JSON.parse(own.out), { user: 'ann', path: '/shut', allow: ['read', 'write'], deny: [] })
  t.ok(await until(async () => (await names()) === '["open","shut"]'), 'her own decides before that of the group')

  const again = await run('grant', 'add', '/shut', '--user', 'ann', '--allow', 'read', '--allow', 'write')
  t.match(again.out, /is stored, in place of one that allowed read, write and denied nothing\n/)

  const list = await run('grant', 'list')
  t.match(list.out, /^USER {2}GROUP {2}PATH {3}ALLOWED {5}DENIED\nann {10}\/shut {2}read,write\n {6}sales {2}\/shut/)
  t.match(JSON.parse((await run('grant', 'list', '--group', 'sales', '--json')).out), [
    { group: 'sales', deny: ['see'] },
  ])
  t.match((await run('group', 'list')).out, /sales {2}no {6}write {8}ann/)

  t.match(await run('grant', 'rm', '/shut', '--user', 'ann'), { status: 0, out: 'the grant at /shut is removed\n' })
  t.match(await run('grant', 'rm', '/shut', '--user', 'ann'), { status: 1, err: /there is no such grant at \/shut/ })
  t.ok(await until(async () => (await names()) === '["open"]'))
  t.match(await run('group', 'edit', 'sales', '--name', 'trade', '--admin'), { status: 0 })
  t.ok(await until(async () => (await names()) === '["open","shut"]'), 'an admin sees all')
  t.match((await run('user', 'list')).out, /\bann +general, admin by trade +\/ /)
  const listed = JSON.parse((await run('user', 'list', '--json')).out) as readonly object[]
  t.match(listed.at(-1), { username: 'ann', role: 'general', groups: [{ name: 'trade', admin: true }] })
  const warning =
    /^tidegate: no admin can sign in from everywhere now: admin only from 10\.0\.0\.0\/8\. "tidegate user edit/
  t.match(await run('user', 'edit', 'admin', '--allow-from', '10.0.0.0/8'), { status: 0, err: '' }, 'ann is one too')
  t.match(await run('group', 'edit', 'trade', '--no-admin'), { status: 0 })
  t.match(await run('user', 'edit', 'admin', '--allow-from', '10.0.0.0/8', '--json'), { status: 0, err: warning })
  t.match(await run('user', 'edit', 'admin', '--allow-from', 'any'), { status: 0, err: '' })
  t.ok(await until(async () => (await names()) === '["open"]'))
  t.match(await run('group', 'leave', 'trade', 'ann'), { status: 0, out: 'ann left the group trade\n' })
  t.ok(await until(async () => (await names()) === '["open","shut"]'))
  t.match(await run('group', 'rm', 'trade'), { status: 0, out: 'the group trade is removed\n' })
  t.equal((await run('grant', 'list', '--json')).out, '[]\n')

  await t.test('what is wrong is refused', async (t) => {
    for (const [words, status, err] of [
      [['group', 'join', 'trade', 'ann'], 1, /there is no group trade/],
      [['group', 'edit', 'trade'], 2, /nothing to change/],
      [['group', 'add', 'x', '--permissions', 'fly'], 2, /unknown permission "fly"/],
      [['grant', 'add', '/a', '--allow', 'read'], 2, /name a user with --user, or a group/],
      [['grant', 'add', '/a', '--user', 'ann', '--group', 'x'], 2, /cannot be used with/],
      [['grant', 'add', '/a', '--user', 'ann', '--allow', 'fly'], 2, /unknown right fly; there are: see, read/],
      [['grant', 'add', '/a', '--user', 'ann', '--user', 'ben', '--allow', 'read'], 2, /It is given twice/],
      [['grant', 'add', '/a', '--user', 'ann'], 2, /allows and denies nothing/],
      [
        ['grant', 'add', 'a', '--user', 'ann', '--allow', 'see'],
        2,
        /a is not a path of the tree, which begins with \//,
      ],
      [['grant', 'rm', 'a', '--user', 'ann'], 2, /begins with \//],
      [['user', 'edit', 'ann', '--base-path', 'a'], 2, /begins with \//],
      [['storage', 'add', 'a', 'Memory'], 2, /begins with \//],
    ] as const) {
      t.match(await run(...words), { status, err }, words.join(' '))
    }
  })
})

void t.test('explain says what decides without a daemon, in words and for programs', async (t) => {
  const daemon = await startGateway(t, { driver: { name: 'Memory' } })
  await daemon.stop()
  const run = (...words: readonly string[]) => tidegate([...words, '--data', daemon.dataFolder])
  t.match(await run('user', 'add', 'ann', '--permissions', 'write', '--random'), { status: 0 })
  await run('group', 'add', 'sales', '--permissions', 'webdav-read,webdav-manage')
  await run('group', 'join', 'sales', 'ann')
  await run('grant', 'add', '/shut', '--group', 'sales', '--deny', 'write')
  await run('storage', 'add', '/other', 'Alias', '-o', 'paths=/shut')

  const refused = await run('explain', 'ann', 'write', '/shut/x', '--protocol', 'webdav', '--address', '10.0.0.1')
  t.match(refused, { status: 0, err: '' })
  const lines = refused.out.split('\n')
  t.same(lines.slice(0, 4), [
    'ann may not write /shut/x by webdav (denied):',
    'the grant of the group sales at /shut denies write',
    '',
    'ASKED         VERDICT  WHY',
  ])
  t.match(lines[4], /^session {7}- {8}the account of ann can be used$/)
  t.ok(lines.includes('right         refuses  the grant of the group sales at /shut denies write'))
  t.match(
    refused.out,
    /\n\nNote: the grant of the group sales at \/shut denies write, and the storage \/other \(Alias\)/,
  )

  const allowed = await run('explain', 'ann', 'write', '/open', '--json')
  const { decided_by: decidedBy, ...answer } = JSON.parse(allowed.out) as Readonly<Record<string, unknown>>
  t.match(answer, { allowed: true, error: null, notes: [] })
  t.match(decidedBy, {
    ...{ kind: 'permission', id: null, subject: null, path: '/open' },
    text: 'no grant mentions write: ann has the permission write',
  })
  t.match(
    (await run('explain', 'ann', 'read', '/', '--protocol', 'webdav')).out,
    /webdav needs webdav-read: ann has that/,
  )

  for (const [words, status, err] of [
    [['explain', 'nobody', 'read', '/'], 1, /there is no user nobody/],
    [['explain', 'ann', 'fly', '/'], 2, /unknown right fly; there are: see, read/],
    [['explain', 'ann', 'read', '/', '--protocol', 'gopher'], 2, /--protocol/],
    [['explain', 'ann', 'read', '/', '--address', 'here'], 2, /here is not an IP address/],
    [['explain', 'ann', 'read', '/a/../b'], 2, /\.\./],
    [['explain', 'ann', 'read', 'a'], 2, /begins with \//],
    [['explain', 'ann', 'read'], 2, /missing required argument/],
  ] as const) {
    t.match(await run(...words), { status, err }, words.join(' '))
  }
})

void t.test('user reset-2fa lets a user in who lost the authenticator, at a running daemon', async (t) => {
  const { url, dataFolder, gateway, adminPassword } = await startGateway(t, { driver: { name: 'Memory' } })
  const data = ['--data', dataFolder]
  const { users } = gateway.accounts
  const admin = users.byUniqueRole('admin')
  const known = () => users.byUniqueRole('admin')?.otpSecret
  await users.update(admin?.id ?? 0, { otpSecret: 'JBSWY3DPEHPK3PXP' })
  t.notOk(await canSignIn(url, 'admin', adminPassword), 'a code is required')

  const reset = await tidegate(['user', 'reset-2fa', 'admin', ...data])
  t.match(reset, { status: 0, out: 'admin has no two-step verification any more\n' })
  t.ok(await until(() => known() === ''), 'the daemon knows')
  t.ok(await canSignIn(url, 'admin', adminPassword))

  const again = await tidegate(['user', 'reset-2fa', 'admin', ...data, '--json'])
  t.match(JSON.parse(again.out), { username: 'admin', two_step: false })
  const missing = await tidegate(['user', 'reset-2fa', 'nobody', ...data])
  t.match(missing, { status: 1, err: 'tidegate: there is no user nobody\n' })
})

void t.test('user edit changes what is given, in a running daemon', async (t) => {
  const { url, dataFolder, gateway } = await startGateway(t, { driver: { name: 'Memory' } })
  const data = ['--data', dataFolder]
  const add = ['user', 'add', 'ann', '--base-path', '/ann', '--permissions', 'write', '--password-stdin', ...data]
  t.equal((await tidegate(add, { input: 'a password\n' })).status, 0)
  const edit = (...words: readonly string[]) => tidegate(['user', 'edit', 'ann', ...words, ...data])
  t.match(await edit('--permissions', 'write,remove'), { status: 0, out: 'ann is changed\n' })
  const stored = () => gateway.accounts.users.byName('ann')
  t.ok(await until(() => stored()?.permission === (permissionBits.write | permissionBits.remove)))
  t.equal(stored()?.basePath, '/ann', 'the rest stays')
  t.match(await edit('--username', 'anna', '--base-path', '/'), { status: 0 })
  t.ok(await until(() => canSignIn(url, 'anna', 'a password')))
  t.equal(gateway.accounts.users.byName('anna')?.basePath, '/')
  t.match(await edit('--base-path', '/'), { status: 1, err: 'tidegate: there is no user ann\n' })
  t.match(await edit(), { status: 2, err: /nothing to change/ })
  t.match(await edit('--permissions', 'fly'), { status: 2, err: /unknown permission "fly"/ })
})

void t.test('user and group commands set networks, an end, and what a group requires', async (t) => {
  const { dataFolder, gateway } = await startGateway(t, { driver: { name: 'Memory' } })
  const run = (...words: readonly string[]) => tidegate([...words, '--data', dataFolder, '--json'])
  const limits = ['--allow-from', '10.0.0.0/8, 192.0.2.1', '--expires', '2030-12-31T23:59:59Z', '--granted-only']
  const added = await run('user', 'add', 'ann', '--random', ...limits)
  const shown = { allow_from: ['10.0.0.0/8', '192.0.2.1'], expires: '2030-12-31T23:59:59.000Z', granted_only: true }
  t.match(JSON.parse(added.out), shown)
  const edit = async (...words: readonly string[]): Promise<unknown> =>
    JSON.parse((await run('user', 'edit', 'ann', ...words)).out)
  t.match(await edit('--permissions', 'write'), shown, 'the rest stays')
  t.match(await edit('--no-granted-only', '--expires', 'never'), { ...shown, expires: null, granted_only: false })
  t.match(await edit('--allow-from', 'any'), { allow_from: [], expires: null })
  for (const words of [
    ['--expires', 'tomorrow'],
    ['--expires', '2030-12-31'],
    ['--allow-from', 'office'],
  ]) {
    t.match(
      await run('user', 'edit', 'ann', ...words),
      { status: 2, err: /tomorrow|2030-12-31|office/ },
      words.join(' '),
    )
  }
  t.match(await run('user', 'edit', 'admin', '--allow-from', '192.0.2.1'), { status: 0 }, 'commands ask nobody')
  t.match(await run('user', 'edit', 'admin', '--expires', '2030-12-31T23:59:59Z'), {
    status: 2,
    err: /cannot have an end/,
  })

  const group = await run('group', 'add', 'sales', '--require-two-step')
  t.match(JSON.parse(group.out), { name: 'sales', require_two_step: true })
  t.match(JSON.parse((await run('group', 'edit', 'sales', '--description', 'all')).out), { require_two_step: true })
  t.ok(await until(() => gateway.accounts.groups.byName('sales')?.requireTwoStep === true), 'the daemon knows')
  t.match(JSON.parse((await run('group', 'edit', 'sales', '--no-require-two-step')).out), { require_two_step: false })
  const required = await run('group', 'edit', 'sales', '--require-provider')
  t.match(JSON.parse(required.out), { require_two_step: false, require_provider: true })
})

void t.test('user add rejects a missing password and unknown permissions', async (t) => {
  const { dataFolder } = await startGateway(t, { driver: { name: 'Memory' } })
  const data = ['--data', dataFolder]
  const silent = await tidegate(['user', 'add', 'carl', ...data])
  t.equal(silent.status, 2)
  t.equal(silent.err, 'tidegate: no password: give --password-stdin, --random, or TIDEGATE_PASSWORD\n')
  const strange = await tidegate(['user', 'add', 'carl', ...data, '--random', '--permissions', 'fly'])
  t.equal(strange.status, 2)
  t.match(strange.err, /unknown permission "fly"; there are: see-hidden, /)
})

void t.test('key add takes a key from a file or from standard input', async (t) => {
  const { dataFolder } = await startGateway(t, { driver: { name: 'Memory' } })
  const data = ['--data', dataFolder]
  const file = join(await folder(t), 'key.pub')
  await writeFile(file, `# mine\n\n${publicKey}\n`)
  const added = await tidegate(['key', 'add', 'admin', file, ...data, '--json'])
  t.equal(added.status, 0, added.err)
  const { fingerprint } = JSON.parse(added.out) as { fingerprint: string }
  t.match(fingerprint, /^SHA256:/)
  const twice = await tidegate(['key', 'add', 'admin', '-', ...data], { input: publicKey })
  t.equal(twice.err, 'tidegate: key with the same title already exists\n')
  const listed = await tidegate(['key', 'list', 'admin', ...data, '--json'])
  t.match(JSON.parse(listed.out), [{ title: 'someone@somewhere', type: 'ssh-ed25519', fingerprint }])
  const bad = await tidegate(['key', 'add', 'admin', '-', ...data], { input: 'ssh-dss AAAA\n' })
  t.equal(bad.status, 2, 'a text that is not a key is rejected')
  t.equal((await tidegate(['key', 'rm', 'admin', fingerprint, ...data])).status, 0)
  t.equal((await tidegate(['key', 'list', ...data, '--json'])).out, '[]\n')
})

void t.test('storage add and storage rm take effect in a running daemon', async (t) => {
  const { url, dataFolder, gateway, adminPassword } = await startGateway(t, { driver: { name: 'Memory' } })
  const data = ['--data', dataFolder]
  const protocol = await connectHttp({ url, davUrl: '', sftpPort: 0 }, { username: 'admin', password: adminPassword })
  const added = await tidegate(['storage', 'add', '/second', 'Memory', ...data, '--remark', 'for a test'])
  t.equal(added.status, 0, added.err)
  t.equal(added.out, '/second is added and works\n')
  const has = async (count: number) => (await protocol.names('/')).length === count
  t.ok(await until(() => has(1)), 'the new storage is listed')
  t.same(await protocol.names('/'), ['second'])
  t.match((await tidegate(['storage', 'list', ...data])).out, /\/second +Memory +work/)
  t.match((await tidegate(['nodes', ...data])).out, /^NAME .*\n\S+:\d+ +v\S+ +current .* http 127\.0\.0\.1:\d+/)
  t.equal((await tidegate(['storage', 'rm', '/second', ...data])).status, 0)
  t.ok(await until(() => has(0)), 'the storage is no longer listed')

  const disk = await folder(t)
  await tidegate(['storage', 'add', '/disk', 'Local', '-o', `root_folder_path=${disk}`, ...data])
  const { storage } = gateway.mounts.find(asPath('/disk'))
  const resumable: ResumableUpload = {
    withResume: (storageId, work) =>
      work(undefined, async (token) => {
        const row = { taskId: undefined, path: asPath('/disk/file'), source: '', storageId, token }
        await gateway.store.uploads.insert(row)
      }),
  }
  const read = () => Promise.reject(new Error('the source has ended'))
  const source = { size: 16 * 1024 * 1024, rereadable: true, read }
  await t.rejects(storage.write(asPath('/file'), source, { resumable }), /the source has ended/)
  t.equal((await readdir(disk)).length, 1, 'an upload can be resumed')
  const removed = await tidegate(['storage', 'rm', '/disk', ...data])
  t.match(removed, { status: 0, out: '/disk is removed from the tree\n' }, removed.err)
  t.ok(await until(async () => (await readdir(disk)).length === 0), 'the daemon has discarded it')

  const taken = await tidegate(['storage', 'add', '/', 'Memory', ...data])
  t.match(taken, { status: 1, err: 'tidegate: a storage with this mount_path exists already\n' })
  for (const path of ['/.tidegate-x', '/a\nb', '/../x']) {
    t.match(await tidegate(['storage', 'add', path, 'Memory', ...data]), { status: 2 }, 'rejected as by the API')
  }
  const words = ['storage', 'add', '/gone', 'Local', '-o', 'root_folder_path=/no/such/folder', ...data]
  t.match(await tidegate(words), {
    status: 1,
    out: '',
    err: /^tidegate: \/gone is added, with the id \d+, but does not work: root folder \/no\/such\/folder not exists\n$/,
  })
  const unknown = await tidegate(['storage', 'add', '/third', 'Floppy', ...data])
  t.match(unknown, { status: 2, err: /^tidegate: there is no driver Floppy; there are: / })
  const option = await tidegate(['storage', 'add', '/third', 'Memory', ...data, '-o', 'speed=1'])
  t.match(option, { status: 2, err: /^tidegate: Memory has no option "speed"/ })
})

void t.test(
  'storage add takes options from a file or from standard input, so that no secret is on the command line',
  async (t) => {
    const { dataFolder, gateway } = await startGateway(t, { driver: { name: 'Memory' } })
    const words = ['storage', 'add', '/vault', 'Crypt', '--data', dataFolder, '--options-file']
    const options = { remote_path: '/', password: 'a secret', show_hidden: true }
    const file = join(await folder(t), 'options.json')
    const whatever = { status: 2, out: '' }
    t.match(await tidegate([...words, file]), {
      ...whatever,
      err: /^tidegate: the options file .* cannot be read: ENOENT/,
    })
    for (const content of ['{"password": "a secret"', '[]', 'null', '"a secret"']) {
      const refused = await tidegate([...words, '-'], { input: content })
      t.match(refused, { ...whatever, err: 'tidegate: - does not hold a JSON object\n' }, content)
    }
    const unknown = await tidegate([...words, '-'], { input: JSON.stringify({ ...options, speed: 1 }) })
    t.match(unknown, { ...whatever, err: /^tidegate: Crypt has no option "speed"/ })
    t.match(await tidegate([...words, '-', '-o', 'remote_path'], { input: JSON.stringify(options) }), whatever)
    await writeFile(file, JSON.stringify(options))
    const added = await tidegate([...words, file, '-o', 'filename_encryption=off'])
    t.match(added, { status: 0, out: /^\/vault is added/ }, added.err)
    const row = (await gateway.store.storages.all()).find(({ mountPath }) => mountPath === '/vault')
    const stored: unknown = JSON.parse(row?.addition ?? '')
    t.match(stored, { ...options, password: /^___Obfuscated___/, filename_encryption: 'off' })
  },
)

void t.test('storage edit, disable and enable take effect in a running daemon', async (t) => {
  const { url, dataFolder, adminPassword, gateway } = await startGateway(t, { driver: { name: 'Memory' } })
  const data = ['--data', dataFolder]
  const root = await folder(t)
  await writeFile(join(root, 'here.txt'), '')
  const added = await tidegate(['storage', 'add', '/disk', 'Local', '-o', 'root_folder_path=/no/such/folder', ...data])
  t.match(added, { status: 1, err: /does not work/ })
  const edited = ['storage', 'edit', '/disk', '-o', `root_folder_path=${root}`, '--remark', 'mended', ...data]
  t.match(await tidegate(edited), { status: 0, out: '/disk is changed and works\n' })
  const protocol = await connectHttp({ url, davUrl: '', sftpPort: 0 }, { username: 'admin', password: adminPassword })
  t.same(await protocol.names('/disk'), ['here.txt'])
  const stored = async () => (await gateway.store.storages.all()).find(({ mountPath }) => mountPath === '/disk')
  t.match(await stored(), { remark: 'mended', addition: /"thumbnail":true/ }, 'other options stay')

  t.match(await tidegate(['storage', 'disable', '/disk', ...data]), { status: 0, out: '/disk is disabled\n' })
  t.ok(await until(async () => !(await protocol.names('/')).includes('disk')))
  const note = await tidegate(['storage', 'edit', '/disk', '--remark', 'later', ...data])
  t.match(note, { status: 0, out: '/disk is changed, and is disabled\n' })
  t.match(await tidegate(['storage', 'enable', '/disk', ...data]), { status: 0, out: '/disk is enabled and works\n' })
  t.same(await protocol.names('/disk'), ['here.txt'])
  t.match(await tidegate(['storage', 'enable', '/disk', ...data]), { status: 0 }, 'an enabled one starts again')

  const broken = ['storage', 'edit', '/disk', '-o', 'root_folder_path=/no/such/folder', ...data]
  t.match(await tidegate(broken), { status: 1, err: /\/disk is changed, with the id \d+, but does not work: / })
  for (const [words, status] of [
    [['-o', 'speed=1'], 2],
    [['-o', 'root_folder_path='], 2],
  ] as const) {
    t.match(await tidegate(['storage', 'edit', '/disk', ...words, ...data]), { status, out: '' })
  }
  t.match(await tidegate(['storage', 'edit', '/other', ...data]), {
    status: 1,
    err: 'tidegate: there is no storage /other\n',
  })
})

void t.test('the help of storage add marks required options', async (t) => {
  const { out } = await tidegate(['storage', 'add', '--help'])
  t.match(out, /^ {2}Local: root_folder_path\*, directory_size, thumbnail,/m)
  t.match(out, /^ {2}SFTP: address\*, username\*, .*root_folder_path, /m)
  const [crypt = ''] = /^ {2}Crypt: .*$/m.exec(out) ?? []
  t.same(crypt.match(/\w+(?=\*)/g), ['remote_path', 'password'])
})

void t.test('setting get, list and set read and change settings of a running daemon', async (t) => {
  const { dataFolder, gateway } = await startGateway(t, { driver: { name: 'Memory' } })
  const data = ['--data', dataFolder]
  const setting = (...words: readonly string[]) => tidegate(['setting', ...words, ...data])
  t.match(await setting('get', 'site_title'), { status: 0, out: 'Tidegate\n' })
  t.match(await setting('set', 'site_title', 'Harbour'), { status: 0, out: 'site_title is set\n' })
  t.ok(await until(() => gateway.settings.get('site_title') === 'Harbour'))
  const piped = await tidegate(['setting', 'set', 'announcement', '-', ...data], { input: 'two\nlines\n' })
  t.equal(piped.status, 0, piped.err)
  t.ok(await until(() => gateway.settings.get('announcement') === 'two\nlines'))
  const { out } = await setting('list', 'announce')
  t.match(out, /^KEY +VALUE +MEANING\nannouncement +two… /)
  const all = JSON.parse((await setting('list', '--json')).out) as { key: string }[]
  t.ok(all.some(({ key }) => key === 'egress_networks'))
  t.notOk(
    all.some(({ key }) => key === 'token'),
    'the permanent token is not listed',
  )
  for (const [key, value, reason] of [
    ['egress_networks', '10.0.0.0/99', /is not an address or a network/],
    ['egress_proxy', 'nowhere', /must be HOST:PORT/],
    ['offline_download_temp_dir', 'relative', /must be an absolute path/],
    ['privacy_regs', 'a*'.repeat(10_000), /is illegal/],
    ['token', 'weak', /must be at least 32/],
    ['version', '2', /cannot be changed/],
  ] as const) {
    t.match(await setting('set', key, value), { status: 2, out: '', err: reason }, key)
  }
  t.match(await setting('set', 'site_titel', 'x'), { status: 1, err: /there is no setting site_titel/ })
})

void t.test('admin password and admin token restore an admin’s access', async (t) => {
  const { url, dataFolder, gateway } = await startGateway(t, { driver: { name: 'Memory' } })
  const data = ['--data', dataFolder]
  const hash = () => gateway.accounts.users.byName('admin')?.passwordHash
  const before = hash()
  const set = await tidegate(['admin', 'password', ...data, '--password-stdin'], { input: 'a new one\n' })
  t.equal(set.status, 0, set.err)
  t.ok(await until(() => hash() !== before))
  t.ok(await canSignIn(url, 'admin', 'a new one'))
  const unreadable = await tidegate(['admin', 'password', ...data, '--password-stdin'], {
    input: Buffer.from('caf\xe9\n', 'latin1'),
  })
  t.match(unreadable, { status: 2, err: 'tidegate: the password - is not UTF-8\n' })
  const token = async () => (await tidegate(['admin', 'token', ...data])).out.trim()
  const first = await token()
  const ask = () => fetch(`${url}/api/me`, { headers: { Authorization: first } }).then((answer) => answer.json())
  t.match(await ask(), { code: 200, data: { username: 'admin' } })
  await tidegate(['admin', 'token', '--reset', ...data])
  t.not(await token(), first)
  const dead = async () => ((await ask()) as { code: number }).code === 401
  t.ok(await until(dead), 'the old token is rejected')
})

void t.test('check reports each part of a data folder with a running daemon', async (t) => {
  const { dataFolder } = await startGateway(t, { driver: { name: 'Memory' } })
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  t.teardown(() => taken.close())
  const { port } = taken.address() as { port: number }
  const free = { TIDEGATE_HTTP: '127.0.0.1:0', TIDEGATE_SFTP: '127.0.0.1:0' }
  const good = await tidegate(['check', '--data', dataFolder], { environment: free })
  t.equal(good.status, 0, good.out)
  const [header = '', first = ''] = good.out.split('\n')
  t.equal(header.indexOf('WHAT'), first.indexOf('configuration'), 'the header is above its columns')
  t.match(good.out, /ok +daemon +process \d+ answers at http:/)
  t.match(good.out, /ok +storage \/ +Memory answers/)
  const environment = { ...free, TIDEGATE_HTTP: `127.0.0.1:${port}` }
  const bad = await tidegate(['check', '--data', dataFolder, '--json'], { environment })
  t.equal(bad.status, 1)
  t.match(JSON.parse(bad.out), [
    { what: 'configuration', ok: true },
    { what: 'database', ok: true, detail: '2 users, 1 storage' },
    { what: 'daemon', ok: true },
    { what: 'storage /', ok: true },
    { what: 'http', ok: false, detail: /is taken by another program/ },
    { what: 'sftp', ok: true },
  ])
})

void t.test(
  'check reports storages on other storages as not checked without a daemon, and accepts addresses as serve does',
  async (t) => {
    const daemon = await startGateway(t, { driver: { name: 'Memory' } })
    const data = ['--data', daemon.dataFolder]
    for (const words of [
      ['/shown', 'Alias', '-o', 'paths=/'],
      ['/sealed', 'Crypt', '-o', 'remote_path=/', '-o', 'password=tide'],
    ]) {
      const { err, status } = await tidegate(['storage', 'add', ...words, ...data])
      t.equal(status, 0, err)
    }
    const addresses = ['--http', '127.0.0.1:0', '--sftp', 'off']
    const asked = await tidegate(['check', ...data, ...addresses])
    t.match(asked, { status: 0, out: /^ok +storage \/shown +Alias answers$/m }, asked.out)
    await daemon.stop()
    const good = await tidegate(['check', ...data, ...addresses])
    t.equal(good.status, 0, good.out)
    t.match(good.out, /^not checked +storage \/shown +Alias stands on other storages: only the daemon can open it$/m)
    t.match(good.out, /^ok +http +127\.0\.0\.1:0 is free$/m)
    t.notMatch(good.out, 'sftp')
    const findings = JSON.parse((await tidegate(['check', ...data, ...addresses, '--json'])).out) as { what: string }[]
    t.match(
      findings.find(({ what }) => what === 'storage /sealed'),
      { ok: null },
    )
  },
)

void t.test(
  'a data folder without a database is reported, and no database is created',
  { skip: withoutSqlite },
  async (t) => {
    const data = await folder(t)
    const listed = await tidegate(['user', 'list', '--data', data])
    t.equal(listed.status, 1)
    t.match(
      listed.err,
      /^tidegate: there is no database in .*: name the data folder with --data, or the database .*; or run "tidegate serve"/,
    )
    await t.rejects(stat(join(data, 'data.db')), { code: 'ENOENT' })
  },
)

void t.test(
  'a data folder that belongs to another user is reported as such',
  { skip: process.getuid?.() !== 0 && 'only root can become another user' },
  async (t) => {
    const data = await folder(t)
    await chmod(data, 0o700)
    const module = new URL('../../src/cli/data-folder.js', import.meta.url).href
    const script = `import { databaseOf } from '${module}'
      process.setuid(65534)
      await databaseOf({ data: '${data}', store: '' }).catch(({ code, reason }) => console.log(code, reason))`
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script])
    t.match(stdout, /^denied no permission to read .*: run this as the user of the daemon$/m)
  },
)

void t.test('--help lists every command, and an unknown word exits with status 2', async (t) => {
  const { out } = await tidegate(['--help'])
  for (const command of ['serve', 'user', 'key', 'storage', 'admin', 'store', 'check'])
    t.match(out, new RegExp(`^  ${command}`, 'm'))
  t.match(await tidegate(['frobnicate']), { status: 2, err: "error: unknown command 'frobnicate'\n" })
  t.match(await tidegate(['serve', 'fish']), { status: 2, err: /too many arguments for 'serve'/ })
  t.match(await tidegate(['help', 'user']), { status: 0, out: /passwd/ })
  t.match(await tidegate(['user', 'fly']), { status: 2, err: /unknown command 'fly'/ })
  t.match(await tidegate(['serve', '--speed', '1']), { status: 2, err: /unknown option '--speed'/ })
  const { version } = JSON.parse(await readFile('package.json', 'utf8')) as { version: string }
  t.equal((await tidegate(['--version'])).out, `v${version}\n`)
})

void t.test('rotated host keys are listed, and used by the next daemon', async (t) => {
  const first = await startGateway(t)
  const data = ['--data', first.dataFolder]
  interface Shown {
    readonly keys: readonly { readonly fingerprint: string }[]
    readonly kept: readonly string[]
  }
  const shown = async (...words: readonly string[]) => {
    const { status, out, err } = await tidegate(['admin', 'host-keys', ...words, ...data, '--json'])
    t.equal(status, 0, err)
    return JSON.parse(out) as Shown
  }
  /** The fingerprint of the host key that a daemon offers to a client. */
  const offered = (port: number) =>
    new Promise<string>((resolve) => {
      const client = new ssh2.Client().on('error', () => undefined)
      const hostVerifier = (key: Buffer) => {
        resolve(fingerprintOf(key))
        return false
      }
      client.connect({ host: '127.0.0.1', port, username: 'admin', hostVerifier })
    })
  const before = await shown()
  t.same(before.kept, [])
  t.equal(await offered(first.sftpPort), before.keys[0]?.fingerprint)
  const after = await shown('--rotate')
  t.equal(after.kept.length, 4)
  t.equal(new Set([...before.keys, ...after.keys].map(({ fingerprint }) => fingerprint)).size, 4)
  t.equal(await offered(first.sftpPort), before.keys[0]?.fingerprint, 'the running daemon keeps its key')
  await first.stop()
  const second = await startGateway(t, { dataFolder: first.dataFolder })
  t.equal(await offered(second.sftpPort), after.keys[0]?.fingerprint)
  t.match((await tidegate(['admin', 'host-keys', ...data])).out, /^TYPE +FINGERPRINT\nssh-ed25519 +SHA256:/)
  const own = await generateKeyPair('ed25519', { comment: 'of the admin' })
  const file = join(first.dataFolder, 'ssh', 'ssh_host_ed25519_key')
  await writeFile(file, own.private)
  t.same((await shown()).keys, after.keys, 'a file alone changes nothing')
  const imported = await shown('--import')
  t.match(imported.keys, [{ line: own.public }, after.keys[1]])
  await writeFile(file, 'no key')
  t.match(await tidegate(['admin', 'host-keys', '--import', ...data]), {
    status: 2,
    err: /ssh_host_ed25519_key is unusable/,
  })
  t.match(await tidegate(['admin', 'host-keys', '--import', '--rotate', ...data]), { status: 2, err: /cannot be used/ })
})
