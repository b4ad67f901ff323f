/** Connecting to a share: NEGOTIATE, SESSION_SETUP and TREE_CONNECT (MS-SMB2 §3.2.4.2). */
import { randomBytes } from 'node:crypto'
import type { SmbConnection } from './connection.js'
import { bytesPerCredit } from './credits.js'
import { allCiphers, cipherKeyLength, ciphers, MessageEncryption, type Cipher } from './encryption.js'
import { ConnectionError, ProtocolError, StatusError, status } from './errors.js'
import { commands, headerLength } from './header.js'
import { allDialects, dialects, PreauthenticationHash, sessionKeys, type Dialect } from './keys.js'
import { parseControl, part, validateNegotiationRequest, type SmbRequest } from './messages.js'
import { authenticateMessage, firstSignature, negotiateMessage, type NtlmCredentials } from './ntlm.js'
import { Signer, signingAlgorithms, type SigningAlgorithm } from './signing.js'
import { initialToken, mechanisms, responseToken, tokenOf } from './spnego.js'

export interface SmbSignInOptions {
  readonly credentials: NtlmCredentials
  /** `\\server\share` */
  readonly share: string
  /** 'none': sign and encrypt only if the server requires it. */
  readonly protection: 'none' | 'signing' | 'encryption'
  /** The dialects to offer; the server selects the highest that it supports. Default: all. */
  readonly dialects?: readonly Dialect[] | undefined
}

/** The negotiated parameters. */
export interface NegotiatedParameters {
  readonly dialect: Dialect
  /** undefined: no encryption. */
  readonly cipher: Cipher | undefined
  readonly signing: SigningAlgorithm
  readonly serverSigns: boolean
  /** Maximum size of a read and of a write, in bytes. */
  readonly maxRead: number
  readonly maxWrite: number
  readonly maxTransact: number
}

const securityMode = { signingEnabled: 1, signingRequired: 2 } as const
const capabilities = { largeMtu: 0x4, encryption: 0x40 } as const
const contexts = { preauthentication: 1, encryption: 2, signing: 8 } as const
const sha512 = 1
const sessionFlags = { guest: 0x1, anonymous: 0x2, encrypts: 0x4 } as const
const shareEncrypts = 0x8000
/**
 * Maximum payload of a request, in bytes. A larger one only delays concurrent requests, and some servers with dialect
 * 2.1 reject it.
 */
const maxTransferSize = 1024 * 1024
const smallTransferSize = bytesPerCredit

/**
 * Rejects with a StatusError if the server refuses, and with a ConnectionError if the connection or the protocol fails.
 */
export async function signIn(connection: SmbConnection, options: SmbSignInOptions): Promise<NegotiatedParameters> {
  const hash = new PreauthenticationHash()
  connection.onMessage = (message) => hash.update(message)
  const offered = options.dialects ?? allDialects
  const negotiation = negotiationRequest(offered)
  const answer = await connection.request(negotiation)
  const negotiated = connection.parseOrBreak(answer, (message) => parseNegotiation(message, offered))
  const { sessionFlag, encryption } = await startSession(connection, options, negotiated, hash)
  const isUnauthenticated = (sessionFlag & (sessionFlags.guest | sessionFlags.anonymous)) !== 0
  // Protects the negotiation against modification. In 3.1.1 the derivation of the keys does that.
  if (!isUnauthenticated && negotiated.dialect < dialects.smb311)
    await validateNegotiation(connection, negotiation, answer)
  const shareFlags = await connectShare(connection, options.share)
  const mustEncrypt = (sessionFlag & sessionFlags.encrypts) !== 0 || (shareFlags & shareEncrypts) !== 0
  const encrypts = mustEncrypt || options.protection === 'encryption'
  if (encrypts && encryption === undefined) {
    throw new ConnectionError('protocol', 'the server does not support encryption')
  }
  const signs = !isUnauthenticated && (negotiated.serverSigns || options.protection !== 'none')
  connection.protect({ ...connection.protection, signs, encrypts })
  return negotiated
}

// Negotiation (§2.2.3, §2.2.4)

function negotiationRequest(offered: readonly Dialect[]): SmbRequest {
  const head = Buffer.alloc(36)
  head.writeUInt16LE(36, 0)
  head.writeUInt16LE(offered.length, 2)
  head.writeUInt16LE(securityMode.signingEnabled, 4)
  head.writeUInt32LE(capabilities.largeMtu | capabilities.encryption, 8)
  randomBytes(16).copy(head, 12) // client GUID: new for each connection, as servers group connections by it
  const list = Buffer.alloc(offered.length * 2)
  for (const [index, dialect] of offered.entries()) list.writeUInt16LE(dialect, index * 2)
  if (!offered.includes(dialects.smb311)) return { command: commands.negotiate, body: Buffer.concat([head, list]) }

  const listed = Buffer.concat([head, list])
  const padding = -listed.length & 7 // the header length is a multiple of 8
  head.writeUInt32LE(headerLength + listed.length + padding, 28)
  head.writeUInt16LE(3, 32)
  const body = Buffer.concat([
    head,
    list,
    Buffer.alloc(padding),
    context(contexts.preauthentication, words(1, 32, sha512), randomBytes(32)),
    context(contexts.encryption, words(allCiphers.length, ...allCiphers)),
    context(contexts.signing, words(2, signingAlgorithms.aesGmac, signingAlgorithms.aesCmac)),
  ])
  return { command: commands.negotiate, body }
}

function words(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 2)
  for (const [index, value] of values.entries()) bytes.writeUInt16LE(value, index * 2)
  return bytes
}

function context(type: number, ...parts: readonly Buffer[]): Buffer {
  const data = Buffer.concat(parts)
  const head = Buffer.alloc(8)
  head.writeUInt16LE(type, 0)
  head.writeUInt16LE(data.length, 2)
  return Buffer.concat([head, data, Buffer.alloc(-data.length & 7)])
}

function parseNegotiation(message: Buffer, offered: readonly Dialect[]): NegotiatedParameters {
  const selected = message.readUInt16LE(headerLength + 4)
  const dialect = offered.find((each) => each === selected)
  if (dialect === undefined) throw new ProtocolError('the server supports no dialect from 2.1 to 3.1.1')
  const serverCapabilities = message.readUInt32LE(headerLength + 24)
  const offersEncryption = (serverCapabilities & capabilities.encryption) !== 0
  const maxSize = (serverCapabilities & capabilities.largeMtu) !== 0 ? maxTransferSize : smallTransferSize
  const defaultSigning = dialect < dialects.smb300 ? signingAlgorithms.hmacSha256 : signingAlgorithms.aesCmac
  const chosen =
    dialect === dialects.smb311
      ? parseContexts(message)
      : {
          cipher: dialect >= dialects.smb300 && offersEncryption ? ciphers.aes128Ccm : undefined,
          signing: defaultSigning,
        }
  const limit = (offset: number) => {
    const bytes = message.readUInt32LE(headerLength + offset)
    if (bytes < 4096) throw new ProtocolError('the maximum request size of the server is too small')
    return Math.min(bytes, maxSize)
  }
  return {
    dialect,
    ...chosen,
    serverSigns: (message.readUInt8(headerLength + 2) & securityMode.signingRequired) !== 0,
    maxTransact: limit(28),
    maxRead: limit(32),
    maxWrite: limit(36),
  }
}

function parseContexts(message: Buffer): Pick<NegotiatedParameters, 'cipher' | 'signing'> {
  let cipher: Cipher | undefined
  let signing: SigningAlgorithm = signingAlgorithms.aesCmac
  let at = message.readUInt32LE(headerLength + 60)
  for (let remaining = message.readUInt16LE(headerLength + 6); remaining > 0; remaining--) {
    const data = part(message, at + 8, message.readUInt16LE(at + 2))
    const type = message.readUInt16LE(at)
    if (type === contexts.encryption) cipher = allCiphers.find((each) => each === data.readUInt16LE(2))
    if (type === contexts.signing && data.readUInt16LE(2) === signingAlgorithms.aesGmac) {
      signing = signingAlgorithms.aesGmac
    }
    at += (8 + data.length + 7) & ~7
  }
  return { cipher, signing }
}

// Session (§2.2.5, §2.2.6)

function sessionRequest(token: Buffer): SmbRequest {
  const body = Buffer.alloc(24 + token.length)
  body.writeUInt16LE(25, 0)
  body.writeUInt8(securityMode.signingEnabled, 3)
  body.writeUInt16LE(headerLength + 24, 12)
  body.writeUInt16LE(token.length, 14)
  token.copy(body, 24)
  return { command: commands.sessionSetup, body }
}

function parseSession(message: Buffer): { readonly flags: number; readonly token: Buffer } {
  const token = part(message, message.readUInt16LE(headerLength + 4), message.readUInt16LE(headerLength + 6))
  return { flags: message.readUInt16LE(headerLength + 2), token }
}

async function startSession(
  connection: SmbConnection,
  { credentials }: SmbSignInOptions,
  agreement: NegotiatedParameters,
  hash: PreauthenticationHash,
): Promise<{ readonly sessionFlag: number; readonly encryption: MessageEncryption | undefined }> {
  const { dialect, cipher, signing } = agreement
  const sent = negotiateMessage()
  const first = await connection.requestRaw(sessionRequest(initialToken(sent)))
  if (first.header.status !== status.moreProcessingRequired) throw new StatusError(first.header.status)
  const { sessionId } = first.header
  const received = connection.parseOrBreak(first.message, (message) => tokenOf(parseSession(message).token))
  connection.protect({ ...connection.protection, sessionId })
  const { message: proof, sessionKey } = connection.parseOrBreak(received, (challenge) =>
    authenticateMessage(credentials, sent, challenge),
  )
  const response = connection.requestRaw(sessionRequest(responseToken(proof, firstSignature(sessionKey, mechanisms))))
  connection.onMessage = undefined // the keys depend on all messages up to this one
  const last = await response
  if (last.header.status !== status.success) throw new StatusError(last.header.status)
  const { flags: sessionFlag } = connection.parseOrBreak(last.message, parseSession)
  if ((sessionFlag & (sessionFlags.guest | sessionFlags.anonymous)) !== 0) {
    if (credentials.password !== '') throw new StatusError(status.logonFailure)
    return { sessionFlag, encryption: undefined }
  }
  const keys = sessionKeys(dialect, sessionKey, hash.value, cipher === undefined ? 16 : cipherKeyLength(cipher))
  const signer = new Signer(signing, keys.signing)
  if (last.header.isSigned ? !signer.verify(last.message) : dialect === dialects.smb311) {
    const fault = new ProtocolError('the session setup failed authentication')
    connection.break(fault)
    throw fault
  }
  const encryption = cipher === undefined ? undefined : new MessageEncryption(cipher, keys, sessionId)
  const encrypts = (sessionFlag & sessionFlags.encrypts) !== 0
  if (encrypts && encryption === undefined) throw new ProtocolError('the server requires an unsupported cipher')
  connection.protect({ sessionId, signer, signs: true, encryption, encrypts })
  return { sessionFlag, encryption }
}

/**
 * Validates the negotiation with a signed request (§3.2.5.5). Some servers do not implement it, and say so in a signed
 * response.
 */
async function validateNegotiation(connection: SmbConnection, { body }: SmbRequest, answer: Buffer): Promise<void> {
  // Capabilities, client GUID, security mode and dialects, as sent.
  const offered = body.subarray(36, 36 + body.readUInt16LE(2) * 2)
  const input = Buffer.concat([body.subarray(8, 28), body.subarray(4, 6), body.subarray(2, 4), offered])
  const output = await connection
    .requestParsed(validateNegotiationRequest(input), parseControl)
    .catch((error: unknown) => {
      if (error instanceof StatusError) return undefined
      throw error
    })
  if (output === undefined) return
  const at = (offset: number, length: number) => answer.subarray(headerLength + offset, headerLength + offset + length)
  const expected = Buffer.concat([at(24, 4), at(8, 16), at(2, 2), at(4, 2)])
  if (!output.equals(expected)) {
    const fault = new ProtocolError('the negotiation was modified in transit')
    connection.break(fault)
    throw fault
  }
}

// Share (§2.2.9, §2.2.10)

/** Connects to the tree. Resolves to the flags of the share. */
async function connectShare(connection: SmbConnection, share: string): Promise<number> {
  const path = Buffer.from(share, 'utf16le')
  const body = Buffer.alloc(8 + path.length)
  body.writeUInt16LE(9, 0)
  body.writeUInt16LE(headerLength + 8, 4)
  body.writeUInt16LE(path.length, 6)
  path.copy(body, 8)
  const { header, message } = await connection.requestRaw({ command: commands.treeConnect, body })
  if (header.status !== status.success) throw new StatusError(header.status)
  connection.treeId = header.treeId
  return connection.parseOrBreak(message, (answer) => answer.readUInt32LE(headerLength + 4))
}
