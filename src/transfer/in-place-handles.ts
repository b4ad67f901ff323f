/**
 * The handles of this process that change files in place. A move that copies a file and then removes the source must
 * not lose what they write: their changes wait while the source is removed. From then on, a handle whose file has lost
 * its name rejects changes, because the backend would write to the removed file.
 */
import { untilAborted } from '../base/cancellation.js'
import type { WritableFile } from '../contract/capabilities.js'
import type { FileIdentity } from '../contract/entry.js'
import { GatewayError } from '../base/errors.js'
import { under, within, type Path } from '../base/path.js'
import type { Events } from '../storage/events.js'
import type { MountedPath } from '../mounts/mounts.js'
import { compareIdentities, identitiesOf } from './same-file.js'

/** A handle that was opened to change a file. */
interface InPlaceFile {
  readonly file: WritableFile
  /** Whether a move has removed the file. Changes reject with `busy` then. */
  readonly isMovedAway: () => boolean
}

/** The changes of some handles wait. */
export interface PausedHandles {
  /** Number of handles whose changes waited from the start. */
  readonly count: number
  /** Ends the pause. Handles whose name is gone, or cannot be looked up, reject changes from now on. */
  resume(): Promise<void>
}

export class InPlaceHandles {
  readonly #handles = new Set<InPlaceHandle>()
  readonly #pauses = new Set<Pause>()

  constructor(events: Pick<Events, 'on'>) {
    events.on((event) => {
      if (event.kind === 'moved') for (const handle of this.#handles) handle.follow(event.from, event.path)
    })
  }

  /**
   * Opens the file at `place` by `open`. A handle with `commit` looks its name up by itself, and is returned as it is.
   */
  async open(place: MountedPath, open: () => Promise<WritableFile>): Promise<InPlaceFile> {
    const handle = new InPlaceHandle(place)
    this.#handles.add(handle)
    const remove = () => this.#handles.delete(handle)
    try {
      await handle.identities
      // The look-up is that of the move: where it fails, the file may be the one that is moved.
      for (const pause of this.#pauses) if (await handle.isAffectedBy(pause).catch(() => true)) pause.add(handle)
      const file = await open()
      if (!file.commit) return { file: handle.guard(file, remove), isMovedAway: () => handle.isMovedAway }
      remove()
      return { file, isMovedAway: () => false }
    } catch (error) {
      remove()
      throw error
    }
  }

  /** Resolves when no handle of this process is changing the file at `place`. Later changes wait for `resume`. */
  async pause(place: MountedPath, signal: AbortSignal): Promise<PausedHandles> {
    const pause = new Pause(place, signal)
    this.#pauses.add(pause)
    const resume = async () => {
      this.#pauses.delete(pause)
      await pause.end()
    }
    try {
      for (const handle of [...this.#handles]) if (await handle.isAffectedBy(pause)) pause.add(handle)
      await untilAborted(pause.runningChanges(), signal)
    } catch (error) {
      await resume()
      throw error
    }
    return { count: pause.count, resume }
  }
}

/** The removal of the source of a move. */
class Pause {
  readonly #handles = new Set<InPlaceHandle>()
  readonly #ended: Promise<void>
  #end: () => void = () => undefined
  #identities: Promise<readonly FileIdentity[]> | undefined

  constructor(
    private readonly place: MountedPath,
    private readonly signal: AbortSignal,
  ) {
    this.#ended = new Promise((resolve) => (this.#end = resolve))
  }

  get identities(): Promise<readonly FileIdentity[]> {
    return (this.#identities ??= identitiesOf(this.place, this.signal))
  }

  get count(): number {
    return this.#handles.size
  }

  add(handle: InPlaceHandle): void {
    this.#handles.add(handle)
    handle.waitFor(this.#ended)
  }

  async runningChanges(): Promise<void> {
    await Promise.all([...this.#handles].map((handle) => handle.runningChanges()))
  }

  async end(): Promise<void> {
    await Promise.all([...this.#handles].map((handle) => handle.checkName()))
    this.#end()
  }
}

class InPlaceHandle {
  /** The identities of the file that the handle belongs to. */
  identities: Promise<readonly FileIdentity[]>
  #isMovedAway = false
  readonly #pauses = new Set<Promise<void>>()
  readonly #changes = new Set<Promise<void>>()

  constructor(private place: MountedPath) {
    this.identities = this.#lookUp()
  }

  get isMovedAway(): boolean {
    return this.#isMovedAway
  }

  async isAffectedBy(pause: Pause): Promise<boolean> {
    return compareIdentities(await this.identities, await pause.identities) === 'same'
  }

  waitFor(pause: Promise<void>): void {
    this.#pauses.add(pause)
    void pause.then(() => this.#pauses.delete(pause))
  }

  /** Resolves when the changes that are running now have ended. */
  async runningChanges(): Promise<void> {
    await Promise.allSettled([...this.#changes])
  }

  /** The backend has renamed an entry of the tree. */
  follow(from: Path, to: Path): void {
    const { storage, inner } = this.place
    const below = within(from, storage.treePath(inner))
    const moved = below === undefined ? undefined : within(storage.mountPoint, under(to, below))
    if (moved === undefined) return
    this.place = { storage, inner: moved }
    this.identities = this.#lookUp()
  }

  async checkName(): Promise<void> {
    const { storage, inner } = this.place
    const exists = await storage.has(inner).catch(() => false)
    if (!exists) this.#isMovedAway = true
  }

  guard(file: WritableFile, closed: () => void): WritableFile {
    const { entry, preferredReadSize } = file
    return {
      entry,
      ...(preferredReadSize !== undefined && { preferredReadSize }),
      read: (into, position) => file.read(into, position),
      write: (from, position) => this.#change(() => file.write(from, position)),
      truncate: (size) => this.#change(() => file.truncate(size)),
      sync: () => file.sync(),
      close: () => file.close().finally(closed),
    }
  }

  /** Begins at once unless there is a pause: the order of writes is kept. */
  async #change(work: () => Promise<void>): Promise<void> {
    while (this.#pauses.size > 0) await Promise.all([...this.#pauses])
    if (this.#isMovedAway) {
      throw new GatewayError('busy', { reason: 'the file was moved to another place while it was open' })
    }
    const change = work()
    this.#changes.add(change)
    try {
      await change
    } finally {
      this.#changes.delete(change)
    }
  }

  #lookUp(): Promise<readonly FileIdentity[]> {
    // Without identities, no move affects the handle. Its open rejects if the file cannot be reached.
    return identitiesOf(this.place, undefined).catch(() => [])
  }
}
