/** Texts that a command takes from a file. */
import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { GatewayError } from '../errors.js'

/** The whole of it; of `-`, of standard input. `what` it is stands in the reason of `invalid`, where it cannot be read. */
export async function readInput(file: string, what: string): Promise<string> {
  try {
    return file === '-' ? await text(process.stdin) : await readFile(file, 'utf8')
  } catch (error) {
    throw new GatewayError('invalid', {
      reason: `the ${what} ${file} cannot be read: ${(error as Error).message}`,
      cause: error,
    })
  }
}
