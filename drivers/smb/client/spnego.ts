/** SPNEGO (RFC 4178) for one mechanism, NTLM: the messages of a sign-in, wrapped. */
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

/** 1.3.6.1.5.5.2 */
const spnego = Buffer.from('2b0601050502', 'hex')
/** 1.3.6.1.4.1.311.2.2.10 */
const ntlm = Buffer.from('2b06010401823702020a', 'hex')

/** The list that is offered, as its signature covers it: NTLM alone. */
export const mechanisms = element(tag.sequence, element(tag.objectIdentifier, ntlm))

/** The first message: `token` with the list of mechanisms. */
export function initialToken(token: Buffer): Buffer {
  const fields = element(tag.sequence, field(0, mechanisms), field(2, element(tag.octetString, token)))
  return element(tag.application, element(tag.objectIdentifier, spnego), element(tag.init, fields))
}

/** The last message; `signature` is that of the list of mechanisms. */
export function responseToken(token: Buffer, signature: Buffer): Buffer {
  const fields = [field(2, element(tag.octetString, token)), field(3, element(tag.octetString, signature))]
  return element(tag.response, element(tag.sequence, ...fields))
}

/** The token in an answer of the server; empty where it has none. A bare NTLM message, as some servers send, is that token itself. */
export function tokenOf(answer: Buffer): Buffer {
  if (answer.subarray(0, 7).toString('latin1') === 'NTLMSSP') return answer
  if (answer.length === 0) return answer
  const fields = inside(inside(answer, tag.response), tag.sequence)
  for (let rest = fields; rest.length > 0;) {
    const { content, tag: found, after } = read(rest)
    if (found === 0xa2) return inside(content, tag.octetString)
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

function inside(from: Buffer, expected: number): Buffer {
  const { tag: found, content } = read(from)
  if (found !== expected) throw new ProtocolError('the server answers the sign-in with something else than SPNEGO')
  return content
}

function read(from: Buffer): { readonly tag: number; readonly content: Buffer; readonly after: Buffer } {
  const first = from[1] ?? 0xff
  const count = first < 0x80 ? 0 : first & 0x7f
  const start = 2 + count
  if (count > 3 || from.length < start) throw new ProtocolError('the answer to the sign-in is cut off')
  const length = count === 0 ? first : from.readUIntBE(2, count)
  if (start + length > from.length) throw new ProtocolError('the answer to the sign-in is cut off')
  return { tag: from[0] ?? 0, content: from.subarray(start, start + length), after: from.subarray(start + length) }
}
