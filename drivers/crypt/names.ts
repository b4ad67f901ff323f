/** Names as the backend keeps them, and back. A name is one segment of a path; files and folders may be kept differently. */
import { GatewayError } from '../../src/errors.js'
import { isListableName } from '../../src/path.js'
import { nameTexts, type NameText } from './name-text.js'
import type { Keys } from './passwords.js'
import { rotated, rotatedBack } from './rotation.js'
import { WideBlockCipher, wideBlockLimit } from './wide-block.js'

export interface NameOptions {
  readonly filename_encryption: string
  readonly directory_name_encryption: string
  readonly encrypted_suffix: string
  readonly filename_encoding: string
}

/** Why a name of the backend has no plain form: it is none of ours, or the key does not fit it. */
export type Unreadable = 'foreign' | 'other key'

/** The two are told apart so that a wrong password is noticed. */
export type Deciphered = { readonly name: string } | { readonly unreadable: Unreadable }

export interface Names {
  file(name: string): string
  folder(name: string): string
  plainFile(name: string): Deciphered
  plainFolder(name: string): Deciphered
}

const foreign: Deciphered = { unreadable: 'foreign' }

/** Rejects with `invalid` where the suffix cannot be one. */
export function namesOf(options: NameOptions, keys: Keys): Names {
  if (options.filename_encryption === 'off') return suffixed(options.encrypted_suffix)
  const cipher =
    options.filename_encryption === 'standard' ? standard(options.filename_encoding, keys) : obfuscated(keys)
  const foldersToo = options.directory_name_encryption === 'true'
  return {
    file: (name) => beside(name, cipher.encrypt),
    folder: foldersToo ? (name) => listable(cipher.encrypt(name)) : (name) => name,
    plainFile: (name) => {
      const { rest, version } = withoutVersion(name)
      const found = cipher.decrypt(rest)
      return 'name' in found ? checked(withVersion(found.name, version)) : found
    },
    plainFolder: foldersToo
      ? (name) => {
          const found = cipher.decrypt(name)
          return 'name' in found ? checked(found.name) : found
        }
      : (name) => ({ name }),
  }
}

interface SegmentCipher {
  readonly encrypt: (name: string) => string
  readonly decrypt: (text: string) => Deciphered
}

function suffixed(suffix: string): Names {
  if (!/^[.][A-Za-z0-9-_]{2,}$/.test(suffix)) {
    throw new GatewayError('invalid', { reason: 'EncryptedSuffix is Illegal' })
  }
  return {
    file: (name) => name + suffix,
    folder: (name) => name,
    plainFile: (name) =>
      name.length > suffix.length && name.endsWith(suffix) ? { name: name.slice(0, -suffix.length) } : foreign,
    plainFolder: (name) => ({ name }),
  }
}

function standard(encoding: string, keys: Keys): SegmentCipher {
  const text: NameText | undefined = nameTexts[encoding]
  if (!text) throw new GatewayError('invalid', { reason: 'no such encoding of names' })
  const cipher = new WideBlockCipher(keys.name, keys.tweak)
  const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  return {
    encrypt(name) {
      if (name === '') return ''
      const bytes = Buffer.from(name)
      // RFC 5652 section 6.3: as many bytes as are missing, at least one, and each of them says how many.
      const missing = 16 - (bytes.length % 16)
      const padded = Buffer.concat([bytes, Buffer.alloc(missing, missing)])
      if (padded.length > wideBlockLimit) throw new GatewayError('invalid', { reason: 'the name is too long' })
      return text.encode(cipher.encrypt(padded))
    },
    decrypt(encrypted) {
      if (encrypted === '') return { name: '' }
      const bytes = text.decode(encrypted)
      if (!bytes || bytes.length === 0 || bytes.length % 16 !== 0 || bytes.length > wideBlockLimit) return foreign
      const padded = cipher.decrypt(bytes)
      const missing = padded.readUInt8(padded.length - 1)
      const end = padded.length - missing
      if (missing < 1 || missing > 16 || padded.subarray(end).some((byte) => byte !== missing)) {
        return { unreadable: 'other key' }
      }
      try {
        return { name: utf8.decode(padded.subarray(0, end)) }
      } catch {
        return { unreadable: 'other key' }
      }
    },
  }
}

function obfuscated(keys: Keys): SegmentCipher {
  const shift = keys.name.reduce((sum, byte) => sum + byte, 0)
  return {
    encrypt: (name) => rotated(name, shift),
    decrypt(text) {
      if (text === '') return { name: '' }
      const name = rotatedBack(text, shift)
      return name === undefined ? foreign : { name }
    },
  }
}

/** A name that nobody could see again is refused before anything is stored under it. */
function listable(encrypted: string): string {
  if (isListableName(encrypted)) return encrypted
  throw new GatewayError('invalid', { reason: 'this name cannot be encrypted' })
}

function checked(name: string): Deciphered {
  return isListableName(name) ? { name } : { unreadable: 'other key' }
}

// Versions: rclone leaves the time in the name of an old version of a file in clear.

interface Versioned {
  readonly rest: string
  /** With its hyphen; empty where there is none. */
  readonly version: string
}

const versionEnd = /-v(\d{4}-\d\d-\d\d)-(\d\d)(\d\d)(\d\d)-(\d{3})$/

function beside(name: string, encrypt: (name: string) => string): string {
  const { rest, version } = withoutVersion(name)
  return listable(withVersion(encrypt(rest), version))
}

function withoutVersion(name: string): Versioned {
  const { base, extension } = parts(name)
  const found = versionEnd.exec(base)
  if (!found) return { rest: name, version: '' }
  const [version, day, hour, minute, second, part] = found
  const text = `${day}T${hour}:${minute}:${second}.${part}Z`
  const time = new Date(text)
  // A day that the calendar has not is no time, and neither is one that would be counted on into the next month.
  if (Number.isNaN(time.getTime()) || time.toISOString() !== text) return { rest: name, version: '' }
  return { rest: base.slice(0, -version.length) + extension, version }
}

function withVersion(name: string, version: string): string {
  if (version === '') return name
  const { base, extension } = parts(name)
  return base + version + extension
}

function parts(name: string): { readonly base: string; readonly extension: string } {
  const dot = name.lastIndexOf('.')
  return dot < 0 ? { base: name, extension: '' } : { base: name.slice(0, dot), extension: name.slice(dot) }
}
