/** What the headers of an upload say (put and form). */
import { z } from 'zod'
import type { HashName } from '../../src/driver.js'
import { GatewayError } from '../../src/errors.js'
import { checkName, nameOf, newPath, type Path } from '../../src/path.js'
import { folderPassword, headerText, passwordHeaders } from './folder-password.js'

export interface UploadHeaders {
  readonly path: Path
  readonly createOnly: boolean
  readonly asTask: boolean
  readonly modified?: Date
  /** Of a body without Content-Length. */
  readonly size?: number
  /** Lower-case digests that the content must have. */
  readonly hashes?: Partial<Record<HashName, string>>
  readonly password?: string
}

/** Empty is absent. */
function digest(header: string, digits: number) {
  return z
    .string()
    .regex(new RegExp(`^([0-9a-fA-F]{${digits}})?$`), `${header} is not a digest of ${digits} hexadecimal digits`)
    .optional()
    .meta({ wire: { type: 'string', pattern: `^[0-9a-fA-F]{${digits}}$` } })
}

/** Only the exact word counts. */
function word(usual: 'true' | 'false') {
  return z
    .string()
    .optional()
    .meta({ wire: { type: 'string', enum: ['true', 'false'], default: usual } })
}

/** Throws `invalid` where the path is malformed; a Last-Modified that is no time is left alone. */
export const uploadHeaders = z
  .object({
    'x-file-size': z
      .string()
      .regex(/^\d{0,15}$/, 'X-File-Size is not an integer')
      .optional()
      .meta({ wire: { type: 'integer', minimum: 0 } })
      .describe('Bytes of a body that comes without Content-Length.'),
    'x-file-md5': digest('x-file-md5', 32).describe('What the content must have; so for the other two.'),
    'x-file-sha1': digest('x-file-sha1', 40),
    'x-file-sha256': digest('x-file-sha256', 64),
    'file-path': z
      .string('File-Path is missing')
      .min(1, 'File-Path is missing')
      .meta({ example: '/folder/file.txt' })
      .describe('Where the file goes, with its name; each character outside of ASCII percent-encoded.'),
    overwrite: word('true').describe('`false`: the upload is refused where there is a file already.'),
    'as-task': word('false').describe('`true`: the answer comes once the bytes are received; a task stores them.'),
    'last-modified': z
      .string()
      .optional()
      .meta({ wire: { type: 'integer' } })
      .describe('When the file was changed: milliseconds since 1970.'),
    ...passwordHeaders,
  })
  .transform((headers): UploadHeaders => {
    const modified = timeOf(headers['last-modified'])
    const size = headers['x-file-size']
    const hashes = hashesOf(headers)
    const password = folderPassword(headers)
    return {
      path: pathOf(headers['file-path']),
      createOnly: headers.overwrite === 'false',
      asTask: headers['as-task'] === 'true',
      ...(modified !== undefined && { modified }),
      ...(size !== undefined && size !== '' && { size: Number(size) }),
      ...(hashes !== undefined && { hashes }),
      ...(password !== undefined && { password }),
    }
  })

/** Percent-encoded, or raw UTF-8; `+` is a plus sign. */
function pathOf(header: string): Path {
  let text: string
  try {
    text = decodeURIComponent(headerText(header))
  } catch {
    throw new GatewayError('invalid', { reason: 'File-Path holds a bad percent-escape' })
  }
  const path = newPath(text)
  if (path === '/') throw new GatewayError('invalid', { reason: 'File-Path names no file' })
  checkName(nameOf(path))
  return path
}

/** Milliseconds since 1970, before it negative. */
function timeOf(header: string | undefined): Date | undefined {
  if (header === undefined || !/^-?\d{1,16}$/.test(header)) return undefined
  const date = new Date(Number(header))
  return Number.isNaN(date.getTime()) ? undefined : date
}

function hashesOf(
  headers: Readonly<Partial<Record<`x-file-${HashName}`, string | undefined>>>,
): UploadHeaders['hashes'] {
  const hashes: Partial<Record<HashName, string>> = {}
  for (const name of ['md5', 'sha1', 'sha256'] as const) {
    const digest = headers[`x-file-${name}`]
    if (digest !== undefined && digest !== '') hashes[name] = digest.toLowerCase()
  }
  return Object.keys(hashes).length === 0 ? undefined : hashes
}
