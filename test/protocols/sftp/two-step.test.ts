/** keyboard-interactive (RFC 4256): the password, and the one-time code of accounts that have two-step verification. */
import { execFile, type ExecFileException } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generateSync } from 'otplib'
import ssh2, { type Client, type KeyboardInteractiveAuthMethod } from 'ssh2'
import t, { type Test } from 'tap'
import { newOtpSecret } from '../../../src/accounts/otp.js'
import { lacks } from '../../programs.js'
import { openChannel, password, startProtocol, type Running } from './server-fixture.js'

interface Account {
  readonly protocol: Running
  /** The code of the current time plus an offset in seconds. */
  readonly code: (offset?: number) => string
  /** Answers the prompts in order. Resolves to the prompts, or rejects if the sign-in fails. */
  readonly signIn: (answers: readonly string[]) => Promise<readonly string[]>
}

async function account(t: Test, { twoStep }: { readonly twoStep: boolean }): Promise<Account> {
  const protocol = await startProtocol(t)
  const secret = newOtpSecret()
  const ada = protocol.gateway.accounts.users.byName('ada')
  if (!ada) throw new Error('ada is missing')
  if (twoStep) await protocol.gateway.accounts.users.update(ada.id, { otpSecret: secret })
  const signIn = async (answers: readonly string[]) => {
    const left = [...answers]
    const asked: string[] = []
    const method: KeyboardInteractiveAuthMethod = {
      type: 'keyboard-interactive',
      username: 'ada',
      prompt: (_name, _instructions, _language, prompts, finish) => {
        asked.push(...prompts.map(({ prompt, echo }) => `${prompt}${echo === true ? 'shown' : 'hidden'}`))
        finish(prompts.map(() => left.shift() ?? ''))
      },
    }
    const client = await protocol.connect({ password: '', authHandler: [method] })
    await openChannel(client)
    client.end()
    return asked
  }
  return { protocol, code: (offset = 0) => generateSync({ secret, epoch: Date.now() / 1000 + offset }), signIn }
}

const shut = /authentication methods failed/

void t.test('an account without two-step verification is prompted for its password only', async (t) => {
  const { protocol, signIn } = await account(t, { twoStep: false })
  t.same(await signIn([password]), ['Password: hidden'])
  await t.rejects(signIn(['wrong']), shut)
  await protocol.gateway.settings.set(new Map([['sftp_disable_password_login', 'true']]))
  await t.rejects(signIn([password]), shut, 'the setting applies to every kind of password')
})

void t.test('an account with two-step verification is prompted for a code, which is valid once', async (t) => {
  const { protocol, code, signIn } = await account(t, { twoStep: true })
  const first = code()
  t.same(await signIn([password, first]), ['Password: hidden', 'One-time code: shown'])
  await t.rejects(signIn([password, first]), shut, 'a second time')
  const credentials = { username: 'ada', password: { plain: password }, address: '127.0.0.9' }
  const usedCode = { code: 'unauthenticated', detail: 'code_required' }
  await t.rejects(protocol.gateway.accounts.signIn.issueToken({ ...credentials, code: first }), usedCode)
  const next = code(30)
  await protocol.gateway.accounts.signIn.issueToken({ ...credentials, code: next })
  await t.rejects(signIn([password, next]), shut, 'the code was used for another protocol')
  await t.rejects(protocol.connect(), shut, 'the password alone')
})

void t.test('a recovery code replaces the code once', async (t) => {
  const { protocol, signIn } = await account(t, { twoStep: true })
  const { recoveryCodes, users } = protocol.gateway.accounts
  const ada = users.byName('ada')
  const [first = '', second = ''] = ada ? await recoveryCodes.renew(ada) : []
  t.equal((await signIn([password, first.toUpperCase()])).length, 2)
  await t.rejects(signIn([password, first]), shut, 'a second time')
  t.equal((await signIn([password, second])).length, 2)
})

void t.test('a code is prompted for only after the right password, and may contain spaces', async (t) => {
  const { code, signIn } = await account(t, { twoStep: true })
  await t.rejects(signIn(['wrong', code()]), shut)
  await t.rejects(signIn([password, '']), shut)
  await t.rejects(signIn([password, 'x'.repeat(10_000)]), shut)
  const good = code()
  t.equal((await signIn([password, `${good.slice(0, 3)} ${good.slice(3)}`])).length, 2)
})

void t.test('wrong codes lock the address like wrong passwords', async (t) => {
  const { protocol, code, signIn } = await account(t, { twoStep: true })
  const wrong = String((Number(code()) + 1) % 1_000_000).padStart(6, '0')
  for (let tried = 0; tried < 5; tried++) await t.rejects(signIn([password, wrong]), shut)
  await t.rejects(signIn([password, code()]), shut)
  const elsewhere = { username: 'admin', password: { plain: 'a guess' }, address: '127.0.0.1' }
  const throttled = { code: 'throttled', detail: 'sign_in_throttled' }
  await t.rejects(protocol.gateway.accounts.signIn.issueToken(elsewhere), throttled, 'all protocols share one limiter')
})

void t.test('an app password needs no code', async (t) => {
  const { protocol, signIn } = await account(t, { twoStep: true })
  const ada = protocol.gateway.accounts.users.byName('ada')
  const { password: secret } = await protocol.gateway.accounts.appPasswords.add(ada?.id ?? 0, {
    name: 'sync',
    protocols: ['sftp'],
    readOnly: false,
  })
  t.same(await signIn([secret]), ['Password: hidden'])
})

void t.test('a client may switch to another method while a prompt is open', async (t) => {
  const { protocol } = await account(t, { twoStep: false })
  const client = new ssh2.Client()
  t.teardown(() => client.end())
  const method: KeyboardInteractiveAuthMethod = {
    type: 'keyboard-interactive',
    username: 'ada',
    prompt: () => {
      // The library has no public method to start again while a prompt is open.
      const wire = client as Client & { _protocol?: { authPassword(name: string, password: string): void } }
      wire._protocol?.authPassword('ada', password)
    },
  }
  await new Promise<void>((resolve, reject) => {
    client.once('ready', resolve).on('error', reject)
    client.connect({ host: '127.0.0.1', port: protocol.port, username: 'ada', authHandler: [method] })
  })
  await openChannel(client)
})

void t.test('OpenSSH shows the prompts', { skip: lacks('sftp') }, async (t) => {
  const { protocol, code } = await account(t, { twoStep: true })
  const folder = t.testdir()
  const helper = join(folder, 'askpass')
  const answer = async (words: string, number: string) =>
    writeFile(
      helper,
      `#!/bin/sh\ncase "$1" in *assword*) echo '${words}';; *'One-time code'*) echo ${number};; *) echo "$1";; esac\n`,
      { mode: 0o700 },
    )
  const run = () =>
    new Promise<{ readonly status: number; readonly told: string }>((resolve) => {
      const options = ['-q', '-F', 'none', '-P', String(protocol.port), '-o', 'BatchMode=no', '-b', '-']
      options.push('-o', 'StrictHostKeyChecking=no', '-o', 'UserKnownHostsFile=/dev/null')
      options.push('-o', 'PubkeyAuthentication=no', '-o', 'NumberOfPasswordPrompts=1')
      const env = { ...process.env, SSH_ASKPASS: helper, SSH_ASKPASS_REQUIRE: 'force' }
      const done = (error: ExecFileException | null, out: string, complaints: string) =>
        resolve({ status: error ? Number(error.code ?? -1) : 0, told: out + complaints })
      execFile('sftp', [...options, 'ada@127.0.0.1'], { timeout: 120_000, env }, done).stdin?.end('mkdir made\nls\n')
    })
  await answer(password, '000000')
  t.not((await run()).status, 0)
  await answer(password, code())
  const { status, told } = await run()
  t.equal(status, 0, told)
  t.match(told, /made/)
})
