/**
 * What is mounted where, from Linux's own list. Asking the file systems themselves (`statfs`) would already wait for
 * one that is dead; the list never does.
 */
import { readFileSync } from 'node:fs'

/** Local file systems whose calls are answered from memory or a disk of this machine. */
const plainTypes = new Set(
  'ext2 ext3 ext4 xfs btrfs tmpfs ramfs overlay f2fs zfs bcachefs jfs reiserfs vfat exfat'.split(' '),
)
/** Views of the kernel: never slow, but nothing to be read synchronously either. */
const kernelTypes = new Set(
  (
    'proc sysfs devtmpfs devpts cgroup cgroup2 securityfs pstore bpf tracefs debugfs hugetlbfs mqueue configfs ' +
    'fusectl binfmt_misc nsfs rpc_pipefs efivarfs selinuxfs squashfs iso9660 erofs'
  ).split(' '),
)
/** An automount of systemd that leads to the kernel's own table and nowhere else. */
const harmlessAutomount = '/proc/sys/fs/binfmt_misc'

interface MountPoint {
  readonly path: string
  readonly plain: boolean
}

/** Milliseconds for which a reading is believed. */
const lifetime = 1000

export class MountTable {
  #readAt = Number.NEGATIVE_INFINITY
  #points: readonly MountPoint[] = []
  #waiting = true

  constructor(
    private readonly root: string,
    private readonly load: () => string = () => readFileSync('/proc/self/mountinfo', 'utf8'),
  ) {}

  /** Whether anything is mounted, anywhere, that a call could wait for: a network file system, FUSE, an automount. */
  get waiting(): boolean {
    this.#refresh()
    return this.#waiting
  }

  /** Whether a call for this path of the host is surely answered at once. */
  isPlain(path: string): boolean {
    this.#refresh()
    for (const point of this.#points) if (holds(point.path, path)) return point.plain
    return false
  }

  /** Whether something that is not plain is mounted right in this folder. */
  hasOthersIn(folder: string): boolean {
    this.#refresh()
    return this.#points.some((point) => !point.plain && point.path !== folder && holds(folder, point.path))
  }

  #refresh(): void {
    const now = performance.now()
    if (now - this.#readAt < lifetime) return
    this.#readAt = now
    try {
      const mounts = parse(this.load())
      this.#waiting = mounts.some(
        ({ type, path }) =>
          !plainTypes.has(type) && !kernelTypes.has(type) && !(type === 'autofs' && path === harmlessAutomount),
      )
      this.#points = mounts
        .filter(({ path }) => holds(this.root, path) || holds(path, this.root))
        .map(({ type, path }) => ({ path, plain: plainTypes.has(type) }))
        // Of several mounts on one point, the last one counts.
        .reverse()
        .sort((one, other) => other.path.length - one.path.length)
    } catch {
      this.#points = []
      this.#waiting = true
    }
  }
}

function holds(folder: string, path: string): boolean {
  return folder === '/' || path === folder || (path.startsWith(folder) && path[folder.length] === '/')
}

/** proc(5), /proc/pid/mountinfo: the fifth field is the mount point; the type follows a lone hyphen. */
function parse(text: string): { readonly path: string; readonly type: string }[] {
  return text.split('\n').flatMap((line) => {
    const [before, after] = line.split(' - ')
    const path = before?.split(' ')[4]
    const type = after?.split(' ')[0]
    if (path === undefined || type === undefined) return []
    return [{ path: path.replace(/\\(\d{3})/g, (_, octal: string) => String.fromCharCode(parseInt(octal, 8))), type }]
  })
}
