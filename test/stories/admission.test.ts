/** Allowed networks, ends, required two-step verification and narrowed app passwords, by curl and OpenSSH. */
import { execFile, spawn, type ExecFileException } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { generateKeyPair } from '../../protocols/sftp/host-keys.js'
import { allPermissions, permissionBits } from '../../src/accounts/principal.js'
import { asPath } from '../../src/base/path.js'
import { ruleRow } from '../database/store-rows.js'
import { startGateway, type RunningGateway } from '../gateway.js'
import { lacks } from '../programs.js'
import { connectSftp, connectWebDav, type ProtocolClient } from './protocols.js'

const password = 'a good password'
/** Both lead to this machine. */
const inside = '127.0.0.1'
const outside = '127.0.0.2'
const refused = 'refused'

const ann = {
  username: 'ann',
  password,
  basePath: '/',
  role: 'general',
  permission: allPermissions,
  disabled: false,
  ssoId: '',
} as const

interface Stage extends RunningGateway {
  readonly id: number
  /** Asks by every way in, from an address: 'in', 'refused', or what else was answered. */
  readonly ask: (address: string, secret?: string) => Promise<Readonly<Record<string, string>>>
  /** A connection of SFTP that stays open. Resolves when it has signed in; `ended` when it has ended. */
  readonly stay: () => Promise<{ readonly ended: Promise<unknown> }>
  readonly appPassword: string
}

async function stage(t: Test): Promise<Stage> {
  // A storage in memory has no nodes behind a balancer, which hides the addresses of clients.
  const running = await startGateway(t, { driver: { name: 'Memory' } })
  const { gateway, url, davUrl, sftpPort } = running
  const folder = t.testdir()
  const { id } = await gateway.accounts.users.create(ann)
  const pair = await generateKeyPair('ed25519', { comment: 'test' })
  await gateway.accounts.keys.add(id, 'key', pair.public)
  const key = join(folder, 'key')
  await writeFile(key, pair.private, { mode: 0o600 })
  const app = { name: 'phone', protocols: ['webdav', 'sftp'], readOnly: false }
  const { password: appPassword } = await gateway.accounts.appPasswords.add(id, app)
  const asking = join(folder, 'askpass')
  await writeFile(asking, '#!/bin/sh\nprintf "%s\\n" "$SECRET"\n', { mode: 0o700 })

  const run = (program: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
    new Promise<{ readonly status: number; readonly out: string; readonly complaints: string }>((resolve) => {
      const done = (error: ExecFileException | null, out: string, complaints: string) =>
        resolve({ status: error ? Number(error.code ?? -1) : 0, out, complaints })
      execFile(program, [...args], { timeout: 60_000, env: { ...process.env, ...env } }, done)
    })
  const token = await (async () => {
    const signIn = JSON.stringify({ username: 'ann', password })
    const answer = await fetch(`${url}/api/auth/login`, { method: 'POST', body: signIn })
    return ((await answer.json()) as { data: { token: string } }).data.token
  })()
  const curl = async (address: string, ...words: readonly string[]) => {
    const { out } = await run('curl', ['-s', '--interface', address, '-w', '\n%{http_code}', ...words])
    const [status = '', ...lines] = out.split('\n').reverse()
    return { status, body: lines.reverse().join('\n') }
  }
  const api = async (address: string, ...words: readonly string[]) => {
    const { body } = await curl(address, ...words)
    const { code, error } = JSON.parse(body) as { code: number; error?: string }
    return code === 200 ? 'in' : (error ?? String(code))
  }
  const dav = async (address: string, user: string) => {
    const { status } = await curl(address, '-u', user, '-X', 'PROPFIND', '-H', 'Depth: 0', davUrl)
    return status === '207' ? 'in' : status === '401' || status === '403' ? refused : status
  }
  const common = ['-F', 'none', '-o', 'StrictHostKeyChecking=no', '-o', 'UserKnownHostsFile=/dev/null']
  common.push('-o', 'LogLevel=ERROR')
  const byKey = ['-i', key, '-o', 'IdentitiesOnly=yes', '-o', 'BatchMode=yes']
  const sftp = async (address: string, words: readonly string[], env: Readonly<Record<string, string>> = {}) => {
    const list = join(folder, 'batch')
    await writeFile(list, 'ls\n')
    // -b would switch off passwords.
    const { status, complaints } = await run(
      'sftp',
      [...common, '-P', String(sftpPort), '-o', `BindAddress=${address}`, ...words, '-b', list, 'ann@127.0.0.1'],
      env,
    )
    return status === 0 ? 'in' : complaints.includes('Permission denied') ? refused : complaints
  }
  const bySecret = ['-o', 'BatchMode=no', '-o', 'PubkeyAuthentication=no', '-o', 'NumberOfPasswordPrompts=1']
  const secretOf = (secret: string) => ({
    SECRET: secret,
    SSH_ASKPASS: asking,
    SSH_ASKPASS_REQUIRE: 'force',
    DISPLAY: ':0',
  })
  return {
    ...running,
    id,
    appPassword,
    ask: async (address, secret = password) => ({
      'sign-in': await api(
        address,
        '-d',
        JSON.stringify({ username: 'ann', password: secret }),
        `${url}/api/auth/login`,
      ),
      token: await api(address, '-H', `Authorization: ${token}`, `${url}/api/fs/list?path=/`),
      webdav: await dav(address, `ann:${secret}`),
      'app password': await dav(address, `ann:${appPassword}`),
      'sftp by key': await sftp(address, byKey),
      'sftp by password': await sftp(address, bySecret, secretOf(secret)),
      'sftp by app password': await sftp(address, bySecret, secretOf(appPassword)),
    }),
    stay: async () => {
      // sftp would notice the end with its next command only.
      const words = [...common, ...byKey, '-p', String(sftpPort), '-s', 'ann@127.0.0.1', 'sftp']
      const child = spawn('ssh', words, { stdio: ['pipe', 'pipe', 'ignore'] })
      t.teardown(() => child.kill())
      const ended = once(child, 'exit')
      // SSH_FXP_INIT of version 3, which is answered.
      child.stdin.write(Buffer.from('000000050100000003', 'hex'))
      await once(child.stdout, 'data')
      return { ended }
    },
  }
}

const all = (answer: string, others: Readonly<Record<string, string>> = {}) => ({
  'sign-in': answer,
  token: answer,
  webdav: answer,
  'app password': answer,
  'sftp by key': answer,
  'sftp by password': answer,
  'sftp by app password': answer,
  ...others,
})

const clients = { skip: lacks('curl', 'sftp') }

void t.test('an account is used from its networks only', clients, async (t) => {
  const { gateway, id, ask } = await stage(t)
  t.same(await ask(outside), all('in'))
  await gateway.accounts.users.update(id, { allowFrom: ['127.0.0.1', '10.0.0.0/8'] })
  t.same(await ask(inside), all('in'))
  const told = { 'sign-in': 'network_refused', token: 'network_refused' }
  t.same(await ask(outside), all(refused, told))
  const wrong = { 'sign-in': 'wrong_credentials', token: 'network_refused' }
  t.same(await ask(outside, 'wrong'), all(refused, wrong), 'a wrong password')
  t.same(await ask(inside), all('in'))
})

void t.test('an account ends, and its connections end with it', clients, async (t) => {
  const { gateway, id, ask, stay } = await stage(t)
  await gateway.accounts.users.update(id, { expires: new Date(Date.now() + 10_000) })
  const { ended } = await stay()
  await ended
  t.same(await ask(inside), all(refused, { 'sign-in': 'account_expired', token: 'account_expired' }))
  const wrong = { 'sign-in': 'wrong_credentials', token: 'account_expired' }
  t.same(await ask(inside, 'wrong'), all(refused, wrong))
  await gateway.accounts.users.update(id, { expires: new Date(Date.now() + 1e9) })
  t.same(await ask(inside), all('in'))
})

void t.test('members who must set up two-step verification have no files', clients, async (t) => {
  const { gateway, id, ask, stay } = await stage(t)
  const { ended } = await stay()
  const group = { name: 'staff', description: '', permission: 0, admin: false, requireTwoStep: true }
  await gateway.accounts.groups.create({ ...group, members: [id] })
  await ended
  t.same(await ask(inside), all(refused, { 'sign-in': 'in', token: 'two_step_set_up_required' }))
  await gateway.accounts.users.update(id, { otpSecret: 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567' })
  const second = { 'sign-in': 'code_required', webdav: refused, 'sftp by password': refused }
  t.same(await ask(inside), all('in', second))
})

/** Over both protocols, by an app password of this folder. */
async function narrowed(
  t: Test,
  running: RunningGateway,
  id: number,
  folder: string,
): Promise<readonly ProtocolClient[]> {
  const app = { name: folder, protocols: ['webdav', 'sftp'], readOnly: false, folder }
  const { password } = await running.gateway.accounts.appPasswords.add(id, app)
  const who = { username: 'ann', password }
  const opened = [connectWebDav(running, who), await connectSftp(running, who)]
  t.teardown(async () => {
    for (const each of opened) await each.close()
  })
  return opened
}

void t.test('an app password of a folder opens that, and nothing that its user does not', async (t) => {
  const running = await startGateway(t)
  const { gateway, dataFolder } = running
  const files = join(dataFolder, 'files')
  for (const folder of ['home/photos/trips', 'home/hidden/in', 'other/in']) {
    await mkdir(join(files, folder), { recursive: true })
    await writeFile(join(files, folder, 'file'), folder)
  }
  await symlink('../other', join(files, 'home/out'))
  await symlink('photos', join(files, 'home/pictures'))
  await gateway.rules.create(ruleRow({ path: asPath('/home'), hide: '^hidden$', hideSub: true }))
  const permission = allPermissions & ~permissionBits.seeHidden
  const { id } = await gateway.accounts.users.create({ ...ann, basePath: '/home', permission })
  for (const client of await narrowed(t, running, id, '/photos')) {
    const name = client.protocol
    t.ok((await client.names('/')).includes('trips'), name)
    t.same(await client.get('/trips/file'), Buffer.from('home/photos/trips'), name)
    t.equal(await client.put(`/${name}`, Buffer.from('x')), 'done', name)
    t.equal(await client.get('/photos/trips/file'), 'missing', name)
    for (const path of ['/../hidden/in/file', '/%2e%2e/photos/trips/file']) {
      // A URL that leads out of /dav/ is answered with the console.
      t.notMatch(String(await client.get(path)), /^home/, `${path} over ${name}`)
    }
    t.not(await client.remove('/'), 'done', `${name}: the folder itself`)
  }
  for (const client of await narrowed(t, running, id, '/pictures')) {
    t.ok((await client.names('/')).includes('trips'), `${client.protocol}: a symlink within the base folder`)
  }
  for (const folder of ['/hidden', '/hidden/in', '/out', '/out/in', '/missing']) {
    for (const client of await narrowed(t, running, id, folder)) {
      const title = `${folder} over ${client.protocol}`
      t.match(await client.names('/'), /missing|refused/, title)
      t.notOk(Buffer.isBuffer(await client.get('/file')), title)
      t.not(await client.put('/new', Buffer.from('x')), 'done', title)
      t.not(await client.makeFolder('/new'), 'done', title)
    }
  }
})

void t.test('a folder that an app password opens is asked for grants, and is not made', async (t) => {
  const running = await startGateway(t, { driver: { name: 'Memory' } })
  const { gateway } = running
  const { id } = await gateway.accounts.users.create({ ...ann, grantedOnly: true })
  const admin = connectWebDav(running, { username: 'admin', password: running.adminPassword })
  for (const folder of ['/open', '/shut']) await admin.makeFolder(folder)
  const everything = ['see', 'read', 'write', 'rename', 'move', 'copy', 'remove']
  await gateway.grants.replace({ userId: id }, [
    { path: '/open', allow: everything, deny: [] },
    { path: '/new', allow: everything, deny: [] },
  ])
  for (const client of await narrowed(t, running, id, '/open')) t.same(await client.names('/'), [], client.protocol)
  for (const folder of ['/shut', '/shut/below', '/new']) {
    for (const client of await narrowed(t, running, id, folder)) {
      t.equal(await client.names('/'), 'missing', `${folder} over ${client.protocol}`)
      t.not(await client.put('/file', Buffer.from('x')), 'done')
    }
  }
  t.same(await admin.names('/'), ['open', 'shut'])
})
