/** Secrets in environment variables, or in files that variables name, as containers mount them. */
import { createReadStream } from 'node:fs'
import { buffer } from 'node:stream/consumers'
import { GatewayError } from '../contract/errors.js'
import { decodeUtf8 } from '../contract/utf8.js'

/** Maximum size of the file of a secret, in bytes. */
const maxSize = 64 * 1024

/**
 * The value of the variable `name`, or the content of the file that `NAME_FILE` names, without one line break at its end.
 * Undefined if both variables are absent; an empty `NAME_FILE` is absent. Rejects with `invalid` if both have values, and if the file cannot be
 * read, is empty, is larger than 64 KiB or is not UTF-8.
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
  const fault = (why: string, cause?: unknown) =>
    new GatewayError('invalid', { reason: `the file ${path}, which ${variable} names, ${why}`, cause })
  let bytes: Buffer
  try {
    bytes = await buffer(createReadStream(path, { end: maxSize }))
  } catch (error) {
    throw fault(`cannot be read: ${(error as Error).message}`, error)
  }
  if (bytes.length > maxSize) throw fault('is larger than 64 KiB')
  const text = decodeUtf8(bytes)
  if (text === undefined) throw fault('is not UTF-8')
  const secret = text.replace(/\r?\n$/, '')
  if (secret === '') throw fault('is empty')
  return secret
}
