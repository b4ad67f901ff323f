/**
 * Messages of an LDAP server (RFC 4511 §4.1.1), checked before ldapts reads them: it would read a malformed one for
 * ever, and call itself for each of many.
 */
import { GatewayError } from '../base/errors.js'

/** Maximum bytes that a server may send in one connection: an entry with some thousand groups. */
const maxReceived = 1024 * 1024

/** An element of BER with a definite length: its contents are `bytes.subarray(start, end)`. */
interface Element {
  readonly tag: number
  readonly at: number
  readonly start: number
  readonly end: number
}

const tags = { integer: 0x02, octets: 0x04, enumerated: 0x0a, sequence: 0x30, set: 0x31, entry: 0x64, reference: 0x73 }
/** The answers to a bind, a search and an extended request. */
const results = [0x61, 0x65, 0x78]

/** Splits what a server sends into messages, without their controls, of which none was asked for. */
export class LdapMessages {
  #received = 0
  #rest = Buffer.alloc(0)

  /** Whether a part of a message has been received. */
  get isWithin(): boolean {
    return this.#rest.length > 0
  }

  /** The messages that this chunk completes. Throws `unavailable` for a malformed one, and if there is too much. */
  *complete(chunk: Buffer): Generator<Buffer> {
    this.#received += chunk.length
    if (this.#received > maxReceived) throw malformed('the directory sends too much')
    this.#rest = Buffer.concat([this.#rest, chunk])
    for (;;) {
      const message = elementAt(this.#rest, 0)
      if (message !== undefined && message.tag !== tags.sequence) throw malformed()
      if (message === undefined || message.end > this.#rest.length) return
      const bytes = this.#rest.subarray(0, message.end)
      this.#rest = this.#rest.subarray(message.end)
      yield withoutControls(bytes, message)
    }
  }
}

function withoutControls(bytes: Buffer, message: Element): Buffer {
  const [id, operation] = elementsIn(bytes, message)
  if (id?.tag !== tags.integer || operation === undefined) throw malformed()
  const parts = elementsIn(bytes, operation)
  const have = (elements: readonly Element[], ...wanted: readonly number[]) =>
    elements.length >= wanted.length && wanted.every((tag, index) => elements[index]?.tag === tag)
  const isAttribute = (element: Element) => {
    const [type, values, ...others] = element.tag === tags.sequence ? elementsIn(bytes, element) : []
    if (type?.tag !== tags.octets || values?.tag !== tags.set || others.length > 0) return false
    return elementsIn(bytes, values).every(({ tag }) => tag === tags.octets)
  }
  const [, attributes] = parts
  const isReadable =
    (results.includes(operation.tag) && have(parts, tags.enumerated, tags.octets, tags.octets)) ||
    (operation.tag === tags.reference && parts.every(({ tag }) => tag === tags.octets)) ||
    (operation.tag === tags.entry &&
      have(parts, tags.octets, tags.sequence) &&
      attributes !== undefined &&
      elementsIn(bytes, attributes).every(isAttribute))
  if (!isReadable) throw malformed()
  const header = Buffer.from([tags.sequence, 0x84, 0, 0, 0, 0])
  header.writeUInt32BE(operation.end - id.at, 2)
  return Buffer.concat([header, bytes.subarray(id.at, operation.end)])
}

/** The elements that fill the contents of another one. Throws if they do not. */
function elementsIn(bytes: Buffer, { start, end }: Element): readonly Element[] {
  const elements: Element[] = []
  for (let at = start; at < end;) {
    const element = elementAt(bytes, at)
    if (element === undefined || element.end > end) throw malformed()
    elements.push(element)
    at = element.end
  }
  return elements
}

/** The element that begins here; undefined while its header is incomplete. */
function elementAt(bytes: Buffer, at: number): Element | undefined {
  const [tag, length] = bytes.subarray(at, at + 2)
  if (tag === undefined || length === undefined) return undefined
  const size = length < 0x80 ? 0 : length & 0x7f
  // An indefinite length, which LDAP forbids (RFC 4511 §5.1), or one that no message has.
  if (length === 0x80 || size > 4) throw malformed()
  const start = at + 2 + size
  if (start > bytes.length) return undefined
  return { tag, at, start, end: start + (size === 0 ? length : bytes.readUIntBE(at + 2, size)) }
}

function malformed(reason = 'the directory sends what is no message of LDAP'): GatewayError {
  return new GatewayError('unavailable', { reason })
}
