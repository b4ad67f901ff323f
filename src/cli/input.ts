/** Reads the input files of commands. */
import { readFile } from 'node:fs/promises'
import { buffer } from 'node:stream/consumers'
import { GatewayError } from '../contract/errors.js'
import { decodeUtf8 } from '../contract/utf8.js'

/**
 * The content of a file, or of standard input for `-`, without a byte order mark. Rejects with `invalid`; its reason
 * contains `what` and the path.
 */
export async function readInput(file: string, what: string): Promise<string> {
  let bytes: Buffer
  try {
    bytes = file === '-' ? await buffer(process.stdin) : await readFile(file)
  } catch (error) {
    throw new GatewayError('invalid', {
      reason: `the ${what} ${file} cannot be read: ${(error as Error).message}`,
      cause: error,
    })
  }
  const text = decodeUtf8(bytes)
  if (text === undefined) throw new GatewayError('invalid', { reason: `the ${what} ${file} is not UTF-8` })
  return text.replace(/^\ufeff/, '')
}
