/** The requests of the draft: each is a function from the request's fields to the response packet. */
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError, isGatewayError, type OperationName } from '../../src/base/errors.js'
import type { Log } from '../../src/base/log.js'
import { resolvePath, root, type Path } from '../../src/base/path.js'
import {
  asSymlink,
  storableAttributes,
  readAttributes,
  writeAttributes,
  type RequestedAttributes,
} from './attributes.js'
import { FolderHandle, type ShownOwner } from './folder-handle.js'
import { umask, OpenFiles, type FileHandle } from './open-files.js'
import {
  dataHeaderLength,
  finishDataPacket,
  MalformedPacket,
  PacketBuilder,
  statusPacket,
  type FieldReader,
  type Packet,
} from './packets.js'
import { PathSerializer } from './path-serializer.js'
import { limits, packetType, statusCode } from './wire.js'
import type { SymlinkOrder } from './symlink-order.js'
import type { ReplyBuffer } from './reply-buffer.js'
import type { SftpFileSystem } from './file-system.js'
import type { WorkingFile } from './working-file.js'

/** State that the requests of one session share. */
export interface SessionState {
  readonly fs: SftpFileSystem
  readonly files: OpenFiles
  readonly serializer: PathSerializer
  readonly replyBuffer: ReplyBuffer
  /** Reported as the owner of every entry. */
  readonly owner: ShownOwner
  /** Aborts when the channel is closed, and when the user's session is revoked. */
  readonly signal: AbortSignal
  readonly handleLimit: number
  readonly symlinkOrder: SymlinkOrder
  readonly log: Log
}

export type PacketHandler = (
  session: SessionState,
  id: number,
  fields: FieldReader,
  data: Packet['data'],
) => Promise<Buffer>

export const ok = (id: number): Buffer => statusPacket(id, statusCode.ok, 'ok')
const endOfFile = (id: number): Buffer => statusPacket(id, statusCode.eof, 'end of file')

export function readPath(fields: FieldReader): Path {
  return resolvePath(root, fields.text())
}

export const requests: Readonly<Partial<Record<number, PacketHandler>>> = {
  [packetType.open]: async (session, id, fields) => {
    const path = readPath(fields)
    const flags = fields.uint32()
    const requested = readAttributes(fields)
    const handle = await session.files.openHandle(path, () =>
      session.serializer.run([path], true, () => session.files.open(path, flags, requested)),
    )
    return new PacketBuilder(packetType.handle, id).string(handle).finish()
  },

  [packetType.close]: async (session, id, fields) => {
    const handle = session.files.detach(fields.string())
    if (handle.kind === 'folder' || !handle.plan.write) await session.files.close(handle)
    else await session.serializer.run([handle.file.path], true, () => session.files.close(handle))
    return ok(id)
  },

  [packetType.read]: async (session, id, fields) => {
    const { file, plan } = session.files.file(fields.string())
    const offset = fields.uint64()
    const length = Math.min(fields.uint32(), limits.data)
    if (!plan.read) throw notOpenedTo('read', 'read', file)
    const packet = session.replyBuffer.allocate(dataHeaderLength + length)
    if (length > 0) {
      if (offset > Number.MAX_SAFE_INTEGER - length) return endOfFile(id)
      const filled = await file.read(packet.subarray(dataHeaderLength), offset)
      return filled === 0 ? endOfFile(id) : finishDataPacket(packet, id, filled)
    }
    return finishDataPacket(packet, id, 0)
  },

  [packetType.write]: async (session, id, fields, data) => {
    const { file, plan } = session.files.file(fields.string())
    const offset = fields.uint64()
    const length = fields.uint32()
    if (data.reduce((sum, piece) => sum + piece.length, 0) !== length) {
      throw new MalformedPacket('a WRITE announces more data than it holds')
    }
    if (!plan.write) throw notOpenedTo('write', 'write', file)
    if (!plan.append) assertSize(offset + length, 'write', file.path)
    await file.write(data, length, plan.append ? undefined : offset)
    return ok(id)
  },

  [packetType.stat]: async (session, id, fields) => {
    const path = readPath(fields)
    const entry = await session.serializer.run([path], false, () => statTarget(session, path))
    return attributesPacket(session, id, entry)
  },

  [packetType.lstat]: async (session, id, fields) => {
    const path = readPath(fields)
    const entry = await session.serializer.run([path], false, () => statName(session, path))
    return attributesPacket(session, id, asSymlink(entry))
  },

  [packetType.fstat]: async (session, id, fields) => {
    const handle = session.files.find(fields.string())
    const entry =
      handle.kind === 'file'
        ? await statHandle(session, handle)
        : await session.fs.stat(handle.path, { signal: session.signal })
    return attributesPacket(session, id, entry)
  },

  [packetType.setstat]: async (session, id, fields) => {
    const path = readPath(fields)
    const requested = readAttributes(fields)
    await session.serializer.run([path], true, () => setAttributes(session, path, requested))
    return ok(id)
  },

  [packetType.fsetstat]: async (session, id, fields) => {
    const handle = session.files.find(fields.string())
    const requested = readAttributes(fields)
    if (handle.kind === 'folder') await setAttributes(session, handle.path, requested)
    else {
      // ftruncate(2) requires a handle with write access. Times and mode are authorized for the file, not for the
      // handle.
      if (requested.size !== undefined && !handle.plan.write) throw notOpenedTo('write', 'truncate', handle.file)
      await setHandleAttributes(handle, requested)
    }
    return ok(id)
  },

  [packetType.opendir]: async (session, id, fields) => {
    const path = readPath(fields)
    const { fs, files, owner, signal } = session
    const handle = await files.openHandle(path, () =>
      session.serializer.run([path], false, async () => {
        await files.changesDone(path)
        return FolderHandle.open(fs, path, owner, files.stagedEntries(path), signal)
      }),
    )
    return new PacketBuilder(packetType.handle, id).string(handle).finish()
  },

  [packetType.readdir]: async (session, id, fields) => {
    const handle = session.files.find(fields.string())
    if (handle.kind !== 'folder')
      throw new GatewayError('invalid', { op: 'list', path: handle.file.path, reason: 'the handle belongs to a file' })
    return (await handle.next(id)) ?? endOfFile(id)
  },

  [packetType.remove]: async (session, id, fields) => {
    const path = readPath(fields)
    await session.serializer.run([path], true, () => session.files.remove(path))
    return ok(id)
  },

  [packetType.mkdir]: async (session, id, fields) => {
    const path = readPath(fields)
    const { mode } = readAttributes(fields)
    await session.serializer.run([path], true, async () => {
      if (session.files.stagedAt(path)) throw new GatewayError('exists', { op: 'make folder', path })
      const { fs, signal } = session
      await fs.mkdir(path, { signal })
      const asked = (mode ?? 0o777) & ~umask
      if ((asked & 0o777) === (0o777 & ~umask)) return
      await fs.setAttributes(path, { mode: asked }, { signal }).catch((error: unknown) => {
        // The folder is made. Clients would take a failure for the opposite (docs/decisions/0029-sftp-ignores.md).
        if (!isGatewayError(error, 'unsupported')) throw error
        session.log.info({ path, mode: asked }, 'the mode of a new folder has no effect on this storage')
      })
    })
    return ok(id)
  },

  [packetType.rmdir]: async (session, id, fields) => {
    const path = readPath(fields)
    await session.serializer.run([path], true, () => session.files.removeFolder(path))
    return ok(id)
  },

  [packetType.realpath]: async (_session, id, fields) => namePacket(id, readPath(fields)),

  /** Version 3 refuses to replace anything (draft §6.5); `posix-rename@openssh.com` does. */
  [packetType.rename]: async (session, id, fields) => {
    const from = readPath(fields)
    const to = readPath(fields)
    await session.serializer.run([from, to], true, () => session.files.move(from, to, false))
    return ok(id)
  },

  [packetType.readlink]: async (session, id, fields) => {
    const path = readPath(fields)
    const target = await session.serializer.run([path], false, () =>
      session.fs.readSymlink(path, { signal: session.signal }),
    )
    return namePacket(id, target)
  },

  [packetType.symlink]: async (session, id, fields) => {
    const [first, second] = [fields.text(), fields.text()]
    const [target, link] = session.symlinkOrder === 'target first' ? [first, second] : [second, first]
    const path = resolvePath(root, link)
    await session.serializer.run([path], true, async () => {
      if (session.files.stagedAt(path)) throw new GatewayError('exists', { op: 'make symlink', path })
      await session.fs.symlink(path, target, { signal: session.signal })
    })
    return ok(id)
  },
}

/** LSTAT: the entry at `path` without following a symlink, after all earlier writes of this session. */
export async function statName(session: SessionState, path: Path): Promise<Entry> {
  await session.files.changesDone(path)
  return (
    session.files.stagedAt(path)?.entry ?? (await session.fs.stat(path, { ofSymlink: true, signal: session.signal }))
  )
}

/**
 * STAT: the entry at `path` with symlinks followed, after all earlier writes. Rejects with `not_found` for a dangling
 * symlink.
 */
async function statTarget(session: SessionState, path: Path): Promise<Entry> {
  await session.files.changesDone(path)
  const own = session.files.stagedAt(path)
  if (own) return own.entry
  const entry = await session.fs.stat(path, { signal: session.signal })
  if (entry.kind === 'symlink') throw new GatewayError('not_found', { op: 'stat', path, detail: 'dangling_symlink' })
  return entry
}

/** FSTAT: the entry of an open file, after all earlier writes. */
async function statHandle(session: SessionState, { file }: FileHandle): Promise<Entry> {
  await file.changesDone()
  // A read-only handle reports the file that it opened, even if the name belongs to another file now.
  if (file.isStaged || file.isUnlinked || !file.isWritable) return file.entry
  try {
    return await session.fs.stat(file.path, { signal: session.signal })
  } catch (error) {
    // The file may have been removed since.
    if (!isGatewayError(error, 'not_found')) throw error
    return file.entry
  }
}

/** Sets size, modification time and mode. */
export async function setAttributes(session: SessionState, path: Path, requested: RequestedAttributes): Promise<void> {
  const { fs, files, signal } = session
  await files.changesDone(path)
  const own = files.stagedAt(path)
  if (own) {
    await setHandleAttributes({ file: own }, requested)
    return
  }
  if (requested.size !== undefined) await truncate(session, path, requested.size)
  const storable = storableAttributes(requested)
  if (storable) await fs.setAttributes(path, storable, { signal })
  else if (requested.size === undefined) await fs.stat(path, { signal })
}

async function setHandleAttributes({ file }: Pick<FileHandle, 'file'>, requested: RequestedAttributes): Promise<void> {
  if (requested.size !== undefined) {
    assertSize(requested.size, 'truncate', file.path)
    await file.truncate(requested.size)
  }
  const storable = storableAttributes(requested)
  if (storable) await file.setAttributes(storable)
}

async function truncate({ fs, signal }: SessionState, path: Path, size: number): Promise<void> {
  assertSize(size, 'truncate', path)
  const file = await fs.open(path, 'update', { readable: false, signal })
  try {
    await file.truncate(size)
    await file.commit?.()
  } finally {
    await file.close()
  }
}

/** Throws `too_large` for a size of the file at `path`, or an end of a write, that no file can have. */
export function assertSize(size: number, op: 'truncate' | 'write' | 'copy', path: Path): void {
  if (!Number.isSafeInteger(size))
    throw new GatewayError('too_large', { op, path, reason: 'no file can be that large' })
}

function notOpenedTo(access: 'read' | 'write', op: OperationName, { path }: WorkingFile): GatewayError {
  return new GatewayError('invalid', { op, path, reason: `the handle was not opened to ${access}` })
}

function attributesPacket(session: SessionState, id: number, entry: Entry): Buffer {
  return writeAttributes(new PacketBuilder(packetType.attrs, id), entry, session.owner.id).finish()
}

/** A NAME packet with one name and no attributes: the response to REALPATH and READLINK. */
export function namePacket(id: number, name: string): Buffer {
  return new PacketBuilder(packetType.name, id).uint32(1).string(name).string(name).uint32(0).finish()
}
