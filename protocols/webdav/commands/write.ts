/** PUT, with upload headers that are not part of HTTP; MKCOL and DELETE. */
import type { IncomingHttpHeaders } from 'node:http'
import type { Entry, HashName } from '../../../src/contract/entry.js'
import { etagOf } from '../../../src/tree/preconditions.js'
import { GatewayError } from '../../../src/base/errors.js'
import { receiveBody, type BodyMetadata } from '../../lib/request-body.js'
import { WebdavError } from '../errors.js'
import { sendFailures, memberFailures } from '../multistatus.js'
import { allowedMethods, sendStatus, expectDepth, hasBody, type Command } from '../webdav-request.js'
import { verifiedSource } from '../../../src/contract/sources.js'

/** Responds once the content is stored. */
export const put: Command = async (webdavRequest) => {
  const { request, response, fs, path, change, slash } = webdavRequest
  if (slash) throw new WebdavError('put_folder', { headers: { allow: allowedMethods } })
  const metadata = parseUploadHeaders(request.headers)
  const { modified } = metadata
  const source = verifiedSource(await receiveBody(request, metadata))
  const { entry, created } = await fs.write(path, source, { ...change, modified })
  sendStatus(response, created ? 201 : 204, {
    etag: etagOf(entry),
    ...(modified !== undefined && isStored(modified, entry) ? { 'x-oc-mtime': 'accepted' } : {}),
  })
}

/** Whether the entry has this modification time, to within `allowedDifference`. */
function isStored(modified: Date, entry: Entry): boolean {
  return Math.abs(entry.modified.getTime() - modified.getTime()) < allowedDifference
}

/**
 * Milliseconds between the time that a client asks for and the stored one, up to which the time counts as stored. FAT
 * stores times in steps of two seconds. A coarser one is not acknowledged, so that the client may set it again.
 */
const allowedDifference = 2000

export const mkcol: Command = async ({ request, response, fs, path, change }) => {
  if (hasBody(request)) throw new WebdavError('mkcol_body')
  await fs.mkdir(path, change)
  sendStatus(response, 201)
}

export const remove: Command = async (webdavRequest) => {
  const { response, fs, path, change } = webdavRequest
  expectDepth(webdavRequest, ['infinity'], 'infinity') // RFC 4918 §9.6.1
  try {
    await fs.remove(path, change)
  } catch (error) {
    const failures = memberFailures(error, path)
    if (failures === undefined) throw error
    await sendFailures(webdavRequest, failures)
    return
  }
  sendStatus(response, 204)
}

/** Number of hexadecimal digits of each digest that is verified. */
const hexDigits: Readonly<Record<HashName, number>> = { md5: 32, sha1: 40, sha256: 64 }

/**
 * Parses the upload headers of the ownCloud family, Finder and the HTTP API. Throws `invalid` for a malformed one,
 * a 400 for a partial PUT (RFC 9110 §14.5), and a 501 for a chunk of an ownCloud upload: neither must be stored as the
 * whole file.
 */
export function parseUploadHeaders(headers: IncomingHttpHeaders): BodyMetadata {
  if (headers['content-range'] !== undefined) throw new WebdavError('partial_put')
  if (headers['oc-chunked'] !== undefined) throw new WebdavError('chunked_upload')
  return { size: sizeOf(headers), modified: modifiedOf(headers), hashes: hashesOf(headers) }
}

/** The announced size in bytes of a body without Content-Length, as of Finder (OpenMarshal/npm-WebDAV-Server#108). */
function sizeOf(headers: IncomingHttpHeaders): number | undefined {
  const text = headers['x-expected-entity-length'] ?? headers['oc-total-length'] ?? headers['x-file-size']
  return typeof text === 'string' && /^\d{1,15}$/.test(text) ? Number(text) : undefined
}

/**
 * X-OC-Mtime: Unix seconds, as ownCloud clients and rclone (rclone/rclone#3147) send them. Undefined for a time of a
 * year that does not have four digits: not every backend can be asked to store it.
 */
function modifiedOf(headers: IncomingHttpHeaders): Date | undefined {
  const text = headers['x-oc-mtime']
  if (text === undefined) return undefined
  if (typeof text !== 'string' || !/^-?\d+(\.\d+)?$/.test(text)) throw malformed('X-OC-Mtime')
  const milliseconds = Math.round(Number(text) * 1000)
  return milliseconds >= earliestTime && milliseconds <= latestTime ? new Date(milliseconds) : undefined
}

const earliestTime = Date.UTC(1000, 0)
const latestTime = Date.UTC(9999, 11, 31)

/** OC-Checksum: one or more `NAME:digest`. Other algorithms (Adler32, SHA3-256) are ignored. */
function hashesOf(headers: IncomingHttpHeaders): BodyMetadata['hashes'] {
  const text = headers['oc-checksum']
  if (text === undefined) return undefined
  if (typeof text !== 'string') throw malformed('OC-Checksum')
  const hashes: Partial<Record<HashName, string>> = {}
  for (const checksum of text.trim().split(/\s+/)) {
    const [, word = '', digest = ''] = /^([\w-]+):([\w-]+)$/.exec(checksum) ?? []
    if (word === '') throw malformed('OC-Checksum')
    const name = word.toLowerCase()
    if (!isHashName(name)) continue
    if (digest.length !== hexDigits[name] || !/^[0-9a-f]+$/i.test(digest)) throw malformed('OC-Checksum')
    hashes[name] = digest.toLowerCase()
  }
  return hashes
}

function isHashName(name: string): name is HashName {
  return Object.hasOwn(hexDigits, name)
}

function malformed(header: string): GatewayError {
  return new GatewayError('invalid', { reason: `malformed ${header} header` })
}
