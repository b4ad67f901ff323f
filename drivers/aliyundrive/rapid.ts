/**
 * What Aliyundrive asks for before it gives a file that it knows to a client that does not send it: the SHA-1 of the
 * beginning, then the SHA-1 of the whole file and eight bytes of it. Where these are depends on the access token.
 */
import { createHash } from 'node:crypto'
import type { Source } from '../../src/contract/call-options.js'
import { rangeOf } from '../lib/api/source-range.js'

/** Files of up to so many bytes are sent without asking. */
export const maxUnasked = 100 * 1024
const headLength = 1024
const proofLength = 8

/** SHA-1 of the first KiB, in hexadecimal. */
export async function headSha1Of(source: Source, signal: AbortSignal | undefined): Promise<string> {
  const head = await rangeOf(source, 0, headLength, signal)
  return createHash('sha1').update(head).digest('hex')
}

/** Where the proof for a file of this size begins. */
export function proofOffset(accessToken: string, size: number): number {
  if (size === 0) return 0
  const digest = createHash('md5').update(accessToken).digest('hex')
  return Number(BigInt(`0x${digest.slice(0, 16)}`) % BigInt(size))
}

/** The proof, in base64. */
export async function proofOf(source: Source, accessToken: string, signal: AbortSignal | undefined): Promise<string> {
  const offset = proofOffset(accessToken, source.size ?? 0)
  return (await rangeOf(source, offset, proofLength, signal)).toString('base64')
}
