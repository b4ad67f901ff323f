/** The journal of a task, in memory. */
import { nameOf, parentOf, type Path } from '../../src/base/path.js'
import type { CopiedState, CopyJournal, RecordedMembers } from '../../src/transfer/copy-job.js'

/** Does what the rows of the store do, without a store. */
export class Journal implements CopyJournal {
  readonly kept = new Map<Path, CopiedState>()

  #resumes: boolean

  constructor(resumes = false) {
    this.#resumes = resumes
  }

  get resumes(): boolean {
    return this.#resumes
  }

  /** Set before each run, which forgets the failures of earlier ones. */
  set resumes(resumes: boolean) {
    this.#resumes = resumes
    this.failures.clear()
  }

  readonly extraneous = new Map<Path, readonly string[]>()

  async itemsIn(folder: Path): Promise<RecordedMembers> {
    const members = [...this.kept].filter(([path]) => parentOf(path) === folder)
    const copied = new Map(members.map(([path, kept]) => [nameOf(path), kept]))
    const failed = [...this.failures.keys()].filter((path) => parentOf(path) === folder).map(nameOf)
    return { copied, extraneous: this.extraneous.get(folder) ?? [], failed: new Set(failed) }
  }

  /** By path, of this run. */
  readonly failures = new Map<Path, string>()

  async fail(path: Path, reason: string): Promise<void> {
    this.failures.set(path, reason)
  }

  async recordExtraneous(folder: Path, names: readonly string[]): Promise<void> {
    this.begun.add(folder)
    this.extraneous.set(folder, names)
  }

  async copied(path: Path): Promise<CopiedState | undefined> {
    return this.kept.get(path)
  }

  async record(path: Path, state: CopiedState): Promise<void> {
    this.kept.set(path, state)
  }

  readonly begun = new Set<Path>()

  async begin(folder: Path): Promise<void> {
    this.begun.add(folder)
  }

  async forget(path: Path): Promise<void> {
    this.begun.delete(path)
    this.extraneous.set(
      parentOf(path),
      (this.extraneous.get(parentOf(path)) ?? []).filter((name) => name !== nameOf(path)),
    )
  }

  async hasBegun(folder: Path): Promise<boolean> {
    return this.begun.has(folder) || this.kept.has(folder)
  }

  resumableUpload(): undefined {
    return undefined
  }

  async flushed(): Promise<void> {
    // There is nothing that could be lost.
  }
}
