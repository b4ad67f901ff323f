/**
 * Writes ZIP archives as streams, without compression. The sections are those of PKWARE's APPNOTE.TXT, version 6.3.10;
 * the extra field of times is that of Info-ZIP (extrafld.txt, "Extended Timestamp").
 */
import { crc32 } from 'node:zlib'
import { GatewayError } from '../../../src/base/errors.js'

/** A file or folder of an archive. */
export interface ZipMember {
  /** Relative to the top of the archive, without a slash at its end. At most 65,534 bytes in UTF-8. */
  readonly name: string
  readonly modified: Date
  /** The permission bits. */
  readonly mode: number
  /** The content of a file; absent for a folder. */
  readonly content?: ZipContent
}

interface ZipContent {
  /** The size in bytes. */
  readonly size: number
  /** Exactly `size` bytes; otherwise the archive fails. */
  readonly bytes: AsyncIterable<Buffer>
}

/** §4.4.3: 4.5 for the ZIP64 extensions, which may be used. */
const version = 45
/** §4.4.2: the attributes are those of Unix. */
const madeBy = (3 << 8) | version
/** §4.4.4: bit 3, the CRC follows the content; bit 11, names are UTF-8. */
const flagDescriptor = 1 << 3
const flagUtf8 = 1 << 11
/** §4.4.1.4: the value of a field of 4 or 2 bytes whose actual value is in the ZIP64 extensions. */
const max32 = 0xffffffff
const max16 = 0xffff

/** Bytes of memory that a buffer takes besides its content. */
const recordOverhead = 128
/** Bytes up to which small parts of the archive are combined. */
const combinedSize = 64 * 1024

/**
 * The bytes of an archive of these members, whose names must differ. `reserve` is called with the number of bytes of
 * memory that each member needs until the end, and may throw. Rejects with the error of the members or of their
 * content, and with `aborted` if a content has another length than announced: the archive is then incomplete.
 */
export async function* zipArchive(
  members: AsyncIterable<ZipMember>,
  reserve: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  const waiting: Buffer[] = []
  let size = 0
  for await (const part of archiveParts(members, reserve)) {
    waiting.push(part)
    size += part.length
    if (size < combinedSize) continue
    yield waiting.length === 1 ? part : Buffer.concat(waiting)
    waiting.length = 0
    size = 0
  }
  yield Buffer.concat(waiting)
}

async function* archiveParts(
  members: AsyncIterable<ZipMember>,
  reserve: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  const directory: Buffer[] = []
  let offset = 0
  for await (const member of members) {
    const name = Buffer.from(member.content ? member.name : `${member.name}/`)
    if (name.length > max16) throw new GatewayError('invalid', { reason: 'a path is too long for an archive' })
    const header = localHeader(member, name)
    yield header
    const end = member.content ? yield* content(member.content) : { crc: 0, length: 0 }
    const record = directoryRecord(member, name, end.crc, offset)
    reserve(record.length + recordOverhead)
    directory.push(record)
    offset += header.length + end.length
  }
  let directorySize = 0
  for (const record of directory) {
    directorySize += record.length
    yield record
  }
  yield endOfDirectory(directory.length, directorySize, offset)
}

/** Yields the content with its data descriptor (§4.3.9). Returns the CRC, and the length of both. */
async function* content({
  size,
  bytes,
}: ZipContent): AsyncGenerator<Buffer, { readonly crc: number; readonly length: number }> {
  let crc = 0
  let length = 0
  for await (const chunk of bytes) {
    crc = crc32(chunk, crc)
    length += chunk.length
    if (length > size) break
    yield chunk
  }
  if (length !== size) throw new GatewayError('aborted', { reason: 'a file has changed while it was sent' })
  const descriptor = fields([[4, 0x08074b50], [4, crc], ...sizes(size, isLarge(size) ? 8 : 4)])
  yield descriptor
  return { crc, length: length + descriptor.length }
}

/** §4.3.7. With a data descriptor, the CRC and the sizes are 0 here (§4.4.4). */
function localHeader(member: ZipMember, name: Buffer): Buffer {
  const isZip64 = isLarge(member.content?.size ?? 0)
  const extra = Buffer.concat([
    // §4.5.3: in a local header, both sizes or none. They announce that those of the descriptor have 8 bytes.
    isZip64 ? fields([[2, 1], [2, 16], ...sizes(0, 8)]) : Buffer.of(),
    extendedTimestamp(member.modified),
  ])
  return Buffer.concat([
    fields([
      [4, 0x04034b50],
      ...commonFields(member),
      [4, 0],
      ...sizes(isZip64 ? max32 : 0, 4),
      [2, name.length],
      [2, extra.length],
    ]),
    name,
    extra,
  ])
}

/** A record of the central directory (§4.3.12). */
function directoryRecord(member: ZipMember, name: Buffer, crc: number, offset: number): Buffer {
  const size = member.content?.size ?? 0
  // §4.5.3: only the values that do not fit, in this order.
  const large: Field[] = [...(isLarge(size) ? sizes(size, 8) : []), ...(isLarge(offset) ? [[8, offset] as const] : [])]
  const zip64 = large.length === 0 ? Buffer.of() : fields([[2, 1], [2, 8 * large.length], ...large])
  const extra = Buffer.concat([zip64, extendedTimestamp(member.modified)])
  const type = member.content ? 0o100000 : 0o040000
  return Buffer.concat([
    fields([
      [4, 0x02014b50],
      [2, madeBy],
      ...commonFields(member),
      [4, crc],
      ...sizes(Math.min(size, max32), 4),
      [2, name.length],
      [2, extra.length],
      [2, 0], // comment
      [2, 0], // disk
      [2, 0], // internal attributes
      // §4.4.15: on the host of `madeBy` the upper half is `st_mode`; the lower half is that of MS-DOS.
      [4, (type | (member.mode & 0o777)) * 0x10000 + (member.content ? 0 : 0x10)],
      [4, Math.min(offset, max32)],
    ]),
    name,
    extra,
  ])
}

/** The fields from the version to the date, which both headers have. */
function commonFields({ content: file, modified }: ZipMember): readonly Field[] {
  const [time, date] = dosTime(modified)
  return [
    [2, version],
    [2, flagUtf8 | (file ? flagDescriptor : 0)],
    [2, 0], // stored
    [2, time],
    [2, date],
  ]
}

/** §4.3.14 to §4.3.16: the end of the central directory, with the ZIP64 records if a value does not fit. */
function endOfDirectory(count: number, size: number, offset: number): Buffer {
  const isZip64 = count >= max16 || isLarge(size) || isLarge(offset)
  const zip64 = fields([
    [4, 0x06064b50],
    [8, 44], // bytes of the rest of this record
    [2, madeBy],
    [2, version],
    [4, 0], // disk
    [4, 0], // disk of the directory
    [8, count],
    [8, count],
    [8, size],
    [8, offset],
    [4, 0x07064b50], // locator
    [4, 0], // disk
    [8, offset + size],
    [4, 1], // disks
  ])
  const end = fields([
    [4, 0x06054b50],
    [2, 0], // disk
    [2, 0], // disk of the directory
    [2, Math.min(count, max16)],
    [2, Math.min(count, max16)],
    [4, Math.min(size, max32)],
    [4, Math.min(offset, max32)],
    [2, 0], // comment
  ])
  return isZip64 ? Buffer.concat([zip64, end]) : end
}

/** §4.4.6: two seconds in each step, from 1980 to 2107. In UTC, because the format has no time zone. */
function dosTime(modified: Date): readonly [time: number, date: number] {
  const year = modified.getUTCFullYear()
  if (!(year >= 1980)) return [0, (1 << 5) | 1]
  if (year > 2107) return [(23 << 11) | (59 << 5) | 29, (127 << 9) | (12 << 5) | 31]
  const time = (modified.getUTCHours() << 11) | (modified.getUTCMinutes() << 5) | (modified.getUTCSeconds() >> 1)
  return [time, ((year - 1980) << 9) | ((modified.getUTCMonth() + 1) << 5) | modified.getUTCDate()]
}

/** The modification time in seconds since 1970, in UTC. Empty if it is unknown or does not fit. */
function extendedTimestamp(modified: Date): Buffer {
  const seconds = Math.floor(modified.getTime() / 1000)
  if (!(seconds > 0 && seconds < 2 ** 31)) return Buffer.of()
  return fields([
    [2, 0x5455],
    [2, 5],
    [1, 1], // only the modification time
    [4, seconds],
  ])
}

/** The compressed and the uncompressed size, which are equal. */
function sizes(size: number, width: 4 | 8): readonly Field[] {
  return [
    [width, size],
    [width, size],
  ]
}

function isLarge(value: number): boolean {
  return value >= max32
}

type Field = readonly [width: 1 | 2 | 4 | 8, value: number]

/** §4.4.1.1: all numbers are unsigned and little-endian. */
function fields(list: readonly Field[]): Buffer {
  const buffer = Buffer.allocUnsafe(list.reduce((sum, [width]) => sum + width, 0))
  let at = 0
  for (const [width, value] of list) {
    if (width === 8) buffer.writeBigUInt64LE(BigInt(value), at)
    else buffer.writeUIntLE(value, at, width)
    at += width
  }
  return buffer
}
