/** Decodes text from clients and backends. Bytes that are not UTF-8 are never replaced: two names could become one. */

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The text of these bytes. Undefined if they are not UTF-8. A byte order mark is a character of the text. */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return strict.decode(bytes)
  } catch {
    return undefined
  }
}

/** Like `decodeUtf8`, for the bytes of a header, which Node returns as Latin-1. */
export function decodeLatin1(text: string): string | undefined {
  return /[\u0080-\u00ff]/.test(text) ? decodeUtf8(Buffer.from(text, 'latin1')) : text
}

/** The value of a header, which Node returns as Latin-1: its bytes as UTF-8, or as Latin-1 if they are not UTF-8. */
export function headerText(value: string): string {
  return decodeLatin1(value) ?? value
}

/**
 * Whether UTF-8 can represent the text, and nothing in it was replaced: libraries that decode bytes put U+FFFD in the
 * place of those that are not UTF-8.
 */
export function isDecoded(text: string): boolean {
  return text.isWellFormed() && !text.includes('\ufffd')
}

/** Percent-decodes. Undefined if an escape is malformed, or the escaped bytes are not UTF-8. */
export function percentDecoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/** Whether the percent-escapes of a query or a form are UTF-8. A `%` that begins no escape stands for itself there. */
export function hasUtf8Escapes(text: string): boolean {
  // Bytes below 0x80 are complete characters.
  const runs = text.match(/(?:%[89a-f][\da-f])+/gi) ?? []
  return runs.every((run) => percentDecoded(run) !== undefined)
}

/** The target of a redirect, which Node returns as Latin-1, with its bytes above 127 percent-encoded. */
export function locationText(value: string): string {
  return value.replace(/[\u0080-\u00ff]/g, (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase()}`)
}
