/** Each request of the draft as one function from its fields to the packet that answers it. */
import { GatewayError, isGatewayError } from '../../src/errors.js'
import { resolvePath, root, type Path } from '../../src/path.js'
import type { Entry } from '../../src/driver.js'
import { asLink, keptAttributes, readAttributes, writeAttributes, type AskedAttributes } from './attributes.js'
import type { AnswerSpace } from './answer-space.js'
import { FolderHandle, type Owner } from './folder-handle.js'
import { modeMask, OpenFiles, type FileHandle } from './open-files.js'
import { dataHeaderLength, finishDataPacket, MalformedPacket, PacketBuilder, statusPacket } from './packets.js'
import type { FieldReader, Packet } from './packets.js'
import { PathOrder } from './path-order.js'
import { limits, packetType, statusCode } from './protocol.js'
import type { Tree } from './tree.js'

/** What the requests of one session work on. */
export interface Desk {
  readonly tree: Tree
  readonly files: OpenFiles
  readonly order: PathOrder
  readonly space: AnswerSpace
  /** Told as owner of everything. */
  readonly owner: Owner
  /** Aborts when the channel is gone. */
  readonly signal: AbortSignal
  readonly handleLimit: number
}

export type Request = (desk: Desk, id: number, fields: FieldReader, data: Packet['data']) => Promise<Buffer>

export const ok = (id: number): Buffer => statusPacket(id, statusCode.ok, 'ok')
const endOfFile = (id: number): Buffer => statusPacket(id, statusCode.eof, 'end of file')

export function readPath(fields: FieldReader): Path {
  return resolvePath(root, fields.text())
}

export const requests: Readonly<Partial<Record<number, Request>>> = {
  [packetType.open]: async (desk, id, fields) => {
    const path = readPath(fields)
    const flags = fields.uint32()
    const asked = readAttributes(fields)
    const handle = await desk.files.admit(() => desk.order.run([path], true, () => desk.files.open(path, flags, asked)))
    return new PacketBuilder(packetType.handle, id).string(handle).finish()
  },

  [packetType.close]: async (desk, id, fields) => {
    const handle = desk.files.forget(fields.string())
    if (handle.kind === 'folder' || !handle.plan.write) await desk.files.close(handle)
    else await desk.order.run([handle.file.path], true, () => desk.files.close(handle))
    return ok(id)
  },

  [packetType.read]: async (desk, id, fields) => {
    const { file, plan } = desk.files.file(fields.string())
    const offset = fields.uint64()
    const length = Math.min(fields.uint32(), limits.data)
    if (!plan.read) throw new GatewayError('invalid', { op: 'read', reason: 'the handle was not opened to read' })
    const packet = desk.space.take(dataHeaderLength + length)
    if (length > 0) {
      if (offset > Number.MAX_SAFE_INTEGER - length) return endOfFile(id)
      const filled = await file.read(packet.subarray(dataHeaderLength), offset)
      return filled === 0 ? endOfFile(id) : finishDataPacket(packet, id, filled)
    }
    return finishDataPacket(packet, id, 0)
  },

  [packetType.write]: async (desk, id, fields, data) => {
    const { file, plan } = desk.files.file(fields.string())
    const offset = fields.uint64()
    const length = fields.uint32()
    if (data.reduce((sum, piece) => sum + piece.length, 0) !== length) {
      throw new MalformedPacket('a WRITE announces more data than it holds')
    }
    if (!plan.write) throw new GatewayError('invalid', { op: 'write', reason: 'the handle was not opened to write' })
    if (!plan.append && offset > Number.MAX_SAFE_INTEGER - length) {
      throw new GatewayError('too_large', { op: 'write', reason: 'no file can be that large' })
    }
    await file.write(data, length, plan.append ? undefined : offset)
    return ok(id)
  },

  [packetType.stat]: async (desk, id, fields) => {
    const path = readPath(fields)
    const entry = await desk.order.run([path], false, () => statTarget(desk, path))
    return attributesPacket(desk, id, entry)
  },

  [packetType.lstat]: async (desk, id, fields) => {
    const path = readPath(fields)
    const entry = await desk.order.run([path], false, () => statName(desk, path))
    return attributesPacket(desk, id, asLink(entry))
  },

  [packetType.fstat]: async (desk, id, fields) => {
    const handle = desk.files.find(fields.string())
    const entry =
      handle.kind === 'file'
        ? await statHandle(desk, handle)
        : await desk.tree.stat(handle.path, { signal: desk.signal })
    return attributesPacket(desk, id, entry)
  },

  [packetType.setstat]: async (desk, id, fields) => {
    const path = readPath(fields)
    const asked = readAttributes(fields)
    await desk.order.run([path], true, () => setAttributes(desk, path, asked))
    return ok(id)
  },

  [packetType.fsetstat]: async (desk, id, fields) => {
    const handle = desk.files.find(fields.string())
    const asked = readAttributes(fields)
    if (handle.kind === 'folder') await setAttributes(desk, handle.path, asked)
    else {
      // ftruncate(2): only a handle that writes can cut. Times and mode belong to the file, and are judged by it.
      if (asked.size !== undefined && !handle.plan.write) {
        throw new GatewayError('invalid', { op: 'truncate', reason: 'the handle was not opened to write' })
      }
      await setHandleAttributes(handle, asked)
    }
    return ok(id)
  },

  [packetType.opendir]: async (desk, id, fields) => {
    const path = readPath(fields)
    const { tree, files, owner, signal } = desk
    const handle = await files.admit(() =>
      desk.order.run([path], false, async () => {
        await files.settled(path)
        return FolderHandle.open(tree, path, owner, files.asideIn(path), signal)
      }),
    )
    return new PacketBuilder(packetType.handle, id).string(handle).finish()
  },

  [packetType.readdir]: async (desk, id, fields) => {
    const handle = desk.files.find(fields.string())
    if (handle.kind !== 'folder')
      throw new GatewayError('invalid', { op: 'list', reason: 'the handle is one of a file' })
    return (await handle.next(id)) ?? endOfFile(id)
  },

  [packetType.remove]: async (desk, id, fields) => {
    const path = readPath(fields)
    await desk.order.run([path], true, () => desk.files.remove(path))
    return ok(id)
  },

  [packetType.mkdir]: async (desk, id, fields) => {
    const path = readPath(fields)
    const { mode } = readAttributes(fields)
    await desk.order.run([path], true, async () => {
      if (desk.files.asideAt(path)) throw new GatewayError('exists', { op: 'make folder', path })
      await desk.tree.mkdir(path, { signal: desk.signal })
      const bits = (mode ?? 0o777) & ~modeMask & 0o777
      if (bits !== (0o777 & ~modeMask)) await whereKept(desk.tree.setAttributes(path, { mode: bits }))
    })
    return ok(id)
  },

  [packetType.rmdir]: async (desk, id, fields) => {
    const path = readPath(fields)
    await desk.order.run([path], true, () => desk.files.removeFolder(path))
    return ok(id)
  },

  [packetType.realpath]: async (_desk, id, fields) => namePacket(id, readPath(fields)),

  /** Version 3 refuses to replace anything (draft §6.5); `posix-rename@openssh.com` does. */
  [packetType.rename]: async (desk, id, fields) => {
    const from = readPath(fields)
    const to = readPath(fields)
    await desk.order.run([from, to], true, () => desk.files.move(from, to, false))
    return ok(id)
  },

  [packetType.readlink]: async (desk, id, fields) => {
    const path = readPath(fields)
    const target = await desk.order.run([path], false, () => desk.tree.readLink(path, { signal: desk.signal }))
    return namePacket(id, target)
  },

  /** The target comes first: OpenSSH's server has it the other way round than the draft, and clients follow OpenSSH. */
  [packetType.symlink]: async (desk, id, fields) => {
    const target = fields.text()
    const path = readPath(fields)
    await desk.order.run([path], true, async () => {
      if (desk.files.asideAt(path)) throw new GatewayError('exists', { op: 'make link', path })
      await desk.tree.symlink(path, target, { signal: desk.signal })
    })
    return ok(id)
  },
}

/** What bears the name, a link not followed, with all writes of this session that were asked for before. */
export async function statName(desk: Desk, path: Path): Promise<Entry> {
  await desk.files.settled(path)
  return desk.files.asideAt(path)?.entry ?? (await desk.tree.stat(path, { link: true, signal: desk.signal }))
}

/** What stands behind the name, as above; a link that leads nowhere is nothing. */
async function statTarget(desk: Desk, path: Path): Promise<Entry> {
  await desk.files.settled(path)
  const own = desk.files.asideAt(path)
  if (own) return own.entry
  const entry = await desk.tree.stat(path, { signal: desk.signal })
  if (entry.kind === 'link')
    throw new GatewayError('not_found', { op: 'stat', path, reason: 'a link that leads nowhere' })
  return entry
}

/** Of the file that was opened, with all writes that were asked for before. */
export async function statHandle(desk: Desk, { file }: FileHandle): Promise<Entry> {
  await file.settled()
  // Whoever only reads is told of the bytes they read, though the name may be another file's by now.
  if (file.isAside || file.isUnlinked || !file.writes) return file.entry
  try {
    return await desk.tree.stat(file.path, { signal: desk.signal })
  } catch (error) {
    // The name may have gone since.
    if (!isGatewayError(error, 'not_found')) throw error
    return file.entry
  }
}

/** A size, times and a mode. What the backend cannot keep never fails a transfer; what the user may not, is told. */
export async function setAttributes(desk: Desk, path: Path, asked: AskedAttributes): Promise<void> {
  const { tree, files, signal } = desk
  await files.settled(path)
  const own = files.asideAt(path)
  if (own) {
    await setHandleAttributes({ file: own }, asked)
    return
  }
  if (asked.size !== undefined) await truncate(desk, path, asked.size)
  const kept = keptAttributes(asked)
  if (kept) await whereKept(tree.setAttributes(path, kept, { signal }))
  else if (asked.size === undefined) await tree.stat(path, { signal })
}

async function setHandleAttributes({ file }: Pick<FileHandle, 'file'>, asked: AskedAttributes): Promise<void> {
  if (asked.size !== undefined) {
    assertSize(asked.size)
    await file.truncate(asked.size)
  }
  const kept = keptAttributes(asked)
  if (kept) await whereKept(file.setAttributes(kept))
}

async function truncate({ tree, signal }: Desk, path: Path, size: number): Promise<void> {
  assertSize(size)
  const file = await tree.open(path, 'update', { signal })
  try {
    if (!file.truncate) throw new GatewayError('unsupported', { op: 'truncate', path })
    await file.truncate(size)
    await file.commit?.()
  } finally {
    await file.close()
  }
}

function assertSize(size: number): void {
  if (!Number.isSafeInteger(size)) {
    throw new GatewayError('too_large', { op: 'truncate', reason: 'no file can be that large' })
  }
}

async function whereKept(setting: Promise<void>): Promise<void> {
  try {
    await setting
  } catch (error) {
    if (!isGatewayError(error, 'unsupported')) throw error
  }
}

function attributesPacket(desk: Desk, id: number, entry: Entry): Buffer {
  return writeAttributes(new PacketBuilder(packetType.attrs, id), entry, desk.owner.id).finish()
}

/** One name without attributes, as REALPATH and READLINK answer it. */
export function namePacket(id: number, name: string): Buffer {
  return new PacketBuilder(packetType.name, id).uint32(1).string(name).string(name).uint32(0).finish()
}
