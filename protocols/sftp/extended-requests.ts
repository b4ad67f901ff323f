/** OpenSSH's extensions (its PROTOCOL file, section 4), by the name in the EXTENDED request. */
import { throwIfAborted } from '../../src/base/cancellation.js'
import { GatewayError, undefinedIfMissing } from '../../src/base/errors.js'
import { parentOf, resolvePath, root, type Path } from '../../src/base/path.js'
import { storableAttributes, readAttributes } from './attributes.js'
import { FieldReader, MalformedPacket, PacketBuilder } from './packets.js'
import { limits, packetType } from './wire.js'
import {
  assertSize,
  namePacket,
  ok,
  readPath,
  setAttributes,
  statName,
  type SessionState,
  type PacketHandler,
} from './requests.js'
import type { WorkingFile } from './working-file.js'

/** Block size that `statvfs` reports, in bytes. */
const blockSize = 4096
/** Buffer size of `copy-data`, in bytes. */
const copySize = 1024 * 1024

export const extendedRequests: ReadonlyMap<string, PacketHandler> = new Map<string, PacketHandler>([
  [
    'posix-rename@openssh.com',
    async (session, id, fields) => {
      const from = readPath(fields)
      const to = readPath(fields)
      await session.serializer.run([from, to], true, async () => {
        await session.files.move(from, to, 'same kind')
      })
      return ok(id)
    },
  ],
  [
    'hardlink@openssh.com',
    async (session, id, fields) => {
      const from = readPath(fields)
      const to = readPath(fields)
      await session.serializer.run([from, to], true, async () => {
        await session.files.stagedAt(from)?.publish()
        if (session.files.stagedAt(to)) throw new GatewayError('exists', { op: 'make hard link', path: to })
        await session.fs.hardLink(from, to, { signal: session.signal })
      })
      return ok(id)
    },
  ],
  [
    'fsync@openssh.com',
    async (session, id, fields) => {
      await session.files.sync(fields.string())
      return ok(id)
    },
  ],
  [
    'statvfs@openssh.com',
    async (session, id, fields) => {
      const path = readPath(fields)
      await session.serializer.run([path], false, () => statName(session, path))
      return usagePacket(session, id, path)
    },
  ],
  [
    'fstatvfs@openssh.com',
    async (session, id, fields) => {
      const handle = session.files.find(fields.string())
      return usagePacket(session, id, handle.kind === 'file' ? parentOf(handle.file.path) : handle.path)
    },
  ],
  [
    'lsetstat@openssh.com',
    async (session, id, fields) => {
      const path = readPath(fields)
      const requested = readAttributes(fields)
      if (requested.size !== undefined) throw new MalformedPacket('the size of a symlink cannot be set')
      await session.serializer.run([path], true, async () => {
        const { kind, isSymlink } = await statName(session, path)
        if (kind !== 'symlink' && isSymlink !== true) {
          await setAttributes(session, path, requested)
          return
        }
        const storable = storableAttributes(requested)
        if (storable) await session.fs.setOwnAttributes(path, storable, { signal: session.signal })
      })
      return ok(id)
    },
  ],
  [
    'limits@openssh.com',
    async (session, id) =>
      new PacketBuilder(packetType.extendedReply, id)
        .uint64(limits.packet)
        .uint64(limits.data)
        .uint64(limits.data)
        .uint64(session.handleLimit)
        .finish(),
  ],
  ['expand-path@openssh.com', async (session, id, fields) => namePacket(id, expand(session, fields.text()))],
  ['copy-data', copyData],
  [
    'home-directory',
    async (session, id, fields) => {
      const user = fields.text()
      if (user !== '' && user !== session.owner.name) {
        throw new GatewayError('invalid', { op: 'home folder', reason: `the home folder of ${user} is not available` })
      }
      return namePacket(id, root)
    },
  ],
  [
    'users-groups-by-id@openssh.com',
    async (session, id, fields) =>
      new PacketBuilder(packetType.extendedReply, id)
        .string(namesOf(session, fields.string()))
        .string(namesOf(session, fields.string()))
        .finish(),
  ],
])

async function usagePacket(session: SessionState, id: number, path: Path): Promise<Buffer> {
  const usage = await session.fs.usage(path, { signal: session.signal })
  const { files = { total: 0, free: 0 } } = usage
  const blocks = (bytes: number) => Math.max(0, Math.floor(bytes / blockSize))
  const packet = new PacketBuilder(packetType.extendedReply, id).uint64(blockSize).uint64(blockSize)
  // A file system may reserve unused blocks for root.
  const unused = usage.total - usage.used
  packet.uint64(blocks(usage.total)).uint64(blocks(unused)).uint64(blocks(usage.free))
  packet.uint64(files.total).uint64(files.free).uint64(files.free)
  // f_fsid, f_flag and f_namemax.
  return packet.uint64(0).uint64(0).uint64(255).finish()
}

/** Expands `~` to the root, which is the user's home folder. The home folders of other users are not disclosed. */
function expand({ owner }: SessionState, text: string): Path {
  const [first = '', ...rest] = text.split('/')
  if (!first.startsWith('~')) return resolvePath(root, text)
  if (first !== '~' && first !== `~${owner.name}`) {
    throw new GatewayError('not_found', {
      op: 'expand path',
      reason: `the home folder of ${first.slice(1)} is not available`,
    })
  }
  return resolvePath(root, rest.join('/'))
}

/**
 * The names of `ids` as a list of strings. The name of an unknown id is empty. Throws `too_large` if the list could
 * exceed the length of other replies with names: clients ask for each id of a listing once, and all entries have the
 * same owner.
 */
function namesOf(session: SessionState, ids: Buffer): Buffer {
  const longest = 4 + Buffer.byteLength(session.owner.name)
  if ((ids.length / 4) * longest > limits.names) {
    throw new GatewayError('too_large', { op: 'names of users', reason: 'too many ids in one request' })
  }
  const fields = new FieldReader(ids)
  const names: Buffer[] = []
  while (fields.remaining > 0) {
    const name = Buffer.from(fields.uint32() === session.owner.id ? session.owner.name : '')
    const length = Buffer.alloc(4)
    length.writeUInt32BE(name.length)
    names.push(length, name)
  }
  return Buffer.concat(names)
}

/** Copies bytes from one open file to another. A length of 0 means up to the end that the file has now. */
async function copyData(session: SessionState, id: number, fields: FieldReader): Promise<Buffer> {
  const from = session.files.file(fields.string())
  const start = fields.uint64()
  const requestedLength = fields.uint64()
  const to = session.files.file(fields.string())
  const target = fields.uint64()
  if (!from.plan.read || !to.plan.write) {
    throw new GatewayError('invalid', {
      op: 'copy',
      path: to.file.path,
      reason: 'the source must be open for reading and the target for writing',
    })
  }
  if (from.file === to.file || (await isSameFile(session, from.file, to.file)))
    throw new GatewayError('invalid', {
      op: 'copy',
      path: to.file.path,
      reason: 'source and target are the same file',
    })
  // Not what is appended meanwhile: the source may be the target under a name that the backend does not report.
  const available = Math.max(0, (await sizeOf(session, from.file)) - start)
  const length = requestedLength === 0 ? available : Math.min(requestedLength, available)
  const append = to.plan.append
  await copyBytes(session, { from: from.file, start, length, to: to.file, target: append ? undefined : target })
  return ok(id)
}

/** Whether both are the same file under two names. What is written to a staged file changes no other. */
async function isSameFile({ fs, signal }: SessionState, from: WorkingFile, to: WorkingFile): Promise<boolean> {
  if (to.isStaged || from.isStaged || to.isUnlinked || from.isUnlinked) return false
  // A name that was removed is not another name of the file.
  return (await undefinedIfMissing(fs.isSameFile(from.path, to.path, { signal }))) ?? false
}

/** The current size. Others may have changed a file since this session opened it. */
async function sizeOf({ fs, signal }: SessionState, file: WorkingFile): Promise<number> {
  await file.changesDone()
  const isOwn = file.isStaged || file.isUnlinked
  const current = isOwn ? undefined : await undefinedIfMissing(fs.stat(file.path, { signal }))
  return Math.max(file.size, current?.size ?? 0)
}

interface CopyRange {
  readonly from: WorkingFile
  readonly start: number
  readonly length: number
  readonly to: WorkingFile
  /** The position in the target file; undefined: append. */
  readonly target: number | undefined
}

async function copyBytes(session: SessionState, { from, start, length, to, target }: CopyRange): Promise<void> {
  const buffer = Buffer.allocUnsafe(Math.min(copySize, length))
  for (let done = 0; done < length;) {
    throwIfAborted(session.signal)
    // The same limit as for READ and WRITE: no file is that large.
    if (start + done > Number.MAX_SAFE_INTEGER - buffer.length) return
    if (target !== undefined) assertSize(target + done + buffer.length, 'copy', to.path)
    const filled = await from.read(buffer.subarray(0, Math.min(buffer.length, length - done)), start + done)
    if (filled === 0) return
    await to.write([buffer.subarray(0, filled)], filled, target === undefined ? undefined : target + done)
    done += filled
  }
}
