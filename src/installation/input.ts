/**
 * Reads the input files of commands and imports, and secrets in environment variables or in files that variables name,
 * as containers mount them.
 */
import { createReadStream } from 'node:fs'
import { buffer } from 'node:stream/consumers'
import { GatewayError } from '../base/errors.js'
import { decodeUtf8 } from '../base/utf8.js'

/** Maximum size of the file of a secret, in bytes. */
const maxSecretSize = 64 * 1024

/**
 * The content of a file, or of standard input for `-`, without a byte order mark. Rejects with `invalid`, also for a
 * file of more than `maxSize` bytes; its reason contains `what` and the path.
 */
export async function readInput(file: string, what: string, maxSize = Infinity): Promise<string> {
  const fault: Fault = (why, cause) => new GatewayError('invalid', { reason: `the ${what} ${file} ${why}`, cause })
  const text = await readText(file === '-' ? process.stdin : file, maxSize, `has more than ${maxSize} bytes`, fault)
  return text.replace(/^\ufeff/, '')
}

/**
 * The value of the variable `name`, or the content of the file that `NAME_FILE` names, without one line break at its
 * end. Undefined if both variables are absent; an empty `NAME_FILE` is absent. Rejects with `invalid` if both have
 * values, and if the file cannot be read, is empty, is larger than 64 KiB or is not UTF-8.
 */
export async function secretVariable(
  name: string,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<string | undefined> {
  const value = environment[name]
  const variable = `${name}_FILE`
  const path = environment[variable]
  if (!path) return value
  if (value) throw new GatewayError('invalid', { reason: `${name} and ${variable} are both set: unset one of them` })
  const fault: Fault = (why, cause) =>
    new GatewayError('invalid', { reason: `the file ${path}, which ${variable} names, ${why}`, cause })
  const secret = (await readText(path, maxSecretSize, 'is larger than 64 KiB', fault)).replace(/\r?\n$/, '')
  if (secret === '') throw fault('is empty')
  return secret
}

type Fault = (why: string, cause?: unknown) => GatewayError

/** The whole text of a file or stream. Rejects with a `fault`; `tooLarge` says why for more than `maxSize` bytes. */
async function readText(
  source: string | NodeJS.ReadableStream,
  maxSize: number,
  tooLarge: string,
  fault: Fault,
): Promise<string> {
  let bytes: Buffer
  try {
    bytes = await buffer(typeof source === 'string' ? createReadStream(source, { end: maxSize }) : source)
  } catch (error) {
    throw fault(`cannot be read: ${(error as Error).message}`, error)
  }
  if (bytes.length > maxSize) throw fault(tooLarge)
  const text = decodeUtf8(bytes)
  if (text === undefined) throw fault('is not UTF-8')
  return text
}
