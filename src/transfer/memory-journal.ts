/** The journal of a copy within a request, in memory. */
import { nameOf, parentOf, type Path } from '../contract/path.js'
import type { CopiedState, CopyJournal, RecordedMembers } from './copy-job.js'

export class MemoryJournal implements CopyJournal {
  readonly resumes = false
  /** By folder, then by name. */
  readonly #copied = new Map<Path, Map<string, CopiedState>>()

  async itemsIn(folder: Path): Promise<RecordedMembers> {
    return { copied: this.#copied.get(folder) ?? new Map<string, CopiedState>(), extraneous: [] }
  }

  async copied(path: Path): Promise<CopiedState | undefined> {
    return this.#copied.get(parentOf(path))?.get(nameOf(path))
  }

  async record(path: Path, state: CopiedState): Promise<void> {
    const folder = parentOf(path)
    const members = this.#copied.get(folder)
    if (members) members.set(nameOf(path), state)
    else this.#copied.set(folder, new Map([[nameOf(path), state]]))
  }

  // No later run reads this journal, so the other records are not stored.

  resumableUpload(): undefined {
    return undefined
  }

  hasBegun(): Promise<boolean> {
    return Promise.resolve(false)
  }

  begin(): Promise<void> {
    return Promise.resolve()
  }

  forget(): Promise<void> {
    return Promise.resolve()
  }

  recordExtraneous(): Promise<void> {
    return Promise.resolve()
  }

  flushed(): Promise<void> {
    return Promise.resolve()
  }
}
