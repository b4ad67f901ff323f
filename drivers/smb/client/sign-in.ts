/** From a bare connection to a share that can be used: negotiation, sign-in, and the share itself (MS-SMB2 §3.2.4.2). */
import { randomBytes } from 'node:crypto'
import type { Connection } from './connection.js'
import { bytesPerCredit } from './credits.js'
import { allDialects, dialects, type Dialect } from './dialects.js'
import { allCiphers, cipherKeyLength, ciphers, Encryption, type Cipher } from './encryption.js'
import { ConnectionError, ProtocolError, StatusError } from './errors.js'
import { commands, headerLength } from './header.js'
import { PreauthenticationHash, sessionKeys } from './keys.js'
import { parseControl, part, validateNegotiationRequest, type Request } from './messages.js'
import { authenticateMessage, firstSignature, negotiateMessage, type Credentials } from './ntlm.js'
import { Signer, signingAlgorithms, type SigningAlgorithm } from './signing.js'
import { initialToken, mechanisms, responseToken, tokenOf } from './spnego.js'
import { status } from './statuses.js'

export interface SignInOptions {
  readonly credentials: Credentials
  /** `\\server\share` */
  readonly share: string
  /** 'none': only what the server insists on. */
  readonly protection: 'none' | 'signing' | 'encryption'
  /** The dialects to offer, the highest of which the server takes; without it all. */
  readonly dialects?: readonly Dialect[] | undefined
}

/** What both sides have agreed on. */
export interface Agreement {
  readonly dialect: Dialect
  /** undefined: no encryption. */
  readonly cipher: Cipher | undefined
  readonly signing: SigningAlgorithm
  readonly serverSigns: boolean
  /** Largest read and write, in bytes. */
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
/** Bytes of one request: more of them only delay the others, and some servers of 2.1 do not take as many. */
const largestTransfer = 1024 * 1024
const smallTransfer = bytesPerCredit

/** Rejects with a StatusError where the server refuses, with a ConnectionError where it does not answer as it should. */
export async function signIn(connection: Connection, options: SignInOptions): Promise<Agreement> {
  const hash = new PreauthenticationHash()
  connection.onMessage = (message) => hash.update(message)
  const offered = options.dialects ?? allDialects
  const negotiation = negotiationRequest(offered)
  const answer = await connection.ask(negotiation)
  const negotiated = connection.parsed(answer, (message) => parseNegotiation(message, offered))
  const { sessionFlag, encryption } = await startSession(connection, options, negotiated, hash)
  const isNobody = (sessionFlag & (sessionFlags.guest | sessionFlags.anonymous)) !== 0
  // What shows that nobody has changed the negotiation: from 3.1.1 on the keys themselves, before that a signed question.
  if (!isNobody && negotiated.dialect < dialects.smb311) await validateNegotiation(connection, negotiation, answer)
  const shareFlags = await connectShare(connection, options.share)
  const mustEncrypt = (sessionFlag & sessionFlags.encrypts) !== 0 || (shareFlags & shareEncrypts) !== 0
  const encrypts = mustEncrypt || options.protection === 'encryption'
  if (encrypts && encryption === undefined) {
    throw new ConnectionError('protocol', 'the server does not know how to encrypt')
  }
  const signs = !isNobody && (negotiated.serverSigns || options.protection !== 'none')
  connection.protect({ ...connection.protection, signs, encrypts })
  return negotiated
}

// Negotiation (§2.2.3, §2.2.4)

function negotiationRequest(offered: readonly Dialect[]): Request {
  const head = Buffer.alloc(36)
  head.writeUInt16LE(36, 0)
  head.writeUInt16LE(offered.length, 2)
  head.writeUInt16LE(securityMode.signingEnabled, 4)
  head.writeUInt32LE(capabilities.largeMtu | capabilities.encryption, 8)
  randomBytes(16).copy(head, 12) // another one for each connection: servers gather those of one client
  const list = Buffer.alloc(offered.length * 2)
  for (const [index, dialect] of offered.entries()) list.writeUInt16LE(dialect, index * 2)
  if (!offered.includes(dialects.smb311)) return { command: commands.negotiate, body: Buffer.concat([head, list]) }

  const listed = Buffer.concat([head, list])
  const padding = -listed.length & 7 // the header is a multiple of 8 itself
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

function parseNegotiation(message: Buffer, offered: readonly Dialect[]): Agreement {
  const found = message.readUInt16LE(headerLength + 4)
  const dialect = offered.find((each) => each === found)
  if (dialect === undefined) throw new ProtocolError('the server speaks none of the dialects from 2.1 to 3.1.1')
  const serverCapabilities = message.readUInt32LE(headerLength + 24)
  const offersEncryption = (serverCapabilities & capabilities.encryption) !== 0
  const largest = (serverCapabilities & capabilities.largeMtu) !== 0 ? largestTransfer : smallTransfer
  const before311 = dialect < dialects.smb300 ? signingAlgorithms.hmacSha256 : signingAlgorithms.aesCmac
  const chosen =
    dialect === dialects.smb311
      ? parseContexts(message)
      : { cipher: dialect >= dialects.smb300 && offersEncryption ? ciphers.aes128Ccm : undefined, signing: before311 }
  const limit = (offset: number) => {
    const bytes = message.readUInt32LE(headerLength + offset)
    if (bytes < 4096) throw new ProtocolError('the server takes no request of a useful size')
    return Math.min(bytes, largest)
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

function parseContexts(message: Buffer): Pick<Agreement, 'cipher' | 'signing'> {
  let cipher: Cipher | undefined
  let signing: SigningAlgorithm = signingAlgorithms.aesCmac
  let at = message.readUInt32LE(headerLength + 60)
  for (let left = message.readUInt16LE(headerLength + 6); left > 0; left--) {
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

function sessionRequest(token: Buffer): Request {
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
  connection: Connection,
  { credentials }: SignInOptions,
  agreement: Agreement,
  hash: PreauthenticationHash,
): Promise<{ readonly sessionFlag: number; readonly encryption: Encryption | undefined }> {
  const { dialect, cipher, signing } = agreement
  const sent = negotiateMessage()
  const first = await connection.askRaw(sessionRequest(initialToken(sent)))
  if (first.header.status !== status.moreProcessingRequired) throw new StatusError(first.header.status)
  const { sessionId } = first.header
  const received = connection.parsed(first.message, (message) => tokenOf(parseSession(message).token))
  connection.protect({ ...connection.protection, sessionId })
  const { message: proof, sessionKey } = connection.parsed(received, (challenge) =>
    authenticateMessage(credentials, sent, challenge),
  )
  const asked = connection.askRaw(sessionRequest(responseToken(proof, firstSignature(sessionKey, mechanisms))))
  connection.onMessage = undefined // the keys come of all messages up to this one
  const last = await asked
  if (last.header.status !== status.success) throw new StatusError(last.header.status)
  const { flags: sessionFlag } = connection.parsed(last.message, parseSession)
  if ((sessionFlag & (sessionFlags.guest | sessionFlags.anonymous)) !== 0) {
    if (credentials.password !== '') throw new StatusError(status.logonFailure)
    return { sessionFlag, encryption: undefined }
  }
  const keys = sessionKeys(dialect, sessionKey, hash.value, cipher === undefined ? 16 : cipherKeyLength(cipher))
  const signer = new Signer(signing, keys.signing)
  if (last.header.isSigned ? !signer.verify(last.message) : dialect === dialects.smb311) {
    const fault = new ProtocolError('somebody has changed the sign-in on its way')
    connection.break(fault)
    throw fault
  }
  const encryption = cipher === undefined ? undefined : new Encryption(cipher, keys, sessionId)
  const encrypts = (sessionFlag & sessionFlags.encrypts) !== 0
  if (encrypts && encryption === undefined) throw new ProtocolError('the server encrypts in a way that is not known')
  connection.protect({ sessionId, signer, signs: true, encryption, encrypts })
  return { sessionFlag, encryption }
}

/** Asks again what the negotiation said, signed now (§3.2.5.5). Some servers do not know the question, and say so, signed. */
async function validateNegotiation(connection: Connection, { body }: Request, answer: Buffer): Promise<void> {
  // Capabilities, client, security mode, dialects: what was sent.
  const offered = body.subarray(36, 36 + body.readUInt16LE(2) * 2)
  const asked = Buffer.concat([body.subarray(8, 28), body.subarray(4, 6), body.subarray(2, 4), offered])
  const told = await connection.asking(validateNegotiationRequest(asked), parseControl).catch((error: unknown) => {
    if (error instanceof StatusError) return undefined
    throw error
  })
  if (told === undefined) return
  const at = (offset: number, length: number) => answer.subarray(headerLength + offset, headerLength + offset + length)
  const expected = Buffer.concat([at(24, 4), at(8, 16), at(2, 2), at(4, 2)])
  if (!told.equals(expected)) {
    const fault = new ProtocolError('somebody has changed the negotiation on its way')
    connection.break(fault)
    throw fault
  }
}

// Share (§2.2.9, §2.2.10)

/** Resolves to the flags of the share. */
async function connectShare(connection: Connection, share: string): Promise<number> {
  const path = Buffer.from(share, 'utf16le')
  const body = Buffer.alloc(8 + path.length)
  body.writeUInt16LE(9, 0)
  body.writeUInt16LE(headerLength + 8, 4)
  body.writeUInt16LE(path.length, 6)
  path.copy(body, 8)
  const { header, message } = await connection.askRaw({ command: commands.treeConnect, body })
  if (header.status !== status.success) throw new StatusError(header.status)
  connection.treeId = header.treeId
  return connection.parsed(message, (answer) => answer.readUInt32LE(headerLength + 4))
}
