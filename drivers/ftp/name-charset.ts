/**
 * The encoding of names. The control connection represents bytes as Latin-1 characters ("wire text"); the `encoding`
 * option of the storage determines how they are decoded.
 */
import iconv from 'iconv-lite'
import { GatewayError } from '../../src/base/errors.js'
import { decodeUtf8 } from '../../src/base/utf8.js'

export interface NameCharset {
  readonly isUtf8: boolean
  /**
   * The wire text of a path. Throws `invalid` for control characters, and for characters that the encoding does not
   * have.
   */
  encode(path: string): string
  /** The name for wire text; undefined if the bytes are malformed, do not round-trip, or contain control characters. */
  decode(wire: string): string | undefined
}

/** A line break ends a command (RFC 959). Servers treat the other control characters differently, so none is sent. */
const controlCharacters = /\p{Cc}/u

/**
 * `encoding`: an encoding label of iconv-lite; empty for UTF-8. Throws `invalid` if it is unknown or unsuitable for
 * FTP.
 */
export function nameCharset(encoding: string): NameCharset {
  const label = encoding.trim()
  const isUtf8 = label === '' || /^utf-?8$/i.test(label)
  const encodeBytes = isUtf8 ? (text: string) => Buffer.from(text) : encoderOf(label)
  const decodeBytes = isUtf8 ? decodeUtf8 : decoderOf(label)
  return {
    isUtf8,
    encode(path) {
      if (controlCharacters.test(path)) {
        throw new GatewayError('invalid', { reason: 'a name cannot hold control characters' })
      }
      const bytes = encodeBytes(path)
      if (decodeBytes(bytes) !== path) {
        throw new GatewayError('invalid', { reason: `the name cannot be written in ${isUtf8 ? 'UTF-8' : label}` })
      }
      return bytes.toString('latin1')
    },
    decode(wire) {
      const bytes = Buffer.from(wire, 'latin1')
      const name = decodeBytes(bytes)
      if (name === undefined || controlCharacters.test(name)) return undefined
      // A name that is encoded to other bytes would address a different file.
      return isUtf8 || encodeBytes(name).equals(bytes) ? name : undefined
    },
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
