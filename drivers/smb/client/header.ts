/** The packet header (MS-SMB2 §2.2.1). */
import { ProtocolError } from './errors.js'

export const headerLength = 64
export const signatureOffset = 48
const protocol = 0x424d53fe

export const commands = {
  negotiate: 0x0,
  sessionSetup: 0x1,
  treeConnect: 0x3,
  create: 0x5,
  close: 0x6,
  flush: 0x7,
  read: 0x8,
  write: 0x9,
  control: 0xb,
  echo: 0xd,
  queryDirectory: 0xe,
  queryInfo: 0x10,
  setInfo: 0x11,
} as const
export type SmbCommand = (typeof commands)[keyof typeof commands]

const flags = { response: 0x1, async: 0x2, related: 0x4, signed: 0x8 } as const

interface RequestHeader {
  readonly command: SmbCommand
  readonly charge: number
  readonly credits: number
  readonly messageId: number
  readonly treeId: number
  readonly sessionId: bigint
  readonly isRelated: boolean
  readonly isSigned: boolean
  /** Offset of the next message of the compound; 0 for the last. */
  readonly next: number
}

/** Writes the header to the first 64 bytes of `into`, which must be zero. */
export function writeHeader(into: Buffer, header: RequestHeader): void {
  into.writeUInt32LE(protocol, 0)
  into.writeUInt16LE(headerLength, 4)
  into.writeUInt16LE(header.charge, 6)
  into.writeUInt16LE(header.command, 12)
  into.writeUInt16LE(header.credits, 14)
  into.writeUInt32LE((header.isRelated ? flags.related : 0) | (header.isSigned ? flags.signed : 0), 16)
  into.writeUInt32LE(header.next, 20)
  into.writeBigUInt64LE(BigInt(header.messageId), 24)
  into.writeUInt32LE(header.treeId, 36)
  into.writeBigUInt64LE(header.sessionId, 40)
}

export interface ResponseHeader {
  readonly status: number
  readonly command: number
  /** Credits granted. */
  readonly credits: number
  readonly isSigned: boolean
  /** An interim response, or the final response after one. */
  readonly isAsync: boolean
  readonly next: number
  readonly messageId: bigint
  readonly sessionId: bigint
  /** The id of the tree; 0 in an asynchronous response. */
  readonly treeId: number
}

export function readHeader(message: Buffer): ResponseHeader {
  if (message.length < headerLength || message.readUInt32LE(0) !== protocol) {
    throw new ProtocolError('the server does not use SMB2')
  }
  const responseFlags = message.readUInt32LE(16)
  if ((responseFlags & flags.response) === 0) throw new ProtocolError('the server sent a request')
  const isAsync = (responseFlags & flags.async) !== 0
  return {
    status: message.readUInt32LE(8),
    command: message.readUInt16LE(12),
    credits: message.readUInt16LE(14),
    isSigned: (responseFlags & flags.signed) !== 0,
    isAsync,
    next: message.readUInt32LE(20),
    messageId: message.readBigUInt64LE(24),
    sessionId: message.readBigUInt64LE(40),
    treeId: isAsync ? 0 : message.readUInt32LE(36),
  }
}
