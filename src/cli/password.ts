/** The sources of passwords. The command line is not one of them, because other users of the machine can read it. */
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import type { Command } from 'commander'
import { randomPassword } from '../accounts/passwords.js'
import { GatewayError } from '../base/errors.js'
import { readInput, secretVariable } from '../installation/input.js'

export interface PasswordFlags {
  readonly passwordStdin?: boolean
  readonly random?: boolean
}

export function withPasswordOptions(command: Command): Command {
  return command
    .option('--password-stdin', 'read the password from the first line of standard input')
    .option('--random', 'generate a random password and print it')
    .addHelpText(
      'after',
      '\nWithout these options, the password is read from TIDEGATE_PASSWORD, or the file that TIDEGATE_PASSWORD_FILE names, or prompted for.',
    )
}

/**
 * Reads or generates a password. Rejects with `invalid` without one, or if the repeated input differs. `generated`: the
 * caller must show it to the user.
 */
export async function readPassword(
  flags: PasswordFlags,
): Promise<{ readonly password: string; readonly generated: boolean }> {
  if (flags.random === true) return { password: randomPassword(), generated: true }
  if (flags.passwordStdin === true) {
    const [line = ''] = (await readInput('-', 'password')).split(/\r?\n/, 1)
    return { password: line, generated: false }
  }
  const fromEnvironment = await secretVariable('TIDEGATE_PASSWORD', process.env)
  if (fromEnvironment) return { password: fromEnvironment, generated: false }
  if (!process.stdin.isTTY) {
    throw new GatewayError('invalid', {
      reason: 'no password: give --password-stdin, --random, or TIDEGATE_PASSWORD',
    })
  }
  const password = await prompt('Password: ')
  if ((await prompt('Repeat password: ')) !== password) {
    throw new GatewayError('invalid', { reason: 'the two passwords differ' })
  }
  return { password, generated: false }
}

/** Reads a line from the terminal without echo. */
function prompt(question: string): Promise<string> {
  const discard = new Writable({ write: (_chunk, _encoding, done) => done() })
  const reader = createInterface({ input: process.stdin, output: discard, terminal: true })
  process.stderr.write(question)
  return new Promise((resolve, reject) => {
    reader.once('SIGINT', () => {
      reject(new GatewayError('aborted'))
      reader.close()
    })
    reader.question('', (line) => {
      process.stderr.write('\n')
      resolve(line)
      reader.close()
    })
  })
}
