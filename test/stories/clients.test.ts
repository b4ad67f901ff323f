/** External programs: a real tree is uploaded by one protocol and downloaded unchanged by the others. */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { startGateway, type RunningGateway } from '../gateway.js'
import { connectHttp } from './protocols.js'

const run = promisify(execFile)
const tree = '/usr/share/doc'
/** A few hundred real files of different sizes. */
const sample = ['--include', '/[a-f]*/**', '--max-size', '4M', '--skip-links']

interface Bench {
  readonly running: RunningGateway
  readonly folder: string
  readonly rclone: (...words: readonly string[]) => Promise<string>
  readonly sshOptions: readonly string[]
}

/** A user with a key that was added by the API, and rclone remotes for two protocols. */
async function prepare(t: Test): Promise<Bench> {
  const running = await startGateway(t)
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-clients-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const key = join(folder, 'id_ed25519')
  await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key])
  const { url, adminPassword: password } = running
  const signIn = await fetch(`${url}/api/auth/login`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ username: 'admin', password }),
  })
  const { data } = (await signIn.json()) as { data: { token: string } }
  const added = await fetch(`${url}/api/me/sshkey/add`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: data.token },
    body: JSON.stringify({ title: 'test', key: await readFile(`${key}.pub`, 'utf8') }),
  })
  t.equal(((await added.json()) as { code: number }).code, 200, 'the key is accepted')
  const obscured = (await run('rclone', ['obscure', password])).stdout.trim()
  const config = join(folder, 'rclone.conf')
  await writeFile(
    config,
    `[dav]\ntype = webdav\nurl = ${running.davUrl}\nvendor = other\nuser = admin\npass = ${obscured}\n` +
      `[sftp]\ntype = sftp\nhost = 127.0.0.1\nport = ${running.sftpPort}\nuser = admin\nkey_file = ${key}\n`,
  )
  const rclone = async (...words: readonly string[]): Promise<string> => {
    const { stdout, stderr } = await run('rclone', ['--config', config, '--retries', '1', ...words], {
      maxBuffer: 1 << 26,
    })
    return stdout + stderr
  }
  const sshOptions = [
    '-q',
    '-i',
    key,
    '-P',
    String(running.sftpPort),
    '-o',
    'StrictHostKeyChecking=no',
    '-o',
    'UserKnownHostsFile=/dev/null',
    '-o',
    'IdentitiesOnly=yes',
  ]
  return { running, folder, rclone, sshOptions }
}

void t.test('rclone', async (t) => {
  const { rclone } = await prepare(t)
  await rclone('copy', tree, 'dav:/by webdav', ...sample)
  await rclone('copy', tree, 'sftp:/by sftp', ...sample)
  const files = (await rclone('lsf', '-R', '--files-only', 'dav:/by webdav')).trim().split('\n')
  t.ok(files.length > 200, `${files.length} files`)
  const pairs = [
    [tree, 'dav:/by webdav'],
    [tree, 'sftp:/by sftp'],
    ['dav:/by webdav', 'sftp:/by sftp'],
    ['sftp:/by webdav', 'dav:/by sftp'],
  ] as const
  for (const [one, other] of pairs) {
    const words = one === tree ? sample : []
    await t.resolves(rclone('check', '--download', ...words, one, other), `no difference between ${one} and ${other}`)
  }
  await rclone('purge', 'dav:/by webdav')
  t.equal(await rclone('lsf', 'sftp:/'), 'by sftp/\n')
})

void t.test('OpenSSH sftp in batch mode', async (t) => {
  const { running, folder, sshOptions } = await prepare(t)
  const content = join(folder, 'content')
  await writeFile(content, 'through the tide gate\n')
  const batch = join(folder, 'batch')
  const commands = [
    'mkdir /folder',
    `put -p ${content} /folder/first`,
    'ls -la /folder',
    'rename /folder/first /folder/second',
    'chmod 600 /folder/second',
    `get /folder/second ${folder}/back`,
    `put ${content} "/folder/name with é and 世界"`,
    'ls /folder',
    'rm /folder/second',
    'df /',
    'pwd',
    'bye',
  ]
  await writeFile(batch, commands.join('\n'))
  const { stdout } = await run('sftp', [...sshOptions, '-b', batch, 'admin@127.0.0.1'], { timeout: 180_000 })
  t.match(stdout, /second/)
  t.match(stdout, /name with é and 世界/)
  t.equal(await readFile(join(folder, 'back'), 'utf8'), 'through the tide gate\n')
  const http = await connectHttp(running, { username: 'admin', password: running.adminPassword })
  t.same(await http.names('/folder'), ['name with é and 世界'])
})

void t.test('OpenSSH scp', async (t) => {
  const { folder, sshOptions } = await prepare(t)
  const content = join(folder, 'content')
  // Large enough for many pipelined READs: this client truncates a file if responses arrive out of order.
  await writeFile(content, randomBytes(40_000_000))
  await run('scp', [...sshOptions, '-p', content, 'admin@127.0.0.1:/copied'], { timeout: 180_000 })
  await run('scp', [...sshOptions, 'admin@127.0.0.1:/copied', join(folder, 'back')], { timeout: 180_000 })
  t.ok((await readFile(join(folder, 'back'))).equals(await readFile(content)), 'the content is unchanged')
})

void t.test('curl', async (t) => {
  const { running, folder } = await prepare(t)
  const content = join(folder, 'content')
  await writeFile(content, 'by curl\n')
  const user = `admin:${running.adminPassword}`
  const dav = running.davUrl.replace(/\/$/, '')
  await run('curl', ['-sf', '-u', user, '-T', content, `${dav}/curl.txt`])
  t.equal((await run('curl', ['-sf', '-u', user, `${dav}/curl.txt`])).stdout, 'by curl\n')
  t.equal((await run('curl', ['-sf', '-u', user, '-r', '3-6', `${dav}/curl.txt`])).stdout, 'curl')
  const http = await connectHttp(running, { username: 'admin', password: running.adminPassword })
  t.same(await http.get('/curl.txt'), Buffer.from('by curl\n'))
})
