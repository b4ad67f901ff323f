/** Reads the input files of commands and imports. */
import { createReadStream } from 'node:fs'
import { buffer } from 'node:stream/consumers'
import { GatewayError } from '../contract/errors.js'
import { decodeUtf8 } from '../contract/utf8.js'

/**
 * The content of a file, or of standard input for `-`, without a byte order mark. Rejects with `invalid`, also for a file
 * of more than `maxSize` bytes; its reason contains `what` and the path.
 */
export async function readInput(file: string, what: string, maxSize = Infinity): Promise<string> {
  let bytes: Buffer
  try {
    bytes = await buffer(file === '-' ? process.stdin : createReadStream(file, { end: maxSize }))
  } catch (error) {
    throw new GatewayError('invalid', {
      reason: `the ${what} ${file} cannot be read: ${(error as Error).message}`,
      cause: error,
    })
  }
  if (bytes.length > maxSize) {
    throw new GatewayError('invalid', { reason: `the ${what} ${file} has more than ${maxSize} bytes` })
  }
  const text = decodeUtf8(bytes)
  if (text === undefined) throw new GatewayError('invalid', { reason: `the ${what} ${file} is not UTF-8` })
  return text.replace(/^\ufeff/, '')
}
