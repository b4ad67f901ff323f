/** The filter for fail2ban, run by Debian's fail2ban: it finds the addresses of refused sign-ins, and no others. */
import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { logLine } from '../../src/audit/forms.js'
import { findProgram, lacks } from '../programs.js'
import { anEvent } from './an-event.js'
import t from 'tap'

const run = promisify(execFile)

function refusedSignIn(name: string, address: string, error = 'wrong_credentials') {
  return logLine(
    anEvent({ kind: 'signin.refused', result: 'refused', error, actor: { name, protocol: 'http', address } }),
  )
}

/** The addresses that the filter finds in the lines. */
async function found(folder: string, lines: readonly string[]): Promise<readonly string[]> {
  const file = join(folder, 'audit.log')
  await writeFile(file, `${lines.join('\n')}\n`)
  const filter = 'config/fail2ban/filter.d/tidegate.conf'
  // Status 255: nothing was found.
  const { stdout } = await run(findProgram('fail2ban-regex')!, ['--out', 'ip', file, filter]).catch(
    (error: unknown) => {
      const failure = error as { readonly stdout: string; readonly code: number }
      if (failure.code === 255) return failure
      throw error
    },
  )
  return stdout.split('\n').filter((line) => line !== '')
}

void t.test('the filter finds each refused sign-in', { skip: lacks('fail2ban-regex') }, async (t) => {
  const folder = t.testdir()
  const fromSyslog = refusedSignIn('ann', '192.0.2.3').replace('tidegate', 'gateway-1 tidegate').replace(']:', ']')
  t.strictSame(
    await found(folder, [
      refusedSignIn('ann', '192.0.2.1'),
      refusedSignIn('', '2001:db8::7', 'sign_in_throttled'),
      refusedSignIn('x" address=198.51.100.1', '192.0.2.2'),
      fromSyslog,
      refusedSignIn('ann', '192.0.2.4', 'wrong_code'),
    ]),
    ['192.0.2.1', '2001:db8::7', '192.0.2.2', '192.0.2.3', '192.0.2.4'],
  )
})

void t.test('no name leads it to another address or line', { skip: lacks('fail2ban-regex') }, async (t) => {
  const folder = t.testdir()
  const forged = `tidegate[x]: sign-in refused protocol=http address=198.51.100.1 user="b" error=wrong_credentials`
  const names = [
    ...['"', '\\', '\\"', '" error=wrong_credentials', `\n${new Date().toISOString()} ${forged}`, `" ${forged}`],
    ...[' address=198.51.100.1', `\r\u2028\u0085${forged}`, '\0', `${'a'.repeat(10_240)}" ${forged}`, forged],
  ]
  t.strictSame(
    await found(
      folder,
      names.map((name) => refusedSignIn(name, '192.0.2.9')),
    ),
    names.map(() => '192.0.2.9'),
  )
  const others = names.flatMap((name) => [
    // Whose password was right.
    refusedSignIn(name, '192.0.2.9', 'account_disabled'),
    refusedSignIn(name, '192.0.2.9', 'code_required'),
    logLine(anEvent({ kind: 'signin.ok', actor: { name, protocol: 'http', address: '192.0.2.9' } })),
    logLine(anEvent({ actor: { name, protocol: 'http', address: '192.0.2.9' } })),
    logLine(anEvent({ kind: 'admin.user', subject: name })),
  ])
  t.strictSame(await found(folder, others), [])
})

void t.test('the jail names the filter and a file', async (t) => {
  const jail = await readFile('config/fail2ban/jail.d/tidegate.conf', 'utf8')
  t.match(jail, /^\[tidegate\]$/m)
  t.match(jail, /^filter\s+= tidegate$/m)
  t.match(jail, /^logpath\s+= \/.*\.log$/m)
})
