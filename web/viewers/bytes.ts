/** The beginning of a file. */
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('viewers')

/** The first bytes of the file at this URL, at most `length`. Rejects if it cannot be read. */
export async function firstBytes(url: string, length: number, signal: AbortSignal): Promise<Uint8Array> {
  const response = await fetch(url, { signal, headers: { Range: `bytes=0-${length - 1}` } })
  // An empty file has no range.
  if (response.status === 416) return new Uint8Array()
  if (!response.ok || !response.body) throw new Error(texts.look.notRead)
  // The server may send all.
  const bytes = new Uint8Array(length)
  let filled = 0
  const reader = response.body.getReader()
  while (filled < length) {
    const { value } = await reader.read()
    if (value === undefined) break
    const part = value.subarray(0, length - filled)
    bytes.set(part, filled)
    filled += part.length
  }
  await reader.cancel()
  return bytes.subarray(0, filled)
}

/** The text of bytes in UTF-8 or, with a byte order mark, UTF-16; else in GB 18030 or, if it is none, Windows-1252. */
export function textOf(bytes: Uint8Array): string {
  const [first, second] = bytes
  if (first === 0xff && second === 0xfe) return new TextDecoder('utf-16le').decode(bytes)
  if (first === 0xfe && second === 0xff) return new TextDecoder('utf-16be').decode(bytes)
  for (const encoding of ['utf-8', 'gb18030']) {
    try {
      return new TextDecoder(encoding, { fatal: true }).decode(bytes)
    } catch {
      // It has another encoding.
    }
  }
  return new TextDecoder('windows-1252').decode(bytes)
}
