/** What the headers of an upload say (put and form). */
import type { IncomingMessage } from 'node:http'
import type { HashName } from '../../src/driver.js'
import { GatewayError } from '../../src/errors.js'
import { checkName, cleanPath, nameOf, type Path } from '../../src/path.js'
import { folderPassword, headerText } from './folder-password.js'

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

const hashHeaders = [
  { header: 'x-file-md5', name: 'md5', digits: 32 },
  { header: 'x-file-sha1', name: 'sha1', digits: 40 },
  { header: 'x-file-sha256', name: 'sha256', digits: 64 },
] as const

/** Rejects with `invalid` where a header is malformed; a Last-Modified that is no time is left alone. */
export function readUploadHeaders(request: IncomingMessage): UploadHeaders {
  const { headers } = request
  const modified = timeOf(headers['last-modified'])
  const size = sizeOf(one(headers['x-file-size']))
  const hashes = hashesOf(request)
  const password = folderPassword(request)
  return {
    path: pathOf(one(headers['file-path'])),
    createOnly: one(headers.overwrite) === 'false',
    asTask: one(headers['as-task']) === 'true',
    ...(modified !== undefined && { modified }),
    ...(size !== undefined && { size }),
    ...(hashes !== undefined && { hashes }),
    ...(password !== undefined && { password }),
  }
}

/** Percent-encoded, or raw UTF-8; `+` is a plus sign. */
function pathOf(header: string | undefined): Path {
  if (header === undefined || header === '') throw new GatewayError('invalid', { reason: 'File-Path is missing' })
  let text: string
  try {
    text = decodeURIComponent(headerText(header))
  } catch {
    throw new GatewayError('invalid', { reason: 'File-Path holds a bad percent-escape' })
  }
  const path = cleanPath(text)
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

function sizeOf(header: string | undefined): number | undefined {
  if (header === undefined || header === '') return undefined
  if (!/^\d{1,15}$/.test(header)) throw new GatewayError('invalid', { reason: 'X-File-Size is not an integer' })
  return Number(header)
}

function hashesOf({ headers }: IncomingMessage): UploadHeaders['hashes'] {
  const hashes: Partial<Record<HashName, string>> = {}
  for (const { header, name, digits } of hashHeaders) {
    const digest = one(headers[header])?.toLowerCase()
    if (digest === undefined || digest === '') continue
    if (digest.length !== digits || !/^[0-9a-f]+$/.test(digest)) {
      throw new GatewayError('invalid', { reason: `${header} is not a digest of ${digits} hexadecimal digits` })
    }
    hashes[name] = digest
  }
  return Object.keys(hashes).length === 0 ? undefined : hashes
}

function one(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header
}
