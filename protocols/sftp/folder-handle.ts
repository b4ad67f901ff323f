/** An open folder: READDIR in batches, with constant memory. */
import type { Entry } from '../../src/contract/entry.js'
import { childOf, parentOf, type Path } from '../../src/base/path.js'
import { asSymlink, longName, writeAttributes } from './attributes.js'
import { PacketBuilder } from './packets.js'
import { limits, packetType } from './wire.js'
import type { SftpFileSystem } from './file-system.js'

export interface ShownOwner {
  readonly id: number
  readonly name: string
}

export class FolderHandle {
  readonly kind = 'folder'
  #entries: Iterator<Entry> = [][Symbol.iterator]()
  #lastBatch: Promise<unknown> = Promise.resolve()

  private constructor(
    private readonly fs: SftpFileSystem,
    readonly path: Path,
    private readonly owner: ShownOwner,
    private readonly pages: AsyncIterator<readonly Entry[]>,
    /** Entries with unpublished changes of this session, by name. They override or extend the listing. */
    private readonly own: Map<string, Entry>,
    private readonly signal: AbortSignal,
  ) {}

  /** Opens the folder at `path`. Rejects with the error of the listing: `not_found`, `not_folder` or `denied`. */
  static async open(
    fs: SftpFileSystem,
    path: Path,
    owner: ShownOwner,
    own: Map<string, Entry>,
    signal: AbortSignal,
  ): Promise<FolderHandle> {
    const pages = fs.pages(path, { signal })[Symbol.asyncIterator]()
    const handle = new FolderHandle(fs, path, owner, pages, own, signal)
    try {
      const first = await pages.next()
      const self = await fs.stat(path, { signal })
      // If the parent is not visible, `..` has the attributes of the folder itself.
      const parent = await fs.stat(parentOf(path), { signal }).catch(() => self)
      const dots = [
        { ...self, name: '.' },
        { ...parent, name: '..' },
      ]
      handle.#entries = [...dots, ...(first.done === true ? [] : await handle.#sessionView(first.value))][
        Symbol.iterator
      ]()
      return handle
    } catch (error) {
      await handle.close()
      throw error
    }
  }

  /** The next NAME packet, or undefined at the end. Concurrent calls run one after another. */
  next(id: number): Promise<Buffer | undefined> {
    const next = this.#lastBatch.then(() => this.#batch(id))
    this.#lastBatch = next.catch(() => undefined)
    return next
  }

  async close(): Promise<void> {
    await this.pages.return?.()
  }

  async #batch(id: number): Promise<Buffer | undefined> {
    const packet = new PacketBuilder(packetType.name, id)
    const countAt = packet.length
    packet.uint32(0)
    const now = new Date()
    let count = 0
    while (packet.length < limits.names) {
      const next = this.#entries.next()
      if (next.done !== true) {
        const entry = next.value
        packet.string(entry.name).string(longName(entry, entry.name, this.owner.name, now))
        writeAttributes(packet, entry, this.owner.id)
        count++
      } else if (!(await this.#nextPage())) {
        break
      }
    }
    return count === 0 ? undefined : packet.replaceUint32(count, countAt).finish()
  }

  /** Loads the next page, and after the last one the remaining own entries. Resolves to false at the end. */
  async #nextPage(): Promise<boolean> {
    const page = await this.pages.next()
    const entries = page.done === true ? [...this.own.values()] : await this.#sessionView(page.value)
    if (page.done === true) this.own.clear()
    this.#entries = entries[Symbol.iterator]()
    return page.done !== true || entries.length > 0
  }

  /** The entries as this session sees them: own changes applied, symlinks shown as themselves. */
  async #sessionView(entries: readonly Entry[]): Promise<readonly Entry[]> {
    if (this.own.size === 0 && !entries.some(isResolvedSymlink)) return entries
    return Promise.all(
      entries.map(async (entry) => {
        const own = this.own.get(entry.name)
        this.own.delete(entry.name)
        return own ?? (isResolvedSymlink(entry) ? this.#symlinkEntry(entry) : entry)
      }),
    )
  }

  /** A symlink with its own size and time, as LSTAT reports them. A listing has those of the target. */
  async #symlinkEntry(entry: Entry): Promise<Entry> {
    try {
      return asSymlink(await this.fs.stat(childOf(this.path, entry.name), { ofSymlink: true, signal: this.signal }))
    } catch {
      // It was removed meanwhile, or is not accessible. It existed when the folder was listed.
      return asSymlink(entry)
    }
  }
}

/** Whether the entry is a symlink that the listing has resolved to its target. */
function isResolvedSymlink({ isSymlink, kind }: Entry): boolean {
  return isSymlink === true && kind !== 'symlink'
}
