/** NTLMv2 (MS-NLMP): three messages that prove a password, and the key that both sides have afterwards. */
import { createHash, createHmac, randomBytes } from 'node:crypto'
import { fileTimeOf } from './file-time.js'
import { md4 } from './md4.js'
import { ProtocolError } from './errors.js'

export interface Credentials {
  readonly username: string
  /** Empty where the account belongs to the server itself. */
  readonly domain: string
  readonly password: string
}

/** NEGOTIATE (§2.2.2.5): Unicode, request target, sign, NTLM, always sign, extended session security, target info, version, 128 and 56 bits. */
const flags = 0xa2888215
const signature = Buffer.from('NTLMSSP\0', 'latin1')
/** Windows 10, revision 15 of NTLMSSP (§2.2.2.10); who sends a MIC has to tell a version before it. */
const version = Buffer.from([10, 0, 0, 0, 0, 0, 0, 15])

/** Ids of the pairs in the server's target information (§2.2.2.1). */
const pairs = { end: 0, flags: 6, timestamp: 7 } as const
/** Of the pair `flags`: the third message carries a MIC. */
const hasMic = 0x2

export function negotiateMessage(): Buffer {
  const message = Buffer.alloc(40)
  signature.copy(message)
  message.writeUInt32LE(1, 8)
  message.writeUInt32LE(flags, 12)
  version.copy(message, 32)
  return message
}

export interface Challenge {
  readonly serverChallenge: Buffer
  readonly targetInfo: Buffer
}

export function parseChallenge(message: Buffer): Challenge {
  if (message.length < 48 || !message.subarray(0, 8).equals(signature) || message.readUInt32LE(8) !== 2) {
    throw new ProtocolError('the server sends no NTLM challenge')
  }
  const length = message.readUInt16LE(40)
  const offset = message.readUInt32LE(44)
  if (offset + length > message.length) throw new ProtocolError('the NTLM challenge is cut off')
  return { serverChallenge: message.subarray(24, 32), targetInfo: message.subarray(offset, offset + length) }
}

/** NTOWFv2 (§3.3.2). */
export function responseKey({ username, domain, password }: Credentials): Buffer {
  return hmacMd5(md4(Buffer.from(password, 'utf16le')), Buffer.from(username.toUpperCase() + domain, 'utf16le'))
}

/** The response to a challenge and the session key that comes of it (§3.3.2). */
export function ntlmV2Response(
  key: Buffer,
  serverChallenge: Buffer,
  clientChallenge: Buffer,
  time: Buffer,
  targetInfo: Buffer,
): { readonly response: Buffer; readonly sessionKey: Buffer } {
  const start = Buffer.from([1, 1, 0, 0, 0, 0, 0, 0])
  const blob = Buffer.concat([start, time, clientChallenge, Buffer.alloc(4), targetInfo, Buffer.alloc(4)])
  const proof = hmacMd5(key, serverChallenge, blob)
  return { response: Buffer.concat([proof, blob]), sessionKey: hmacMd5(key, proof) }
}

/** The third message, and the session key. `sent` and `received`: the two messages before it, which its MIC covers. */
export function authenticateMessage(
  credentials: Credentials,
  sent: Buffer,
  received: Buffer,
): { readonly message: Buffer; readonly sessionKey: Buffer } {
  const { serverChallenge, targetInfo } = parseChallenge(received)
  const { time, info, usesMic } = answeredInfo(targetInfo)
  const key = responseKey(credentials)
  const { response, sessionKey } = ntlmV2Response(key, serverChallenge, randomBytes(8), time, info)
  const fields = [
    Buffer.alloc(24), // the LM response: a server that tells the time wants none
    response,
    Buffer.from(credentials.domain, 'utf16le'),
    Buffer.from(credentials.username, 'utf16le'),
    Buffer.alloc(0), // the name of this machine
    Buffer.alloc(0), // a key in exchange: the session key is used as it is
  ]
  const head = Buffer.alloc(88)
  signature.copy(head)
  head.writeUInt32LE(3, 8)
  let offset = head.length
  for (const [index, field] of fields.entries()) {
    const at = 12 + index * 8
    head.writeUInt16LE(field.length, at)
    head.writeUInt16LE(field.length, at + 2)
    head.writeUInt32LE(offset, at + 4)
    offset += field.length
  }
  head.writeUInt32LE(flags, 60)
  version.copy(head, 64)
  const message = Buffer.concat([head, ...fields])
  if (usesMic) hmacMd5(sessionKey, sent, received, message).copy(message, 72)
  return { message, sessionKey }
}

/**
 * Signature of the client's first signed message (§3.4.4.2): without a key in exchange nothing is encrypted. SPNEGO wants one over its
 * list of mechanisms from a client whose proof has a MIC.
 */
export function firstSignature(sessionKey: Buffer, message: Buffer): Buffer {
  const purpose = 'session key to client-to-server signing key magic constant\0'
  const key = createHash('md5').update(sessionKey).update(purpose, 'latin1').digest()
  const sequence = Buffer.alloc(4)
  return Buffer.concat([Buffer.from([1, 0, 0, 0]), hmacMd5(key, sequence, message).subarray(0, 8), sequence])
}

/** The server's information as it goes back: where it tells the time, that time is used and a MIC announced (§3.1.5.1.2). */
function answeredInfo(info: Buffer): { readonly time: Buffer; readonly info: Buffer; readonly usesMic: boolean } {
  const kept: Buffer[] = []
  let time: Buffer | undefined
  let flagged = 0
  for (let at = 0; at + 4 <= info.length;) {
    const id = info.readUInt16LE(at)
    const end = at + 4 + info.readUInt16LE(at + 2)
    if (id === pairs.end) break
    if (end > info.length) throw new ProtocolError('the NTLM challenge is cut off')
    const value = info.subarray(at + 4, end)
    if (id === pairs.timestamp && value.length === 8) time = value
    if (id === pairs.flags && value.length === 4) flagged = value.readUInt32LE(0)
    else kept.push(info.subarray(at, end))
    at = end
  }
  const usesMic = time !== undefined
  if (usesMic) flagged |= hasMic
  if (flagged !== 0) {
    const pair = Buffer.alloc(8)
    pair.writeUInt16LE(pairs.flags, 0)
    pair.writeUInt16LE(4, 2)
    pair.writeUInt32LE(flagged >>> 0, 4)
    kept.push(pair)
  }
  const now = Buffer.alloc(8)
  now.writeBigUInt64LE(fileTimeOf(new Date()))
  return { time: time ?? now, info: Buffer.concat([...kept, Buffer.alloc(4)]), usesMic }
}

function hmacMd5(key: Buffer, ...parts: readonly Buffer[]): Buffer {
  const hmac = createHmac('md5', key)
  for (const part of parts) hmac.update(part)
  return hmac.digest()
}
