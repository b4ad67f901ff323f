/** Upload headers that are not part of HTTP: those of the ownCloud family, Finder and the AList family. */
import type { IncomingHttpHeaders } from 'node:http'
import type { HashName } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/contract/errors.js'
import type { BodyMetadata } from '../lib/request-body.js'
import { HttpError } from './errors.js'

/** Number of hexadecimal digits of each digest that is verified. */
const hexDigits: Readonly<Record<HashName, number>> = { md5: 32, sha1: 40, sha256: 64 }

/**
 * Parses the upload headers. Throws `invalid` for a malformed one, a 400 for a partial PUT (RFC 9110 §14.5), and a 501
 * for a chunk of an ownCloud upload: neither must be stored as the whole file.
 */
export function parseUploadHeaders(headers: IncomingHttpHeaders): BodyMetadata {
  if (headers['content-range'] !== undefined) throw new HttpError('partial_put')
  if (headers['oc-chunked'] !== undefined) throw new HttpError('chunked_upload')
  return { size: sizeOf(headers), modified: modifiedOf(headers), hashes: hashesOf(headers) }
}

/** The announced size in bytes of a body without Content-Length, as of Finder (OpenMarshal/npm-WebDAV-Server#108). */
function sizeOf(headers: IncomingHttpHeaders): number | undefined {
  const text = headers['x-expected-entity-length'] ?? headers['oc-total-length'] ?? headers['x-file-size']
  return typeof text === 'string' && /^\d{1,15}$/.test(text) ? Number(text) : undefined
}

/**
 * X-OC-Mtime: Unix seconds, as ownCloud clients and rclone (rclone/rclone#3147) send them. Undefined for a time of a year
 * that does not have four digits: not every backend can be asked to store it.
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
