/** Encrypts and decrypts names. A name is one segment of a path. Files and folders may use different schemes. */
import { decode as decode32768, encode as encode32768 } from 'base32768'
import { GatewayError } from '../../src/base/errors.js'
import { isListableName } from '../../src/base/path.js'
import { decodeUtf8 } from '../../src/base/utf8.js'
import type { CryptKeys } from './passwords.js'
import { obfuscateName, deobfuscateName, WideBlockCipher, wideBlockLimit } from './name-ciphers.js'

interface NameOptions {
  readonly filename_encryption: string
  readonly directory_name_encryption: string
  readonly encrypted_suffix: string
  readonly filename_encoding: string
}

/**
 * The reason for which a name cannot be decrypted: it is not an encrypted name, or it was encrypted with another key.
 */
type Unreadable = 'foreign' | 'other key'

/** The result of a decryption. The reasons are distinct so that a wrong password can be detected. */
type DecryptedName = { readonly name: string } | { readonly unreadable: Unreadable }

/**
 * `file` and `folder` encrypt a name and throw `invalid` if that is impossible; `plainFile` and `plainFolder` decrypt.
 */
export interface Names {
  file(name: string): string
  folder(name: string): string
  plainFile(name: string): DecryptedName
  plainFolder(name: string): DecryptedName
}

const foreign: DecryptedName = { unreadable: 'foreign' }

/** Throws `invalid` if the suffix or the encoding is invalid. */
export function namesOf(options: NameOptions, keys: CryptKeys): Names {
  if (options.filename_encryption === 'off') return suffixed(options.encrypted_suffix)
  const cipher =
    options.filename_encryption === 'standard' ? standard(options.filename_encoding, keys) : obfuscated(keys)
  const encryptsFolders = options.directory_name_encryption === 'true'
  return {
    file: (name) => encryptKeepingVersion(name, cipher.encrypt),
    folder: encryptsFolders ? (name) => listable(cipher.encrypt(name)) : (name) => name,
    plainFile: (name) => {
      const { rest, version } = withoutVersion(name)
      const decrypted = cipher.decrypt(rest)
      return 'name' in decrypted ? checked(withVersion(decrypted.name, version)) : decrypted
    },
    plainFolder: encryptsFolders
      ? (name) => {
          const decrypted = cipher.decrypt(name)
          return 'name' in decrypted ? checked(decrypted.name) : decrypted
        }
      : (name) => ({ name }),
  }
}

interface SegmentCipher {
  readonly encrypt: (name: string) => string
  readonly decrypt: (text: string) => DecryptedName
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

function standard(encoding: string, keys: CryptKeys): SegmentCipher {
  const text: NameEncoding | undefined = nameEncodings[encoding]
  if (!text) throw new GatewayError('invalid', { reason: 'unknown encoding of names' })
  const cipher = new WideBlockCipher(keys.name, keys.tweak)
  return {
    encrypt(name) {
      if (name === '') return ''
      const bytes = Buffer.from(name)
      // PKCS #7 padding (RFC 5652 §6.3).
      const padding = 16 - (bytes.length % 16)
      const padded = Buffer.concat([bytes, Buffer.alloc(padding, padding)])
      if (padded.length > wideBlockLimit) throw new GatewayError('invalid', { reason: 'the name is too long' })
      return text.encode(cipher.encrypt(padded))
    },
    decrypt(encrypted) {
      if (encrypted === '') return { name: '' }
      const bytes = text.decode(encrypted)
      if (!bytes || bytes.length === 0 || bytes.length % 16 !== 0 || bytes.length > wideBlockLimit) return foreign
      const padded = cipher.decrypt(bytes)
      const padding = padded.readUInt8(padded.length - 1)
      const end = padded.length - padding
      if (padding < 1 || padding > 16 || padded.subarray(end).some((byte) => byte !== padding)) {
        return { unreadable: 'other key' }
      }
      const name = decodeUtf8(padded.subarray(0, end))
      return name === undefined ? { unreadable: 'other key' } : { name }
    },
  }
}

function obfuscated(keys: CryptKeys): SegmentCipher {
  const shift = keys.name.reduce((sum, byte) => sum + byte, 0)
  return {
    encrypt: (name) => obfuscateName(name, shift),
    decrypt(text) {
      if (text === '') return { name: '' }
      const name = deobfuscateName(text, shift)
      return name === undefined ? foreign : { name }
    },
  }
}

/** Throws `invalid` for an encrypted name that listings would leave out. */
function listable(encrypted: string): string {
  if (isListableName(encrypted)) return encrypted
  throw new GatewayError('invalid', { reason: 'this name cannot be encrypted' })
}

function checked(name: string): DecryptedName {
  return isListableName(name) ? { name } : { unreadable: 'other key' }
}

// Versions: rclone does not encrypt the timestamp in the name of an old version of a file.

interface Versioned {
  readonly rest: string
  /** The version suffix with its hyphen; empty if there is none. */
  readonly version: string
}

const versionEnd = /-v(\d{4}-\d\d-\d\d)-(\d\d)(\d\d)(\d\d)-(\d{3})$/

function encryptKeepingVersion(name: string, encrypt: (name: string) => string): string {
  const { rest, version } = withoutVersion(name)
  return listable(withVersion(encrypt(rest), version))
}

function withoutVersion(name: string): Versioned {
  const { base, extension } = parts(name)
  const match = versionEnd.exec(base)
  if (!match) return { rest: name, version: '' }
  const [version, day, hour, minute, second, part] = match
  const text = `${day}T${hour}:${minute}:${second}.${part}Z`
  const time = new Date(text)
  // Rejects dates that do not exist, such as 30 February.
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

/** An encoding of encrypted names that rclone supports. */
interface NameEncoding {
  encode(bytes: Buffer): string
  /** Undefined if `text` is not the canonical encoding of any bytes. */
  decode(text: string): Buffer | undefined
}

/** base32hex (RFC 4648 §7) in lowercase, without padding. */
const alphabet = '0123456789abcdefghijklmnopqrstuv'

const base32: NameEncoding = {
  encode(bytes) {
    let text = ''
    let bits = 0
    let buffered = 0
    for (const byte of bytes) {
      buffered = (buffered << 8) | byte
      bits += 8
      for (; bits >= 5; bits -= 5) text += alphabet.charAt((buffered >> (bits - 5)) & 31)
      buffered &= (1 << bits) - 1
    }
    return bits > 0 ? text + alphabet.charAt((buffered << (5 - bits)) & 31) : text
  },
  decode(text) {
    const bytes: number[] = []
    let bits = 0
    let buffered = 0
    const lowercase = text.toLowerCase()
    for (const letter of lowercase) {
      const value = alphabet.indexOf(letter)
      if (value < 0) return undefined
      buffered = (buffered << 5) | value
      bits += 5
      if (bits >= 8) {
        bits -= 8
        bytes.push((buffered >> bits) & 0xff)
      }
      buffered &= (1 << bits) - 1
    }
    const result = Buffer.from(bytes)
    return base32.encode(result) === lowercase ? result : undefined
  },
}

const base64: NameEncoding = {
  encode: (bytes) => bytes.toString('base64url'),
  decode(text) {
    const bytes = Buffer.from(text, 'base64url')
    return base64.encode(bytes) === text ? bytes : undefined
  },
}

const base32768: NameEncoding = {
  encode: (bytes) => encode32768(bytes),
  decode(text) {
    try {
      const bytes = Buffer.from(decode32768(text))
      return base32768.encode(bytes) === text ? bytes : undefined
    } catch {
      return undefined
    }
  },
}

const nameEncodings: Readonly<Record<string, NameEncoding>> = { base32, base64, base32768 }
