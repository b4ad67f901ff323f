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
