/** A folder that is being read: batches of names, flat in memory however many there are. */
import type { Entry } from '../../src/driver.js'
import { childOf, parentOf, type Path } from '../../src/path.js'
import { asLink, writeAttributes } from './attributes.js'
import { longName } from './long-name.js'
import { PacketBuilder } from './packets.js'
import { packetType } from './protocol.js'
import type { Tree } from './tree.js'

/** An answer is sent once it has grown to this size. */
const answerSize = 32 * 1024

export interface Owner {
  readonly id: number
  readonly name: string
}

export class FolderHandle {
  readonly kind = 'folder'
  #entries: Iterator<Entry> = [][Symbol.iterator]()
  #turn: Promise<unknown> = Promise.resolve()

  private constructor(
    private readonly tree: Tree,
    readonly path: Path,
    private readonly owner: Owner,
    private readonly pages: AsyncIterator<readonly Entry[]>,
    /** Names that only this session sees so far, and how it sees the others that it writes. */
    private readonly own: Map<string, Entry>,
    private readonly signal: AbortSignal,
  ) {}

  /** Rejects where the folder is not there, is none, or may not be listed. */
  static async open(
    tree: Tree,
    path: Path,
    owner: Owner,
    own: Map<string, Entry>,
    signal: AbortSignal,
  ): Promise<FolderHandle> {
    const pages = tree.pages(path, { signal })[Symbol.asyncIterator]()
    const handle = new FolderHandle(tree, path, owner, pages, own, signal)
    const first = await pages.next()
    const self = await tree.stat(path, { signal })
    // Whoever may not see the parent is told of the folder itself.
    const parent = await tree.stat(parentOf(path), { signal }).catch(() => self)
    const dots = [
      { ...self, name: '.' },
      { ...parent, name: '..' },
    ]
    handle.#entries = [...dots, ...(first.done === true ? [] : await handle.#seen(first.value))][Symbol.iterator]()
    return handle
  }

  /** The next NAME packet, or undefined at the end. Calls are served in turn. */
  next(id: number): Promise<Buffer | undefined> {
    const next = this.#turn.then(() => this.#batch(id))
    this.#turn = next.catch(() => undefined)
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
    while (packet.length < answerSize) {
      const next = this.#entries.next()
      if (next.done !== true) {
        const entry = next.value
        packet.string(entry.name).string(longName(entry, entry.name, this.owner.name, now))
        writeAttributes(packet, entry, this.owner.id)
        count++
      } else if (!(await this.#turnPage())) {
        break
      }
    }
    return count === 0 ? undefined : packet.replaceUint32(count, countAt).finish()
  }

  async #turnPage(): Promise<boolean> {
    const page = await this.pages.next()
    const entries = page.done === true ? [...this.own.values()] : await this.#seen(page.value)
    if (page.done === true) this.own.clear()
    this.#entries = entries[Symbol.iterator]()
    return page.done !== true || entries.length > 0
  }

  async #seen(entries: readonly Entry[]): Promise<readonly Entry[]> {
    if (this.own.size === 0 && !entries.some(leadsSomewhere)) return entries
    return Promise.all(
      entries.map(async (entry) => {
        const own = this.own.get(entry.name)
        this.own.delete(entry.name)
        return own ?? (leadsSomewhere(entry) ? this.#ofLink(entry) : entry)
      }),
    )
  }

  /** A link with its own size and time, as LSTAT tells them: a listing has those of what it leads to. */
  async #ofLink(entry: Entry): Promise<Entry> {
    try {
      return asLink(await this.tree.stat(childOf(this.path, entry.name), { link: true, signal: this.signal }))
    } catch {
      // It has gone meanwhile, or cannot be asked for: it was there when the folder was listed.
      return asLink(entry)
    }
  }
}

function leadsSomewhere({ isLink, kind }: Entry): boolean {
  return isLink === true && kind !== 'link'
}
