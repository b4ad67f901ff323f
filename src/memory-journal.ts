/** What a copy within a request keeps of itself: nothing of it outlives the process. */
import type { CopiedState, CopyJournal, KnownMembers } from './copy-job.js'
import { nameOf, parentOf, type Path } from './path.js'

export class MemoryJournal implements CopyJournal {
  readonly resumes = false
  /** By folder and name. */
  readonly #copied = new Map<Path, Map<string, CopiedState>>()

  async itemsIn(folder: Path): Promise<KnownMembers> {
    return { copied: this.#copied.get(folder) ?? new Map<string, CopiedState>(), surplus: [] }
  }

  async copied(path: Path): Promise<CopiedState | undefined> {
    return this.#copied.get(parentOf(path))?.get(nameOf(path))
  }

  async keep(path: Path, state: CopiedState): Promise<void> {
    const folder = parentOf(path)
    const members = this.#copied.get(folder)
    if (members) members.set(nameOf(path), state)
    else this.#copied.set(folder, new Map([[nameOf(path), state]]))
  }

  // Nobody goes on with it: there is nothing to keep of the rest.

  keptUpload(): undefined {
    return undefined
  }

  hasBegun(): Promise<boolean> {
    return Promise.resolve(false)
  }

  begin(): Promise<void> {
    return Promise.resolve()
  }

  takeBack(): Promise<void> {
    return Promise.resolve()
  }

  keepSurplus(): Promise<void> {
    return Promise.resolve()
  }

  settled(): Promise<void> {
    return Promise.resolve()
  }
}
