/** OpenSSH's extensions (its PROTOCOL file, section 4), by the name that an EXTENDED request carries. */
import { GatewayError, isGatewayError } from '../../src/errors.js'
import { parentOf, resolvePath, root, type Path } from '../../src/path.js'
import { keptAttributes, readAttributes } from './attributes.js'
import type { WorkingFile } from './working-file.js'
import { FieldReader, MalformedPacket, PacketBuilder } from './packets.js'
import { limits, packetType } from './protocol.js'
import { namePacket, ok, readPath, setAttributes, statName, type Desk, type Request } from './requests.js'

/** Blocks that `statvfs` counts in. */
const blockSize = 4096
/** Bytes that `copy-data` holds at a time. */
const copySize = 1024 * 1024

export const extendedRequests: ReadonlyMap<string, Request> = new Map<string, Request>([
  [
    'posix-rename@openssh.com',
    async (desk, id, fields) => {
      const from = readPath(fields)
      const to = readPath(fields)
      await desk.order.run([from, to], true, async () => {
        await assertReplaceable(desk, from, to)
        await desk.files.move(from, to, true)
      })
      return ok(id)
    },
  ],
  [
    'hardlink@openssh.com',
    async (desk, id, fields) => {
      const from = readPath(fields)
      const to = readPath(fields)
      await desk.order.run([from, to], true, async () => {
        await desk.files.asideAt(from)?.publish()
        if (desk.files.asideAt(to)) throw new GatewayError('exists', { op: 'make link', path: to })
        await desk.tree.hardLink(from, to, { signal: desk.signal })
      })
      return ok(id)
    },
  ],
  [
    'fsync@openssh.com',
    async (desk, id, fields) => {
      await desk.files.file(fields.string()).file.sync()
      return ok(id)
    },
  ],
  [
    'statvfs@openssh.com',
    async (desk, id, fields) => {
      const path = readPath(fields)
      await desk.order.run([path], false, () => statName(desk, path))
      return usagePacket(desk, id, path)
    },
  ],
  [
    'fstatvfs@openssh.com',
    async (desk, id, fields) => {
      const handle = desk.files.find(fields.string())
      return usagePacket(desk, id, handle.kind === 'file' ? parentOf(handle.file.path) : handle.path)
    },
  ],
  [
    'lsetstat@openssh.com',
    async (desk, id, fields) => {
      const path = readPath(fields)
      const asked = readAttributes(fields)
      if (asked.size !== undefined) throw new MalformedPacket('a link has no size to set')
      await desk.order.run([path], true, async () => {
        const { kind, isLink } = await statName(desk, path)
        if (kind !== 'link' && isLink !== true) {
          await setAttributes(desk, path, asked)
          return
        }
        const to = keptAttributes(asked)
        if (to) await desk.tree.setOwnAttributes(path, to, { signal: desk.signal })
      })
      return ok(id)
    },
  ],
  [
    'limits@openssh.com',
    async (desk, id) =>
      new PacketBuilder(packetType.extendedReply, id)
        .uint64(limits.packet)
        .uint64(limits.data)
        .uint64(limits.data)
        .uint64(desk.handleLimit)
        .finish(),
  ],
  ['expand-path@openssh.com', async (desk, id, fields) => namePacket(id, expand(desk, fields.text()))],
  ['copy-data', copyData],
  [
    'home-directory',
    async (desk, id, fields) => {
      const user = fields.text()
      if (user !== '' && user !== desk.owner.name) {
        throw new GatewayError('invalid', { reason: `no home folder of ${user} here` })
      }
      return namePacket(id, root)
    },
  ],
  [
    'users-groups-by-id@openssh.com',
    async (desk, id, fields) =>
      new PacketBuilder(packetType.extendedReply, id)
        .string(namesOf(desk, fields.string()))
        .string(namesOf(desk, fields.string()))
        .finish(),
  ],
])

/** rename(2): a file replaces what is no folder, a folder an empty folder. */
async function assertReplaceable(desk: Desk, from: Path, to: Path): Promise<void> {
  if (from === to) return
  const { tree, signal } = desk
  const target = await statName(desk, to).catch((error: unknown) => {
    if (isGatewayError(error, 'not_found')) return undefined
    throw error
  })
  if (!target) return
  const source = await statName(desk, from)
  const isFolder = (entry: typeof source) => entry.kind === 'folder' && entry.isLink !== true
  if (isFolder(source) && !isFolder(target)) throw new GatewayError('not_dir', { op: 'rename', path: to })
  if (!isFolder(target)) return
  if (!isFolder(source)) throw new GatewayError('is_dir', { op: 'rename', path: to })
  for await (const page of tree.pages(to, { signal })) {
    if (page.length > 0) throw new GatewayError('not_empty', { op: 'rename', path: to })
  }
}

async function usagePacket(desk: Desk, id: number, path: Path): Promise<Buffer> {
  const usage = await desk.tree.usage(path, { signal: desk.signal })
  const { files = { total: 0, free: 0 } } = usage
  const blocks = (bytes: number) => Math.max(0, Math.floor(bytes / blockSize))
  const packet = new PacketBuilder(packetType.extendedReply, id).uint64(blockSize).uint64(blockSize)
  // A file system may keep for root some of what is not used.
  const unused = usage.total - usage.used
  packet.uint64(blocks(usage.total)).uint64(blocks(unused)).uint64(blocks(usage.free))
  packet.uint64(files.total).uint64(files.free).uint64(files.free)
  // The file system's id, its flags, the longest name.
  return packet.uint64(0).uint64(0).uint64(255).finish()
}

/** `~` is where every user starts; that of others is nobody's business. */
function expand({ owner }: Desk, text: string): Path {
  const [first = '', ...rest] = text.split('/')
  if (!first.startsWith('~')) return resolvePath(root, text)
  if (first !== '~' && first !== `~${owner.name}`) {
    throw new GatewayError('not_found', { reason: `no home folder of ${first.slice(1)} here` })
  }
  return resolvePath(root, rest.join('/'))
}

/** The names of ids as a list of strings; empty for those that nobody here has. */
function namesOf(desk: Desk, ids: Buffer): Buffer {
  const fields = new FieldReader(ids)
  const names: Buffer[] = []
  while (fields.left > 0) {
    const name = Buffer.from(fields.uint32() === desk.owner.id ? desk.owner.name : '')
    const length = Buffer.alloc(4)
    length.writeUInt32BE(name.length)
    names.push(length, name)
  }
  return Buffer.concat(names)
}

/** Bytes from one open file to another without a trip to the client; a length of 0 means up to the end. */
async function copyData(desk: Desk, id: number, fields: FieldReader): Promise<Buffer> {
  const from = desk.files.file(fields.string())
  const start = fields.uint64()
  const asked = fields.uint64()
  const to = desk.files.file(fields.string())
  const target = fields.uint64()
  if (!from.plan.read || !to.plan.write) {
    throw new GatewayError('invalid', { op: 'copy', reason: 'the handles were not opened to read and to write' })
  }
  if (from.file === to.file) throw new GatewayError('invalid', { op: 'copy', reason: 'both handles are of one file' })
  const length = asked === 0 ? Number.POSITIVE_INFINITY : asked
  const append = to.plan.append
  await copyBytes(desk, { from: from.file, start, length, to: to.file, target: append ? undefined : target })
  return ok(id)
}

interface Stretch {
  readonly from: WorkingFile
  readonly start: number
  readonly length: number
  readonly to: WorkingFile
  /** undefined: at the end. */
  readonly target: number | undefined
}

async function copyBytes(desk: Desk, { from, start, length, to, target }: Stretch): Promise<void> {
  const buffer = Buffer.allocUnsafe(Math.min(copySize, length))
  for (let done = 0; done < length;) {
    desk.signal.throwIfAborted()
    const filled = await from.read(buffer.subarray(0, Math.min(buffer.length, length - done)), start + done)
    if (filled === 0) return
    await to.write([buffer.subarray(0, filled)], filled, target === undefined ? undefined : target + done)
    done += filled
  }
}
