/** What the log says about a request: its name, and the path that it names or that its handle has. */
import { resolvePath, root, type Path } from '../../src/base/path.js'
import type { OpenFiles } from './open-files.js'
import { FieldReader, MalformedPacket, type Packet } from './packets.js'
import { packetType } from './wire.js'

interface RequestDetails {
  /** The name of the request in the draft, or the name of an extension. */
  readonly request: string
  readonly path?: Path | undefined
}

/** The first field of each request, by the name of the request: a path or a handle. Absent: neither. */
const subjects: Readonly<Record<string, 'path' | 'handle'>> = {
  open: 'path',
  close: 'handle',
  read: 'handle',
  write: 'handle',
  lstat: 'path',
  fstat: 'handle',
  setstat: 'path',
  fsetstat: 'handle',
  opendir: 'path',
  readdir: 'handle',
  remove: 'path',
  mkdir: 'path',
  rmdir: 'path',
  realpath: 'path',
  stat: 'path',
  rename: 'path',
  readlink: 'path',
  symlink: 'path',
  'posix-rename@openssh.com': 'path',
  'statvfs@openssh.com': 'path',
  'fstatvfs@openssh.com': 'handle',
  'hardlink@openssh.com': 'path',
  'fsync@openssh.com': 'handle',
  'lsetstat@openssh.com': 'path',
  'expand-path@openssh.com': 'path',
  'copy-data': 'handle',
}

const names = new Map<number, string>(Object.entries(packetType).map(([name, type]) => [type, name]))

/** `files`: the open handles. A CLOSE that has failed has no path, because its handle is closed. */
export function requestDetails({ type, fields: bytes }: Packet, files: OpenFiles): RequestDetails {
  let request = names.get(type) ?? `request ${type}`
  try {
    const fields = new FieldReader(bytes)
    fields.uint32() // the id
    if (type === packetType.extended) request = fields.text()
    const subject = Object.hasOwn(subjects, request) ? subjects[request] : undefined
    if (subject === 'handle') return { request, path: files.pathOf(fields.string()) }
    if (subject === 'path') return { request, path: resolvePath(root, fields.text()) }
  } catch (error) {
    if (!(error instanceof MalformedPacket)) throw error
  }
  return { request }
}
