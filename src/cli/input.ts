/** Reads the input files of commands. */
import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { GatewayError } from '../contract/errors.js'

/**
 * The content of a file, or of standard input for `-`. Rejects with `invalid`; its reason contains `what` and the path.
 */
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
