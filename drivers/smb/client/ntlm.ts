/** NTLMv2 authentication (MS-NLMP): its three messages and the session key. */
import { createHash, createHmac, randomBytes } from 'node:crypto'
import { ProtocolError } from './errors.js'
import { md4 } from './md4.js'
import { fileTimeOf } from './messages.js'

export interface NtlmCredentials {
  readonly username: string
  /** Empty for a local account of the server. */
  readonly domain: string
  readonly password: string
}

/**
 * NEGOTIATE (§2.2.2.5): Unicode, request target, sign, NTLM, always sign, extended session security, target info,
 * version, 128 and 56 bits.
 */
const flags = 0xa2888215
const signature = Buffer.from('NTLMSSP\0', 'latin1')
/** Windows 10, NTLMSSP revision 15 (§2.2.2.10). Messages with a MIC must include a version. */
const version = Buffer.from([10, 0, 0, 0, 0, 0, 0, 15])

/** Ids of the AV pairs in the target info (§2.2.2.1). */
const avIds = { end: 0, flags: 6, timestamp: 7 } as const
/** In the AV pair `flags`: the AUTHENTICATE message contains a MIC. */
const hasMic = 0x2

/** The NEGOTIATE message (§2.2.1.1). */
export function negotiateMessage(): Buffer {
  const message = Buffer.alloc(40)
  signature.copy(message)
  message.writeUInt32LE(1, 8)
  message.writeUInt32LE(flags, 12)
  version.copy(message, 32)
  return message
}

interface Challenge {
  readonly serverChallenge: Buffer
  readonly targetInfo: Buffer
}

/** Parses the CHALLENGE message (§2.2.1.2). Throws a ProtocolError if it is malformed. */
export function parseChallenge(message: Buffer): Challenge {
  if (message.length < 48 || !message.subarray(0, 8).equals(signature) || message.readUInt32LE(8) !== 2) {
    throw new ProtocolError('malformed NTLM challenge')
  }
  const length = message.readUInt16LE(40)
  const offset = message.readUInt32LE(44)
  if (offset + length > message.length) throw new ProtocolError('truncated NTLM challenge')
  return { serverChallenge: message.subarray(24, 32), targetInfo: message.subarray(offset, offset + length) }
}

/** NTOWFv2 (§3.3.2). */
export function responseKey({ username, domain, password }: NtlmCredentials): Buffer {
  return hmacMd5(md4(Buffer.from(password, 'utf16le')), Buffer.from(username.toUpperCase() + domain, 'utf16le'))
}

/** The response to a challenge, and the session key (§3.3.2). */
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

/**
 * The AUTHENTICATE message (§2.2.1.3) and the session key. The MIC covers `sent` (NEGOTIATE) and `received`
 * (CHALLENGE).
 */
export function authenticateMessage(
  credentials: NtlmCredentials,
  sent: Buffer,
  received: Buffer,
): { readonly message: Buffer; readonly sessionKey: Buffer } {
  const { serverChallenge, targetInfo } = parseChallenge(received)
  const { time, info, usesMic } = clientTargetInfo(targetInfo)
  const key = responseKey(credentials)
  const { response, sessionKey } = ntlmV2Response(key, serverChallenge, randomBytes(8), time, info)
  const fields = [
    Buffer.alloc(24), // LM response: zero, as required if the server sends a timestamp
    response,
    Buffer.from(credentials.domain, 'utf16le'),
    Buffer.from(credentials.username, 'utf16le'),
    Buffer.alloc(0), // workstation name
    Buffer.alloc(0), // encrypted session key: none without key exchange
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
 * Signature of the client's first signed message (§3.4.4.2), without key exchange. SPNEGO requires it over the
 * mechanism list if the AUTHENTICATE message has a MIC.
 */
export function firstSignature(sessionKey: Buffer, message: Buffer): Buffer {
  const purpose = 'session key to client-to-server signing key magic constant\0'
  const key = createHash('md5').update(sessionKey).update(purpose, 'latin1').digest()
  const sequence = Buffer.alloc(4)
  return Buffer.concat([Buffer.from([1, 0, 0, 0]), hmacMd5(key, sequence, message).subarray(0, 8), sequence])
}

/** The target info to send back (§3.1.5.1.2). If the server sent a timestamp, it is used and a MIC is announced. */
function clientTargetInfo(info: Buffer): { readonly time: Buffer; readonly info: Buffer; readonly usesMic: boolean } {
  const avPairs: Buffer[] = []
  let time: Buffer | undefined
  let avFlags = 0
  for (let at = 0; at + 4 <= info.length;) {
    const id = info.readUInt16LE(at)
    const end = at + 4 + info.readUInt16LE(at + 2)
    if (id === avIds.end) break
    if (end > info.length) throw new ProtocolError('truncated NTLM challenge')
    const value = info.subarray(at + 4, end)
    if (id === avIds.timestamp && value.length === 8) time = value
    if (id === avIds.flags && value.length === 4) avFlags = value.readUInt32LE(0)
    else avPairs.push(info.subarray(at, end))
    at = end
  }
  const usesMic = time !== undefined
  if (usesMic) avFlags |= hasMic
  if (avFlags !== 0) {
    const pair = Buffer.alloc(8)
    pair.writeUInt16LE(avIds.flags, 0)
    pair.writeUInt16LE(4, 2)
    pair.writeUInt32LE(avFlags >>> 0, 4)
    avPairs.push(pair)
  }
  const now = Buffer.alloc(8)
  now.writeBigUInt64LE(fileTimeOf(new Date()))
  return { time: time ?? now, info: Buffer.concat([...avPairs, Buffer.alloc(4)]), usesMic }
}

function hmacMd5(key: Buffer, ...parts: readonly Buffer[]): Buffer {
  const hmac = createHmac('md5', key)
  for (const part of parts) hmac.update(part)
  return hmac.digest()
}
