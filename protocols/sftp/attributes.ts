/** Attributes as SFTP carries them (draft §5), and how an Entry is told in them. */
import type { Attributes, Entry } from '../../src/driver.js'
import { attributeFlag } from './protocol.js'
import { FieldReader, PacketBuilder } from './packets.js'

/** What a client asks to set. Owner and extended attributes are read past: no backend keeps them for users of the gateway. */
export interface AskedAttributes {
  readonly size?: number
  /** Permission bits without the file type. */
  readonly mode?: number
  readonly modified?: Date
}

export function readAttributes(fields: FieldReader): AskedAttributes {
  const flags = fields.uint32()
  const asked: { size?: number; mode?: number; modified?: Date } = {}
  if (flags & attributeFlag.size) asked.size = fields.uint64()
  if (flags & attributeFlag.owner) {
    fields.uint32()
    fields.uint32()
  }
  if (flags & attributeFlag.permissions) asked.mode = fields.uint32() & 0o7777
  if (flags & attributeFlag.times) {
    fields.uint32()
    asked.modified = new Date(fields.uint32() * 1000)
  }
  if ((flags & attributeFlag.extended) !== 0) {
    for (let count = fields.uint32(); count > 0; count--) {
      fields.string()
      fields.string()
    }
  }
  return asked
}

/** The part that the tree can be asked to keep; undefined where there is none. */
export function keptAttributes({ mode, modified }: AskedAttributes): Attributes | undefined {
  return mode === undefined && modified === undefined ? undefined : { mode, modified }
}

const fileType = { file: 0o100000, folder: 0o040000, link: 0o120000 } as const
const defaultMode = { file: 0o644, folder: 0o755, link: 0o777 } as const

/** Type and permission bits, as in `st_mode`. */
export function modeOf(entry: Entry): number {
  return fileType[entry.kind] | ((entry.mode ?? defaultMode[entry.kind]) & 0o7777)
}

/** A link shown as itself, the way LSTAT and READDIR do. */
export function asLink(entry: Entry): Entry {
  return entry.isLink === true && entry.kind !== 'link' ? { ...entry, kind: 'link', mode: defaultMode.link } : entry
}

/** Seconds as the wire's unsigned 32 bits hold them. */
export function wireSeconds(date: Date): number {
  return Math.min(Math.max(Math.floor(date.getTime() / 1000), 0), 0xffffffff)
}

/** `owner` is told as user and group of everything. */
export function writeAttributes(packet: PacketBuilder, entry: Entry, owner: number): PacketBuilder {
  const { size, owner: ids, permissions, times } = attributeFlag
  const seconds = wireSeconds(entry.modified)
  return packet
    .uint32(size | ids | permissions | times)
    .uint64(entry.size)
    .uint32(owner)
    .uint32(owner)
    .uint32(modeOf(entry))
    .uint32(seconds)
    .uint32(seconds)
}
