/**
 * What follows a change of one storage: cached listings and direct URLs are invalidated, stored attributes follow the
 * file, and the change is announced. Paths are the driver's own.
 */
import type { Attributes } from '../contract/capabilities.js'
import type { Entry } from '../contract/entry.js'
import { under, type Path } from '../base/path.js'
import type { AttributeOverlay } from './fallbacks/attribute-overlay.js'
import { concernedPath, type Events } from './events.js'
import type { HandleChanges } from './edge.js'

export class StorageChanges {
  readonly #unsubscribe: () => void

  /**
   * `mountPoint`: the path of the tree where the storage appears. `invalidate` drops what is cached about a path;
   * `withBelow`: also about everything below it. It is called for the changes of others too.
   */
  constructor(
    private readonly mountPoint: Path,
    private readonly events: Events,
    private readonly attributes: AttributeOverlay,
    private readonly invalidate: (path: Path, withBelow: boolean) => void,
  ) {
    this.#unsubscribe = events.on((event) => {
      this.#forget(event.path, !['written', 'folder made'].includes(event.kind))
      if (event.kind === 'moved') this.#forget(event.from, true)
    })
  }

  close(): void {
    this.#unsubscribe()
  }

  /** Runs a change of these paths. If it fails, it may have changed something: what is cached is invalidated. */
  async attempt<T>(paths: readonly Path[], work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      for (const path of paths) this.#forget(this.#treePath(path), true)
      throw error
    }
  }

  /** A file was created, or its content or attributes were changed. */
  changed(path: Path): void {
    this.events.emit({ kind: 'written', path: this.#treePath(path) })
  }

  /** Another program has changed an entry, or something below it. */
  changedElsewhere(path: Path): void {
    this.events.emit({ kind: 'changed elsewhere', path: this.#treePath(path) })
  }

  /** The backend has stored a file as `entry`. Returns the entry with the attributes that were asked for. */
  async written(path: Path, asked: Attributes, entry: Entry): Promise<Entry> {
    try {
      return await this.attributes.afterWrite(this.#treePath(path), asked, entry)
    } finally {
      this.changed(path)
    }
  }

  /** The backend has copied a file. `storeMissing`: stores the attributes that were asked for and it has not set. */
  async copied(from: Path, to: Path, storeMissing: () => Promise<unknown>): Promise<void> {
    try {
      await this.attributes.afterCopy(this.#treePath(from), this.#treePath(to))
      await storeMissing()
    } finally {
      this.changed(to)
    }
  }

  async folderMade(path: Path): Promise<void> {
    // Another program may have removed an earlier entry of this name, whose attributes are still stored.
    await this.attributes.delete(this.#treePath(path))
    this.events.emit({ kind: 'folder made', path: this.#treePath(path) })
  }

  /** An entry was removed, with everything below it. */
  async removed(path: Path): Promise<void> {
    this.events.emit({ kind: 'removed', path: this.#treePath(path) })
    await this.attributes.delete(this.#treePath(path))
  }

  moved(from: Path, to: Path): void {
    this.events.emit({ kind: 'moved', from: this.#treePath(from), path: this.#treePath(to) })
  }

  /** Follows the changes of a handle that writes. `asked`: the attributes that its open asked for. */
  ofHandle(path: Path, mode: 'update' | 'replace', asked: Attributes): HandleChanges {
    let dirty = false
    return {
      changing: () => {
        if (mode !== 'update') return
        dirty = true
        // Changes in place are visible immediately, so a listing must not be cached between two writes.
        this.#forget(this.#treePath(path), false)
      },
      committing: () => {
        dirty = true
      },
      committed: (stored, { modified = asked.modified, mode: bits = asked.mode }) =>
        this.attributes.afterWrite(this.#treePath(path), { modified, mode: bits }, stored),
      ended: () => {
        if (dirty) this.changed(path)
        dirty = false
      },
    }
  }

  #treePath(path: Path): Path {
    return under(this.mountPoint, path)
  }

  /** Invalidates what a change at this path of the tree affects, also listings that are being loaded. */
  #forget(treePath: Path, withBelow: boolean): void {
    const path = concernedPath(this.mountPoint, treePath)
    if (path !== undefined) this.invalidate(path, withBelow)
  }
}
