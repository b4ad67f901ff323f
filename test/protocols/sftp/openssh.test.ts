/** OpenSSH's own programs against this protocol. */
import { execFile, type ExecFileException } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, readFile, readdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { generateKeyPair } from '../../../protocols/sftp/host-keys.js'
import { lacks } from '../../programs.js'
import { startProtocol } from './server-fixture.js'

interface Outcome {
  readonly status: number
  readonly out: string
  readonly complaints: string
}

void t.test('OpenSSH', { skip: lacks('sftp', 'scp', 'ssh') }, async (t) => {
  const protocol = await startProtocol(t)
  const folder = t.testdir()
  const pair = await generateKeyPair('ed25519', { comment: 'test' })
  await protocol.gateway.accounts.keys.add(protocol.gateway.accounts.users.byName('ada')?.id ?? 0, 'key', pair.public)
  const key = join(folder, 'key')
  await writeFile(key, pair.private, { mode: 0o600 })
  const options = ['-F', 'none', '-i', key, '-o', 'BatchMode=yes', '-o', 'StrictHostKeyChecking=no']
  options.push('-o', 'UserKnownHostsFile=/dev/null', '-o', 'IdentitiesOnly=yes', '-o', 'LogLevel=ERROR')

  const run = (program: string, args: readonly string[], input = '') =>
    new Promise<Outcome>((resolve) => {
      const done = (error: ExecFileException | null, out: string, complaints: string) =>
        resolve({ status: error ? Number(error.code ?? -1) : 0, out, complaints })
      const child = execFile(program, [...args], { cwd: folder, timeout: 120_000 }, done)
      child.stdin?.end(input)
    })
  const sftp = (lines: readonly string[], ...more: readonly string[]) =>
    run('sftp', ['-q', '-P', String(protocol.port), ...options, ...more, '-b', '-', 'ada@127.0.0.1'], lines.join('\n'))

  await t.test('sftp puts, lists, renames, gets, changes and removes, and exits', async (t) => {
    const bytes = randomBytes(3_000_000)
    await writeFile(join(folder, 'file'), bytes)
    const { status, out, complaints } = await sftp([
      'mkdir folder',
      'put -p file folder/file',
      'ls -la folder',
      'rename folder/file folder/moved',
      'get folder/moved back',
      'chmod 600 folder/moved',
      'ls -l folder',
      'df folder',
      'put file folder/moved',
      'rm folder/moved',
      'rmdir folder',
    ])
    t.equal(status, 0, complaints)
    t.match(out, /-rw-------/)
    t.ok(bytes.equals(await readFile(join(folder, 'back'))))
  })

  await t.test('sftp preserves times, and transfers whole trees in both directions', async (t) => {
    await mkdir(join(folder, 'tree/deep/deeper'), { recursive: true })
    for (let file = 0; file < 40; file++) await writeFile(join(folder, 'tree/deep/deeper', `${file} é%#`), String(file))
    const before = await stat(join(folder, 'tree/deep/deeper/7 é%#'))
    t.equal((await sftp(['put -rp tree', 'get -rp tree returned'])).status, 0)
    t.same((await readdir(join(folder, 'returned/deep/deeper'))).length, 40)
    const after = await stat(join(folder, 'returned/deep/deeper/7 é%#'))
    t.equal(Math.floor(after.mtimeMs / 1000), Math.floor(before.mtimeMs / 1000))
  })

  await t.test('sftp resumes and appends: put -a, get -a', async (t) => {
    const bytes = randomBytes(500_000)
    await writeFile(join(folder, 'part'), bytes.subarray(0, 200_000))
    t.equal((await sftp(['put part whole'])).status, 0)
    await writeFile(join(folder, 'part'), bytes)
    t.equal((await sftp(['put -a part whole'])).status, 0)
    await writeFile(join(folder, 'fetched'), bytes.subarray(0, 100_000))
    t.equal((await sftp(['get -a whole fetched'])).status, 0)
    t.ok(bytes.equals(await readFile(join(folder, 'fetched'))))
  })

  await t.test('every offered cipher transfers small and large packets', async (t) => {
    const bytes = randomBytes(2_000_000)
    await writeFile(join(folder, 'ciphered'), bytes)
    for (const cipher of [
      'aes128-gcm@openssh.com',
      'aes256-gcm@openssh.com',
      'chacha20-poly1305@openssh.com',
      'aes256-ctr',
    ]) {
      for (const size of ['32768', '261120']) {
        const lines = ['put ciphered', 'get ciphered deciphered']
        t.equal((await sftp(lines, '-c', cipher, '-B', size)).status, 0, `${cipher} ${size}`)
        t.ok(bytes.equals(await readFile(join(folder, 'deciphered'))))
      }
    }
  })

  await t.test('keys are exchanged again during a transfer', async (t) => {
    const bytes = randomBytes(5_000_000)
    await writeFile(join(folder, 'rekeyed'), bytes)
    t.equal((await sftp(['put rekeyed', 'get rekeyed rekeyed.back'], '-o', 'RekeyLimit=1M')).status, 0)
    t.ok(bytes.equals(await readFile(join(folder, 'rekeyed.back'))))
  })

  await t.test('scp works; its old protocol, commands and shells are rejected with a message', async (t) => {
    await writeFile(join(folder, 'copied'), 'by scp')
    const port = ['-P', String(protocol.port)]
    t.equal((await run('scp', [...port, ...options, 'copied', 'ada@127.0.0.1:copied'])).status, 0)
    const old = await run('scp', ['-O', ...port, ...options, 'copied', 'ada@127.0.0.1:old'])
    t.not(old.status, 0)
    t.match(old.complaints, /SFTP only/)
    for (const command of [['ls'], []]) {
      const outcome = await run('ssh', ['-p', String(protocol.port), ...options, 'ada@127.0.0.1', ...command])
      t.equal(outcome.status, 1)
      t.match(outcome.complaints, /SFTP only/)
    }
  })

  await t.test(
    'the key of a disabled account is accepted when it is offered, and its signature is refused',
    async (t) => {
      const { users } = protocol.gateway.accounts
      await users.update(users.byName('ada')?.id ?? 0, { disabled: true })
      const args = ['-o', 'LogLevel=DEBUG1', '-p', String(protocol.port), ...options, 'ada@127.0.0.1']
      const { status, complaints } = await run('ssh', args)
      t.equal(status, 255)
      t.match(complaints, /Server accepts key/)
      t.match(complaints, /Permission denied/)
    },
  )
})
