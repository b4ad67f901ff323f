/**
 * Names as bytes. The control connection carries bytes as characters of Latin-1 ("wire text"); what they mean is a matter
 * between this storage's `encoding` and the server's files.
 */
import iconv from 'iconv-lite'
import { GatewayError } from '../../src/errors.js'

export interface NameEncoding {
  readonly isUtf8: boolean
  /** Wire text of a path. Rejects with `invalid` where it has no such characters, or some that would end a command. */
  encode(path: string): string
  /** The name behind wire text; undefined where the bytes are none of this encoding. */
  decode(wire: string): string | undefined
}

/** RFC 959 commands end at a line break; no server is asked how it takes the other control characters. */
const controlCharacters = /\p{Cc}/u

/** `encoding`: as users call it; empty for UTF-8. Rejects with `invalid` where nobody knows it. */
export function nameEncoding(encoding: string): NameEncoding {
  const asked = encoding.trim()
  const isUtf8 = asked === '' || /^utf-?8$/i.test(asked)
  const encodeBytes = isUtf8 ? (text: string) => Buffer.from(text) : encoderOf(asked)
  const decodeBytes = isUtf8 ? decodeUtf8 : decoderOf(asked)
  return {
    isUtf8,
    encode(path) {
      if (controlCharacters.test(path)) {
        throw new GatewayError('invalid', { reason: 'a name cannot hold control characters' })
      }
      const bytes = encodeBytes(path)
      if (decodeBytes(bytes) !== path) {
        throw new GatewayError('invalid', { reason: `the name cannot be written in ${isUtf8 ? 'UTF-8' : asked}` })
      }
      return bytes.toString('latin1')
    },
    decode(wire) {
      const bytes = Buffer.from(wire, 'latin1')
      const name = decodeBytes(bytes)
      if (name === undefined || controlCharacters.test(name)) return undefined
      // What would be asked for under other bytes is another name.
      return isUtf8 || encodeBytes(name).equals(bytes) ? name : undefined
    },
  }
}

function decodeUtf8(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}

function encoderOf(encoding: string): (text: string) => Buffer {
  if (!iconv.encodingExists(encoding) || iconv.encode('/a b', encoding).toString('latin1') !== '/a b') {
    throw new GatewayError('invalid', { reason: `encoding: ${encoding} is not known, or not one that FTP can carry` })
  }
  return (text) => iconv.encode(text, encoding)
}

function decoderOf(encoding: string): (bytes: Buffer) => string | undefined {
  return (bytes) => {
    if (!iconv.encodingExists(encoding)) return undefined
    return iconv.decode(bytes, encoding, { stripBOM: false })
  }
}
