/**
 * Modification times and modes that a backend does not store: they are stored in the database. Paths are of the whole
 * tree.
 */
import type { Attributes } from '../../contract/capabilities.js'
import { defaultTraits, type Traits } from '../../contract/traits.js'
import { contentVersion, type Entry } from '../../contract/entry.js'
import { contentMode, withPermissions } from '../../contract/modes.js'
import { childOf, type Path } from '../../base/path.js'
import type { Store } from '../../database/tables.js'

export class AttributeOverlay {
  /** Whether the backend may lack an attribute. If false, nothing is stored. */
  readonly needed: boolean

  /** `timeStep`: the resolution of the backend's times. `kept`: the attributes that the backend stores. */
  constructor(
    private readonly store: Store['attributes'],
    private readonly timeStep: Traits['timeStep'],
    readonly kept: Traits['keeps'],
  ) {
    this.needed = defaultTraits.keeps.some((attribute) => !kept.includes(attribute))
  }

  /** Applies the stored attributes of `path` to the backend's entry. */
  async apply(path: Path, entry: Entry): Promise<Entry> {
    return this.needed ? overlaid(entry, await this.store.of(path)) : entry
  }

  /** Applies the stored attributes, as `apply` does, to the pages of a folder. */
  async *applyToPages(folder: Path, pages: AsyncIterable<readonly Entry[]>): AsyncGenerator<readonly Entry[]> {
    const stored = this.needed ? await this.store.ofChildren(folder) : undefined
    if (!stored || stored.size === 0) {
      yield* pages
      return
    }
    for await (const page of pages) yield page.map((entry) => overlaid(entry, stored.get(childOf(folder, entry.name))))
  }

  /**
   * To be called after the backend was asked to set attributes. `entry`: what Storage shows now. Stores what it does
   * not show and the backend does not store.
   */
  async afterSet(path: Path, to: Attributes, entry: Entry): Promise<void> {
    await this.store.set(path, this.#missing(to, entry))
  }

  /**
   * To be called after a file was written. Replaces the stored attributes of the old file by those of the new one that
   * the backend has not stored. Returns the entry with the attributes applied.
   */
  async afterWrite(path: Path, { modified, mode }: Attributes, entry: Entry): Promise<Entry> {
    if (!this.needed) return entry
    await this.store.delete(path)
    // If the backend has no times at all, the time of the write becomes the modification time.
    const written = modified ?? (hasNoTime(entry) ? new Date() : undefined)
    const bits = mode === undefined ? undefined : contentMode(mode)
    const missing = this.#missing({ modified: written, mode: bits }, entry)
    await this.store.set(path, missing)
    return overlaid(entry, missing)
  }

  /** Omits attributes that the backend has stored: they would hide later changes by other programs. */
  #missing({ modified, mode }: Attributes, entry: Entry): Attributes {
    const step = Number.isFinite(this.timeStep) ? Math.max(1, this.timeStep) : 1
    const isAnotherTime = modified && Math.abs(modified.getTime() - entry.modified.getTime()) >= step
    return {
      ...(isAnotherTime && !this.kept.includes('modified') && { modified }),
      ...(mode !== entry.mode && !this.kept.includes('mode') && { mode }),
    }
  }

  async afterCopy(from: Path, to: Path): Promise<void> {
    if (this.needed) await this.store.copy(from, to)
  }

  async delete(path: Path): Promise<void> {
    if (this.needed) await this.store.delete(path)
  }
}

function overlaid(entry: Entry, attributes: Attributes | undefined): Entry {
  if (!attributes) return entry
  const { modified = entry.modified } = attributes
  const mode = attributes.mode === undefined ? entry.mode : withPermissions(entry, attributes.mode)
  // Clients may set the same time on changed content: the revision is derived from the backend's own time instead.
  const revision = entry.revision ?? (hasNoTime(entry) ? undefined : contentVersion(entry))
  return { ...entry, modified, ...(revision !== undefined && { revision }), ...(mode !== undefined && { mode }) }
}

function hasNoTime({ modified }: Entry): boolean {
  return modified.getTime() === 0
}
