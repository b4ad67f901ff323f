/**
 * Encodes requests and parses responses for files (MS-SMB2 §2.2.13 to §2.2.40). Paths and patterns are in wire form.
 */
import { ProtocolError } from './errors.js'
import { commands, headerLength, type SmbCommand } from './header.js'

/** A request without its header. */
export interface SmbRequest {
  readonly command: SmbCommand
  readonly body: Buffer
  /** Data after the body, sent without a copy. */
  readonly data?: readonly Buffer[]
  /** Payload bytes in the larger direction, which determine the credit charge. */
  readonly payloadSize?: number
}

export type FileId = Buffer
/** In a compound: the file that the previous request opened. */
export const relatedFileId: FileId = Buffer.alloc(16, 0xff)

/** Access mask (§2.2.13.1). */
export const access = {
  readData: 0x1,
  writeData: 0x2,
  readAttributes: 0x80,
  writeAttributes: 0x100,
  delete: 0x10000,
  synchronize: 0x100000,
} as const

export const disposition = { open: 1, create: 2 } as const

export const createOptions = { directory: 0x1, notDirectory: 0x40, openReparsePoint: 0x200000 } as const

/** Share access: other clients may read, write and delete the file. */
const shareAll = 0x7
const impersonation = 2

export interface CreateRequest {
  readonly path: string
  readonly access: number
  readonly disposition: (typeof disposition)[keyof typeof disposition]
  readonly options: number
}

export function createRequest(request: CreateRequest): SmbRequest {
  const name = Buffer.from(request.path, 'utf16le')
  // The name buffer must contain at least one byte.
  const body = Buffer.alloc(56 + Math.max(name.length, 1))
  body.writeUInt16LE(57, 0)
  body.writeUInt32LE(impersonation, 4)
  body.writeUInt32LE(request.access, 24)
  body.writeUInt32LE(shareAll, 32)
  body.writeUInt32LE(request.disposition, 36)
  body.writeUInt32LE(request.options, 40)
  body.writeUInt16LE(headerLength + 56, 44)
  body.writeUInt16LE(name.length, 46)
  name.copy(body, 56)
  return { command: commands.create, body }
}

export interface OpenResult {
  readonly id: FileId
  readonly size: number
  readonly isFolder: boolean
}

export function parseCreate(answer: Buffer): OpenResult {
  return {
    id: Buffer.from(part(answer, headerLength + 64, 16)),
    size: sizeAt(answer, headerLength + 48),
    isFolder: (answer.readUInt32LE(headerLength + 56) & attributes.directory) !== 0,
  }
}

export function closeRequest(id: FileId): SmbRequest {
  const body = Buffer.alloc(24)
  body.writeUInt16LE(24, 0)
  id.copy(body, 8)
  return { command: commands.close, body }
}

export function flushRequest(id: FileId): SmbRequest {
  const body = Buffer.alloc(24)
  body.writeUInt16LE(24, 0)
  id.copy(body, 8)
  return { command: commands.flush, body }
}

export function echoRequest(): SmbRequest {
  return { command: commands.echo, body: Buffer.from([4, 0, 0, 0]) }
}

export function readRequest(id: FileId, position: number, length: number): SmbRequest {
  const body = Buffer.alloc(49)
  body.writeUInt16LE(49, 0)
  body.writeUInt8(headerLength + 16, 2) // requested offset of the data in the response
  body.writeUInt32LE(length, 4)
  body.writeBigUInt64LE(BigInt(position), 8)
  id.copy(body, 16)
  return { command: commands.read, body, payloadSize: length }
}

/** The data as a view of `answer`, not a copy. */
export function parseRead(answer: Buffer): Buffer {
  return part(answer, answer.readUInt8(headerLength + 2), answer.readUInt32LE(headerLength + 4))
}

export function writeRequest(id: FileId, position: number, data: readonly Buffer[]): SmbRequest {
  const length = data.reduce((sum, { length }) => sum + length, 0)
  const body = Buffer.alloc(48)
  body.writeUInt16LE(49, 0)
  body.writeUInt16LE(headerLength + 48, 2)
  body.writeUInt32LE(length, 4)
  body.writeBigUInt64LE(BigInt(position), 8)
  id.copy(body, 16)
  return { command: commands.write, body, data, payloadSize: length }
}

/** The number of bytes written. */
export function parseWrite(answer: Buffer): number {
  return answer.readUInt32LE(headerLength + 4)
}

// Folders

const idBothDirectoryInformation = 37
const restartScan = 0x1

export function queryDirectoryRequest(id: FileId, pattern: string, size: number, restart = false): SmbRequest {
  const name = Buffer.from(pattern, 'utf16le')
  const body = Buffer.alloc(32 + name.length)
  body.writeUInt16LE(33, 0)
  body.writeUInt8(idBothDirectoryInformation, 2)
  body.writeUInt8(restart ? restartScan : 0, 3)
  id.copy(body, 8)
  body.writeUInt16LE(headerLength + 32, 24)
  body.writeUInt16LE(name.length, 26)
  body.writeUInt32LE(size, 28)
  name.copy(body, 32)
  return { command: commands.queryDirectory, body, payloadSize: size }
}

/** File attributes (MS-FSCC §2.6). */
export const attributes = { readOnly: 0x1, directory: 0x10, normal: 0x80, reparsePoint: 0x400 } as const

/** The attributes of a file as the server reports them. */
export interface FileFacts {
  /** The name in the server's spelling. */
  readonly name: string
  readonly size: number
  readonly attributes: number
  /** The reparse tag; 0 if it is not a reparse point. */
  readonly reparseTag: number
  readonly created: Date
  readonly modified: Date
  /** FILETIME of the last change of content or metadata, and of the last write. */
  readonly changed: bigint
  readonly written: bigint
  /** File id, unique on the volume; 0 if the server does not support file ids. */
  readonly index: bigint
}

/** FileIdBothDirectoryInformation (MS-FSCC §2.4.21). */
export function parseDirectory(answer: Buffer): FileFacts[] {
  const list = part(answer, answer.readUInt16LE(headerLength + 2), answer.readUInt32LE(headerLength + 4))
  const entries: FileFacts[] = []
  for (let at = 0; at < list.length;) {
    const next = list.readUInt32LE(at)
    const eaSizeOrTag = list.readUInt32LE(at + 64)
    const isReparsePoint = (list.readUInt32LE(at + 56) & attributes.reparsePoint) !== 0
    entries.push({
      name: part(list, at + 104, list.readUInt32LE(at + 60)).toString('utf16le'),
      size: sizeAt(list, at + 40),
      attributes: list.readUInt32LE(at + 56),
      reparseTag: isReparsePoint ? eaSizeOrTag : 0,
      created: dateOf(list.readBigUInt64LE(at + 8)),
      modified: dateOf(list.readBigUInt64LE(at + 24)),
      written: list.readBigUInt64LE(at + 24),
      changed: list.readBigUInt64LE(at + 32),
      index: list.readBigUInt64LE(at + 96),
    })
    if (next === 0) break
    if (next < 104) throw new ProtocolError('invalid offset in a directory listing')
    at += next
  }
  return entries
}

// Information

const infoTypes = { file: 1, fileSystem: 2 } as const
const fileAllInformation = 18
const fileBasicInformation = 4
const fileRenameInformation = 10
const fileDispositionInformation = 13
const fileEndOfFileInformation = 20
const fileAttributeTagInformation = 35
const fileFsFullSizeInformation = 7

function queryInfoRequest(id: FileId, type: number, kind: number, size: number): SmbRequest {
  const body = Buffer.alloc(41)
  body.writeUInt16LE(41, 0)
  body.writeUInt8(type, 2)
  body.writeUInt8(kind, 3)
  body.writeUInt32LE(size, 4)
  body.writeUInt16LE(headerLength + 40, 8)
  id.copy(body, 24)
  return { command: commands.queryInfo, body, payloadSize: size }
}

export function queryFileRequest(id: FileId): SmbRequest {
  return queryInfoRequest(id, infoTypes.file, fileAllInformation, 4096)
}

/** FileAllInformation (MS-FSCC §2.4.2). `name` is the last segment of the path; `reparseTag` is always 0. */
export function parseFile(answer: Buffer): FileFacts {
  const info = part(answer, answer.readUInt16LE(headerLength + 2), answer.readUInt32LE(headerLength + 4))
  const path = info.subarray(100, 100 + info.readUInt32LE(96)).toString('utf16le')
  return {
    name: path.slice(path.lastIndexOf('\\') + 1),
    size: sizeAt(info, 48),
    attributes: info.readUInt32LE(32),
    reparseTag: 0,
    created: dateOf(info.readBigUInt64LE(0)),
    modified: dateOf(info.readBigUInt64LE(16)),
    written: info.readBigUInt64LE(16),
    changed: info.readBigUInt64LE(24),
    index: info.readBigUInt64LE(64),
  }
}

export function queryTagRequest(id: FileId): SmbRequest {
  return queryInfoRequest(id, infoTypes.file, fileAttributeTagInformation, 8)
}

/** The reparse tag of FileAttributeTagInformation (MS-FSCC §2.4.6). */
export function parseTag(answer: Buffer): number {
  return part(answer, answer.readUInt16LE(headerLength + 2), answer.readUInt32LE(headerLength + 4)).readUInt32LE(4)
}

export function querySpaceRequest(id: FileId): SmbRequest {
  return queryInfoRequest(id, infoTypes.fileSystem, fileFsFullSizeInformation, 64)
}

/**
 * Sizes of a volume in bytes. `available`: free bytes within the quota of the account. `free`: free bytes of the
 * volume.
 */
export interface Space {
  readonly total: number
  readonly available: number
  readonly free: number
}

/** FileFsFullSizeInformation (MS-FSCC §2.5.4). */
export function parseSpace(answer: Buffer): Space {
  const info = part(answer, answer.readUInt16LE(headerLength + 2), answer.readUInt32LE(headerLength + 4))
  const unit = info.readUInt32LE(24) * info.readUInt32LE(28)
  const bytes = (at: number) => Number(info.readBigInt64LE(at)) * unit
  return { total: bytes(0), available: bytes(8), free: bytes(16) }
}

function setInfoRequest(id: FileId, kind: number, info: Buffer): SmbRequest {
  const body = Buffer.alloc(32 + info.length)
  body.writeUInt16LE(33, 0)
  body.writeUInt8(infoTypes.file, 2)
  body.writeUInt8(kind, 3)
  body.writeUInt32LE(info.length, 4)
  body.writeUInt16LE(headerLength + 32, 8)
  id.copy(body, 16)
  info.copy(body, 32)
  return { command: commands.setInfo, body }
}

/** With `replaces`, an existing file named `to` is replaced. Otherwise the request fails if the name exists. */
export function renameRequest(id: FileId, to: string, replaces: boolean): SmbRequest {
  const name = Buffer.from(to, 'utf16le')
  const info = Buffer.alloc(20 + name.length)
  info.writeUInt8(replaces ? 1 : 0, 0)
  info.writeUInt32LE(name.length, 16)
  name.copy(info, 20)
  return setInfoRequest(id, fileRenameInformation, info)
}

/** Sets or clears delete-on-close. */
export function deleteOnCloseRequest(id: FileId, deleteOnClose: boolean): SmbRequest {
  return setInfoRequest(id, fileDispositionInformation, Buffer.from([deleteOnClose ? 1 : 0]))
}

export function truncateRequest(id: FileId, size: number): SmbRequest {
  const info = Buffer.alloc(8)
  info.writeBigUInt64LE(BigInt(size))
  return setInfoRequest(id, fileEndOfFileInformation, info)
}

/** Sets the time of the last write; other attributes are unchanged. */
export function setModifiedRequest(id: FileId, modified: Date): SmbRequest {
  const info = Buffer.alloc(40)
  info.writeBigUInt64LE(fileTimeOf(modified), 16)
  return setInfoRequest(id, fileBasicInformation, info)
}

// IOCTL: server-side copy (§2.2.31.1, §2.2.32.1, §2.2.32.3) and validation of the negotiation (§2.2.31.4)

const controlCodes = { copyKey: 0x00140078, copyChunks: 0x001480f2, validateNegotiation: 0x00140204 } as const

function controlRequest(id: FileId, code: number, input: Buffer, outputSize: number): SmbRequest {
  const body = Buffer.alloc(56 + Math.max(input.length, 1))
  body.writeUInt16LE(57, 0)
  body.writeUInt32LE(code, 4)
  id.copy(body, 8)
  body.writeUInt32LE(headerLength + 56, 24)
  body.writeUInt32LE(input.length, 28)
  body.writeUInt32LE(outputSize, 44)
  body.writeUInt32LE(1, 48) // SMB2_0_IOCTL_IS_FSCTL
  input.copy(body, 56)
  return { command: commands.control, body, payloadSize: Math.max(input.length, outputSize) }
}

/** The output of an IOCTL. */
export function parseControl(answer: Buffer): Buffer {
  return part(answer, answer.readUInt32LE(headerLength + 32), answer.readUInt32LE(headerLength + 36))
}

/** FSCTL_SRV_REQUEST_RESUME_KEY. The output starts with the 24-byte key that `copyChunksRequest` takes. */
export function copyKeyRequest(source: FileId): SmbRequest {
  return controlRequest(source, controlCodes.copyKey, Buffer.alloc(0), 32)
}

interface Chunk {
  readonly position: number
  readonly length: number
}

/** FSCTL_SRV_COPYCHUNK_WRITE. Each chunk has the same position in source and target. */
export function copyChunksRequest(target: FileId, sourceKey: Buffer, chunks: readonly Chunk[]): SmbRequest {
  const input = Buffer.alloc(32 + chunks.length * 24)
  sourceKey.copy(input, 0, 0, 24)
  input.writeUInt32LE(chunks.length, 24)
  for (const [index, { position, length }] of chunks.entries()) {
    const at = 32 + index * 24
    input.writeBigUInt64LE(BigInt(position), at)
    input.writeBigUInt64LE(BigInt(position), at + 8)
    input.writeUInt32LE(length, at + 16)
  }
  return controlRequest(target, controlCodes.copyChunks, input, 12)
}

/** FSCTL_VALIDATE_NEGOTIATE_INFO. */
export function validateNegotiationRequest(negotiated: Buffer): SmbRequest {
  return controlRequest(relatedFileId, controlCodes.validateNegotiation, negotiated, 24)
}

/** A slice of a response. Throws a ProtocolError if it is out of bounds. */
export function part(message: Buffer, offset: number, length: number): Buffer {
  if (offset + length > message.length) throw new ProtocolError('truncated response')
  return message.subarray(offset, offset + length)
}

function sizeAt(message: Buffer, offset: number): number {
  const size = message.readBigUInt64LE(offset)
  if (size > BigInt(Number.MAX_SAFE_INTEGER)) throw new ProtocolError('file size out of range')
  return Number(size)
}

/** FILETIME: 100 ns intervals since 1601-01-01 UTC (MS-DTYP §2.3.3). */
const stepsPerMillisecond = 10_000n
const millisecondsTo1970 = 11_644_473_600_000n

export function fileTimeOf(date: Date): bigint {
  const milliseconds = BigInt(Math.trunc(date.getTime())) + millisecondsTo1970
  // 0 means "unchanged" in SET_INFO.
  return milliseconds <= 0n ? 1n : milliseconds * stepsPerMillisecond
}

export function dateOf(fileTime: bigint): Date {
  return new Date(Number(fileTime / stepsPerMillisecond - millisecondsTo1970))
}
