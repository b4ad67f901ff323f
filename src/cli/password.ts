/** Where a command takes a password from: never from the command line, which every user of the machine can read. */
import { text } from 'node:stream/consumers'
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import type { Command } from 'commander'
import { randomPassword } from '../accounts/passwords.js'
import { GatewayError } from '../errors.js'

export interface PasswordFlags {
  readonly passwordStdin?: boolean
  readonly random?: boolean
}

export function withPasswordOptions(command: Command): Command {
  return command
    .option('--password-stdin', 'read the password from the first line of standard input')
    .option('--random', 'make a random password and print it')
    .addHelpText('after', '\nWithout these options the password comes from TIDEGATE_PASSWORD, or is asked for.')
}

/** `invalid` where there is none, or the two that were typed differ. `made`: nobody but the caller knows it. */
export async function obtainPassword(
  flags: PasswordFlags,
): Promise<{ readonly password: string; readonly made: boolean }> {
  if (flags.random === true) return { password: randomPassword(), made: true }
  if (flags.passwordStdin === true) {
    const [line = ''] = (await text(process.stdin)).split(/\r?\n/, 1)
    return { password: line, made: false }
  }
  const given = process.env.TIDEGATE_PASSWORD
  if (given) return { password: given, made: false }
  if (!process.stdin.isTTY) {
    throw new GatewayError('invalid', {
      reason: 'no password: give --password-stdin, --random, or TIDEGATE_PASSWORD',
    })
  }
  const password = await ask('Password: ')
  if ((await ask('Once more: ')) !== password) {
    throw new GatewayError('invalid', { reason: 'the two passwords differ' })
  }
  return { password, made: false }
}

/** A line from the terminal that is not echoed. */
function ask(question: string): Promise<string> {
  const silence = new Writable({ write: (_chunk, _encoding, done) => done() })
  const reader = createInterface({ input: process.stdin, output: silence, terminal: true })
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
