/** What is to be copied or moved, and what is kept of it. */
import type { Entry } from './driver.js'
import type { FileTurns } from './file-turns.js'
import type { Place } from './mounts.js'
import type { Path } from './path.js'

export interface CopyJob {
  readonly from: Place
  readonly to: Place
  readonly signal: AbortSignal
  /** false: a folder without its members. */
  readonly deep: boolean
  /** Existing folders are entered and existing files left alone; otherwise the target is replaced as a whole. */
  readonly merge: boolean
  /** false: `exists` where something has the target's name. */
  readonly overwrite: boolean
  /** Whether a member of the source, by its path in the whole tree, is to be left out. */
  readonly leaveOut: (path: Path) => boolean
  /**
   * Gives what stands at this path of the target another name, where its storage can; resolves to what removes it, or
   * puts it back where nothing took its place.
   */
  readonly setAside: (path: Path) => Promise<(() => Promise<void>) | undefined>
  /** Rejects where what a link at this path of the tree leads to may not be read. */
  readonly assertReadable: (source: Path) => Promise<void>
  /** Rejects where a link with this text must not stand at this path of the tree. */
  readonly assertLink: (target: Path, text: string) => Promise<void>
  /** The last check before a file takes its name in the target. Resolves to what ends the reservation it took. */
  readonly beforePublish: (target: Path) => Promise<() => void>
  /** Turns of files, shared by all jobs. */
  readonly turns: FileTurns
  /** So many bytes more are done, or fewer, of what failed. */
  readonly advance: (bytes: number) => void
  /** Absent: nobody would go on with it after a restart. */
  readonly journal?: CopyJournal | undefined
}

/** What is kept of a long copy, for another run to go on with. Paths are those of sources, in the whole tree. */
export interface CopyJournal {
  /** An earlier run may have done something of it. */
  readonly resumes: boolean
  /** What earlier runs told of the members of a folder. */
  itemsIn(folder: Path): Promise<KnownMembers>
  copied(path: Path): Promise<CopiedState | undefined>
  /** The copy of what stands at this path was verified. To be kept soon. */
  keep(path: Path, state: CopiedState): Promise<void>
  /** What the old target has under these names of a folder goes when everything else is copied. Resolves when that is surely kept. */
  keepSurplus(folder: Path, names: readonly string[]): Promise<void>
  /** Resolves when everything told before is surely kept. */
  settled(): Promise<void>
}

export interface KnownMembers {
  /** Those whose copies were verified, by name. */
  readonly copied: ReadonlyMap<string, CopiedState>
  /** Names of what only the old target had. */
  readonly surplus: readonly string[]
}

/** A source as it was when it was copied. */
export interface CopiedState {
  /** In the words of `stateOf`. */
  readonly source: string
  readonly size: number
}

/** One thing that was copied or moved, by its paths in the two storages. */
export interface Copied {
  readonly from: Path
  readonly to: Path
  /** The source as it was when it was read. */
  readonly entry: Entry
}
