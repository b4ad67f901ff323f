/** Times and modes of files whose backend keeps none: they are kept in the store. Paths are of the whole tree. */
import { stateOf } from './change.js'
import type { Attributes, Entry, Traits } from './driver.js'
import { childOf, type Path } from './path.js'
import type { Store } from './store/rows.js'

export class KeptAttributes {
  /** `needed`: whether the backend keeps none; otherwise nothing is kept here either. */
  constructor(
    private readonly store: Store['attributes'],
    private readonly timeStep: Traits['timeStep'],
    readonly needed: boolean,
  ) {}

  /** What the backend tells of `path`, with what is kept over it. */
  async over(path: Path, entry: Entry): Promise<Entry> {
    return this.needed ? overlaid(entry, await this.store.of(path)) : entry
  }

  /** The same for the pages of a folder. */
  async *overPages(folder: Path, pages: AsyncIterable<readonly Entry[]>): AsyncGenerator<readonly Entry[]> {
    const kept = this.needed ? await this.store.ofChildren(folder) : undefined
    if (!kept || kept.size === 0) {
      yield* pages
      return
    }
    for await (const page of pages) yield page.map((entry) => overlaid(entry, kept.get(childOf(folder, entry.name))))
  }

  async set(path: Path, to: Attributes): Promise<void> {
    await this.store.set(path, to)
  }

  /** After a file was written: what was kept of the old one goes, what the backend did not keep of the new one stays. */
  async written(path: Path, { modified, mode }: Attributes, entry: Entry): Promise<Entry> {
    if (!this.needed) return entry
    await this.store.delete(path)
    // A backend that tells no time at all: the time of writing is as much of the file as anything can be.
    const written = modified ?? (isTimeless(entry) ? new Date() : undefined)
    const step = Number.isFinite(this.timeStep) ? Math.max(1, this.timeStep) : 1
    // Only what the backend did not keep: the rest would hide what another program makes of the file.
    const lost = {
      ...(written && Math.abs(written.getTime() - entry.modified.getTime()) >= step && { modified: written }),
      ...(mode !== undefined && mode !== entry.mode && { mode }),
    }
    await this.store.set(path, lost)
    return overlaid(entry, lost)
  }

  async copied(from: Path, to: Path): Promise<void> {
    if (this.needed) await this.store.copy(from, to)
  }

  async forget(path: Path): Promise<void> {
    if (this.needed) await this.store.delete(path)
  }
}

function overlaid(entry: Entry, attributes: Attributes | undefined): Entry {
  if (!attributes) return entry
  const { modified = entry.modified, mode = entry.mode } = attributes
  // Clients set the same time on another content: what the backend told still says which content it is.
  const revision = entry.revision ?? (isTimeless(entry) ? undefined : stateOf(entry))
  return { ...entry, modified, ...(revision !== undefined && { revision }), ...(mode !== undefined && { mode }) }
}

function isTimeless({ modified }: Entry): boolean {
  return modified.getTime() === 0
}
