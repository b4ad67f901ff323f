/** Parsing of the headers of uploads (`/api/fs/put`, `form` and `multipart/init`). */
import { z } from 'zod'
import type { HashName } from '../../../src/contract/entry.js'
import { GatewayError } from '../../../src/base/errors.js'
import { checkName, nameOf, newPath, type Path } from '../../../src/base/path.js'
import { headerText, percentDecoded } from '../../../src/base/utf8.js'
import { parseEntityTags } from '../../lib/conditions.js'
import { folderPassword, passwordHeaders } from '../api/access-options.js'

export interface UploadHeaders {
  readonly path: Path
  readonly createOnly: boolean
  readonly asTask: boolean
  readonly modified?: Date
  /** The size in bytes of a body without Content-Length. */
  readonly size?: number
  /** Expected digests of the content, in lower-case hexadecimal. */
  readonly hashes?: Partial<Record<HashName, string>>
  readonly password?: string
  /** Entity tags with their quotes, or `*` for any. */
  readonly ifMatch?: '*' | readonly string[] | undefined
  readonly ifNoneMatch?: '*' | readonly string[] | undefined
}

export function notDigest(header: string, digits: number | '…'): string {
  return `${header} is not a digest of ${digits} hexadecimal digits`
}

export function notInteger(header: string): string {
  return `${header} is not an integer`
}

/** A hexadecimal digest. Empty counts as absent. */
function digest(header: string, digits: number) {
  return z
    .string()
    .regex(new RegExp(`^([0-9a-fA-F]{${digits}})?$`), notDigest(header, digits))
    .optional()
    .meta({ wire: { type: 'string', pattern: `^[0-9a-fA-F]{${digits}}$` } })
}

/** A header that is compared with `true` or `false` exactly. Other values mean `defaultValue`. */
function booleanHeader(defaultValue: 'true' | 'false') {
  return z
    .string()
    .optional()
    .meta({ wire: { type: 'string', enum: ['true', 'false'], default: defaultValue } })
}

/** The schemas of upload headers, by their names. */
const schemas = {
  'x-file-size': z
    .string()
    .regex(/^\d{0,15}$/, notInteger('X-File-Size'))
    .optional()
    .meta({ wire: { type: 'integer', minimum: 0 } })
    .describe('The size in bytes of a body without Content-Length.'),
  'x-file-md5': digest('x-file-md5', 32).describe('The expected MD5 of the content.'),
  'x-file-sha1': digest('x-file-sha1', 40).describe('The expected SHA-1 of the content.'),
  'x-file-sha256': digest('x-file-sha256', 64).describe('The expected SHA-256 of the content.'),
  'file-path': z
    .string('File-Path is missing')
    .min(1, 'File-Path is missing')
    .meta({ example: '/folder/file.txt' })
    .describe('The path of the file. Non-ASCII characters are percent-encoded.'),
  overwrite: booleanHeader('true').describe('`false`: the upload fails if the file exists.'),
  'as-task': booleanHeader('false').describe(
    '`true`: the response is sent when the content is received, and a task stores it.',
  ),
  'last-modified': z
    .string()
    .optional()
    .meta({ wire: { type: 'integer' } })
    .describe('The modification time of the file, in milliseconds since 1970-01-01T00:00:00Z.'),
  ...passwordHeaders,
}

/** The schema of upload headers. Throws `invalid` if the path is malformed. Ignores an invalid Last-Modified. */
export const uploadHeaders = z
  .object({
    ...schemas,
    'if-match': z
      .string()
      .optional()
      .describe('The upload fails unless the file has one of these entity tags (RFC 9110 §13.1.1).'),
    'if-none-match': z
      .string()
      .optional()
      .describe('The upload fails if the file has one of these entity tags; `*`: if it exists (RFC 9110 §13.1.2).'),
  })
  .transform((headers): UploadHeaders => ({
    ...toUploadHeaders(headers),
    ifMatch: parseEntityTags(headers['if-match']),
    ifNoneMatch: parseEntityTags(headers['if-none-match']),
  }))

/** The schema of the headers by which a client starts an upload in chunks. */
export const chunkedUploadHeaders = z
  .object({
    ...schemas,
    'x-file-size': z
      .string('X-File-Size is missing')
      .regex(/^0*[1-9]\d{0,14}$/, 'X-File-Size must be an integer greater than 0')
      .meta({ wire: { type: 'integer', minimum: 1 } })
      .describe('The size of the file in bytes.'),
    'x-chunk-size': z
      .string()
      .regex(/^\d{0,15}$/, notInteger('X-Chunk-Size'))
      .optional()
      .meta({ wire: { type: 'integer', minimum: 1 } })
      .describe('Asks for smaller chunks than those of the setting, in bytes.'),
    'x-file-head-sha256': digest('x-file-head-sha256', 64).describe(
      'The SHA-256 of the first MiB of the content, or of all of a smaller file.',
    ),
    'x-upload-id': z
      .string()
      .optional()
      .describe('The `upload_id` of the upload to resume. Only guests have to send it.'),
  })
  .transform((headers) => ({
    ...toUploadHeaders(headers),
    id: headers['x-upload-id'],
    size: Number(headers['x-file-size']),
    chunkSize: Number(headers['x-chunk-size'] || Infinity),
    headSha256: headers['x-file-head-sha256']?.toLowerCase() || undefined,
  }))

function toUploadHeaders(headers: z.output<z.ZodObject<typeof schemas>>): UploadHeaders {
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
}

/** The path in the header: percent-encoded, raw UTF-8, or raw Latin-1. `+` is a plus sign, not a space. */
function pathOf(header: string): Path {
  const text = percentDecoded(headerText(header))
  if (text === undefined) throw new GatewayError('invalid', { reason: 'File-Path holds a bad percent-escape' })
  const path = newPath(text)
  if (path === '/') throw new GatewayError('invalid', { reason: 'File-Path names no file' })
  checkName(nameOf(path))
  return path
}

/** The time of a header in milliseconds since 1970; negative before. Undefined if it is missing or invalid. */
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
