/** SPNEGO (RFC 4178) with NTLM as the only mechanism. */
import { ProtocolError } from './errors.js'

const tag = {
  octetString: 0x04,
  objectIdentifier: 0x06,
  enumerated: 0x0a,
  sequence: 0x30,
  application: 0x60,
  init: 0xa0,
  response: 0xa1,
} as const

/** The object identifier of SPNEGO, 1.3.6.1.5.5.2. */
const spnego = Buffer.from('2b0601050502', 'hex')
/** The object identifier of NTLM, 1.3.6.1.4.1.311.2.2.10. */
const ntlm = Buffer.from('2b06010401823702020a', 'hex')

/** The DER-encoded mechanism list, NTLM only, as its signature covers it. */
export const mechanisms = element(tag.sequence, element(tag.objectIdentifier, ntlm))

/** NegTokenInit: the mechanism list and `token`. */
export function initialToken(token: Buffer): Buffer {
  const fields = element(tag.sequence, field(0, mechanisms), field(2, element(tag.octetString, token)))
  return element(tag.application, element(tag.objectIdentifier, spnego), element(tag.init, fields))
}

/** NegTokenResp: `token`, and `signature` over the mechanism list. */
export function responseToken(token: Buffer, signature: Buffer): Buffer {
  const fields = [field(2, element(tag.octetString, token)), field(3, element(tag.octetString, signature))]
  return element(tag.response, element(tag.sequence, ...fields))
}

/**
 * The token in a response of the server; empty if there is none. A raw NTLM message, as some servers send, is returned
 * unchanged.
 */
export function tokenOf(answer: Buffer): Buffer {
  if (answer.subarray(0, 7).toString('latin1') === 'NTLMSSP') return answer
  if (answer.length === 0) return answer
  const fields = contentOf(contentOf(answer, tag.response), tag.sequence)
  for (let rest = fields; rest.length > 0;) {
    const { content, tag: actual, after } = read(rest)
    if (actual === 0xa2) return contentOf(content, tag.octetString)
    rest = after
  }
  return Buffer.alloc(0)
}

function field(index: number, content: Buffer): Buffer {
  return element(0xa0 + index, content)
}

/** A DER element (X.690 §8.1). */
function element(identifier: number, ...contents: readonly Buffer[]): Buffer {
  const content = Buffer.concat(contents)
  const { length } = content
  const lengths =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, Math.floor(length / 0x100), length % 0x100]
  return Buffer.concat([Buffer.from([identifier, ...lengths]), content])
}

function contentOf(from: Buffer, expected: number): Buffer {
  const { tag: actual, content } = read(from)
  if (actual !== expected) throw new ProtocolError('malformed SPNEGO response')
  return content
}

function read(from: Buffer): { readonly tag: number; readonly content: Buffer; readonly after: Buffer } {
  const first = from[1] ?? 0xff
  const count = first < 0x80 ? 0 : first & 0x7f
  const start = 2 + count
  if (count > 3 || from.length < start) throw new ProtocolError('truncated SPNEGO response')
  const length = count === 0 ? first : from.readUIntBE(2, count)
  if (start + length > from.length) throw new ProtocolError('truncated SPNEGO response')
  return { tag: from[0] ?? 0, content: from.subarray(start, start + length), after: from.subarray(start + length) }
}
