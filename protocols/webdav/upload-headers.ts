/** What headers outside of HTTP tell of an upload: those of the ownCloud family, of Finder, and of the AList family. */
import type { IncomingHttpHeaders } from 'node:http'
import type { HashName } from '../../src/driver.js'
import { GatewayError } from '../../src/errors.js'
import type { BodyFacts } from '../lib/body.js'
import { Refusal } from './errors.js'

/** Hexadecimal digits of those digests that are verified. */
const digits: Readonly<Record<HashName, number>> = { md5: 32, sha1: 40, sha256: 64 }

/** Rejects with `invalid` for a malformed one, with a refusal for a part of a file: it must never be taken for the whole. */
export function uploadFacts(headers: IncomingHttpHeaders): BodyFacts {
  // RFC 9110 §14.5.
  if (headers['content-range'] !== undefined) throw new Refusal(400, 'PUT of a part is not supported')
  if (headers['oc-chunked'] !== undefined) throw new Refusal(501, 'uploads in chunks are not supported')
  return { size: sizeOf(headers), modified: modifiedOf(headers), hashes: hashesOf(headers) }
}

/** What a chunked body announces. */
function sizeOf(headers: IncomingHttpHeaders): number | undefined {
  const text = headers['x-expected-entity-length'] ?? headers['oc-total-length'] ?? headers['x-file-size']
  return typeof text === 'string' && /^\d{1,15}$/.test(text) ? Number(text) : undefined
}

/** X-OC-Mtime: Unix seconds, as ownCloud clients and rclone send them. */
function modifiedOf(headers: IncomingHttpHeaders): Date | undefined {
  const text = headers['x-oc-mtime']
  if (text === undefined) return undefined
  if (typeof text !== 'string' || !/^-?\d{1,11}(\.\d{1,9})?$/.test(text)) throw malformed('X-OC-Mtime')
  return new Date(Math.round(Number(text) * 1000))
}

/** OC-Checksum: one or several `NAME:digest`. Those of other names (Adler32, SHA3-256) are left alone. */
function hashesOf(headers: IncomingHttpHeaders): BodyFacts['hashes'] {
  const text = headers['oc-checksum']
  if (text === undefined) return undefined
  if (typeof text !== 'string') throw malformed('OC-Checksum')
  const hashes: Partial<Record<HashName, string>> = {}
  for (const checksum of text.trim().split(/\s+/)) {
    const [, word = '', digest = ''] = /^([\w-]+):([\w-]+)$/.exec(checksum) ?? []
    if (word === '') throw malformed('OC-Checksum')
    const name = word.toLowerCase()
    if (!isHashName(name)) continue
    if (digest.length !== digits[name] || !/^[0-9a-f]+$/i.test(digest)) throw malformed('OC-Checksum')
    hashes[name] = digest.toLowerCase()
  }
  return hashes
}

function isHashName(name: string): name is HashName {
  return Object.hasOwn(digits, name)
}

function malformed(header: string): GatewayError {
  return new GatewayError('invalid', { reason: `malformed ${header} header` })
}
