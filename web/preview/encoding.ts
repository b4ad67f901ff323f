/** The encoding of a text. */

export interface DecodedText {
  readonly text: string
  /** Whether the bytes are UTF-8. Others are shown as UTF-16 if they begin with its mark, else as Latin-1. */
  readonly isUtf8: boolean
}

export type Encoding = 'utf-8' | 'utf-16le' | 'utf-16be' | 'latin1'

/** The encoding of a text that begins with these bytes. `isWhole`: they are all of it. */
export function encodingOf(bytes: Uint8Array, isWhole: boolean): Encoding {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return 'utf-16le'
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return 'utf-16be'
  try {
    // A character that is cut at the end is no error in a stream.
    new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: !isWhole })
    return 'utf-8'
  } catch {
    return 'latin1'
  }
}

/** A whole text. A byte order mark of UTF-8 is kept, so that the text can be saved as it was. */
export function decodedText(bytes: Uint8Array): DecodedText {
  const encoding = encodingOf(bytes, true)
  const text = new TextDecoder(encoding, { ignoreBOM: encoding === 'utf-8' }).decode(bytes)
  return { text, isUtf8: encoding === 'utf-8' }
}
