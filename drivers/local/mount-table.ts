/**
 * The mounted file systems, from Linux's `/proc/self/mountinfo`. Reading it never blocks, unlike `statfs` on an
 * unresponsive file system.
 */
import { readFileSync } from 'node:fs'

/** Local file systems: calls are answered from memory or from a disk of this machine. */
const localTypes = new Set(
  'ext2 ext3 ext4 xfs btrfs tmpfs ramfs overlay f2fs zfs bcachefs jfs reiserfs vfat exfat'.split(' '),
)
/** Kernel file systems: calls never block, but files in them are not read synchronously. */
const kernelTypes = new Set(
  (
    'proc sysfs devtmpfs devpts cgroup cgroup2 securityfs pstore bpf tracefs debugfs hugetlbfs mqueue configfs ' +
    'fusectl binfmt_misc nsfs rpc_pipefs efivarfs selinuxfs squashfs iso9660 erofs'
  ).split(' '),
)
/** An automount of systemd that only triggers a kernel file system. */
const kernelAutomount = '/proc/sys/fs/binfmt_misc'

interface MountPoint {
  readonly path: string
  readonly isLocal: boolean
}

/**
 * Milliseconds for which a reading is valid. Reading takes 0.05 to 0.4 ms with twenty mounts. A mount is noticed
 * no other way: poll(2) reports changes of this file (proc(5)), but Node can neither poll it nor watch it, because
 * inotify(7) does not cover `/proc`. What remains: for this time after something was mounted, a request may still make
 * a synchronous call there, or use the folder below it.
 */
const lifetime = 20

export class MountTable {
  #readAt = Number.NEGATIVE_INFINITY
  #text: string | undefined
  #points: readonly MountPoint[] = []
  /** Whether all points are on local file systems, by the last reading, so that none has to be looked for. */
  #areAllLocal = false
  #mayBlock = true

  /** `onChange`: called when a reading differs from the previous one, before it is used. */
  constructor(
    private readonly root: string,
    private readonly load: () => string = () => readFileSync('/proc/self/mountinfo', 'utf8'),
    private readonly onChange: () => void = () => undefined,
  ) {}

  /** Whether any file system is mounted, at any path, that may block: a network file system, FUSE, an automount. */
  get mayBlock(): boolean {
    this.refresh()
    return this.#mayBlock
  }

  /** Whether this path of the host is on a local file system, so that calls do not block. */
  isLocal(path: string): boolean {
    this.refresh()
    return this.#areAllLocal || this.#points.find((point) => contains(point.path, path))?.isLocal === true
  }

  /** Whether a file system that is not local is mounted at this path, by the last reading. */
  isForeignPoint(path: string): boolean {
    if (this.#areAllLocal) return false
    return this.#points.find((point) => point.path === path)?.isLocal === false
  }

  /** Whether this folder contains a mount point of a file system that is not local. */
  hasForeignMountsIn(folder: string): boolean {
    this.refresh()
    if (this.#areAllLocal) return false
    return this.#points.some((point) => !point.isLocal && point.path !== folder && contains(folder, point.path))
  }

  /** Reads the table again if the last reading is no longer valid. */
  refresh(): void {
    const now = performance.now()
    if (now - this.#readAt < lifetime) return
    this.#readAt = now
    const text = this.#read()
    if (text === this.#text) return
    this.#text = text
    this.#parse(text)
    this.onChange()
  }

  /** The table; empty if it cannot be read. */
  #read(): string {
    try {
      return this.load()
    } catch {
      return ''
    }
  }

  #parse(text: string): void {
    const mounts = parse(text)
    this.#mayBlock =
      mounts.length === 0 ||
      mounts.some(
        ({ type, path }) =>
          !localTypes.has(type) && !kernelTypes.has(type) && !(type === 'autofs' && path === kernelAutomount),
      )
    this.#points = mounts
      .filter(({ path }) => contains(this.root, path) || contains(path, this.root))
      .map(({ type, path }) => ({ path, isLocal: localTypes.has(type) }))
      // The last one of several mounts at a path is in effect.
      .reverse()
      .sort((a, b) => b.path.length - a.path.length)
    const hasRoot = this.#points.some(({ path }) => contains(path, this.root))
    this.#areAllLocal = hasRoot && this.#points.every(({ isLocal }) => isLocal)
  }
}

function contains(folder: string, path: string): boolean {
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
