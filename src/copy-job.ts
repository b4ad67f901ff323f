/** What is to be copied or moved, and what is kept of it. */
import type { FileTurns } from './file-turns.js'
import type { KeptUpload } from './kept-uploads.js'
import type { LeftOut } from './listed-names.js'
import type { Place } from './mounts.js'
import { under, within, type Path } from './path.js'

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
  /** Called for a folder of the source, by its path in the whole tree, of which names are left out because no path can hold them. */
  readonly leftOut: (folder: Path, leftOut: LeftOut) => void
  /** Gives what stands there another name; undefined for a folder whose storage cannot. */
  readonly setAside: (place: Place) => Promise<Aside | undefined>
  /** Makes room aside for what is to stand at this place of the target. */
  readonly writeAside: (place: Place) => Promise<Aside>
  /** Rejects where what a link at this path of the tree leads to may not be read. */
  readonly assertReadable: (source: Path) => Promise<void>
  /** Rejects where a link with this text must not stand at this path of the tree. */
  readonly assertLink: (target: Path, text: string) => Promise<void>
  /** The last check before files take these names in the target, all of them reserved. `replaces`: also those that are taken. */
  readonly beforePublish: (targets: readonly Path[], replaces: boolean) => Promise<Cleared>
  /** The last check before something goes; `tree`: with all that is in it. Resolves to what ends the reservation it took. */
  readonly beforeRemove: (what: Going, inner: Path, tree: boolean) => Promise<() => void>
  /** Turns of files, shared by all jobs. */
  readonly turns: FileTurns
  /** So many bytes more are done, or fewer, of what failed. */
  readonly advance: (bytes: number) => void
  readonly journal: CopyJournal
}

/** Names that may be taken now, but for some. */
export interface Cleared {
  /** Why not. */
  readonly refused: ReadonlyMap<Path, unknown>
  /** Ends the reservation of all of them. */
  readonly release: () => void
}

/** What was moved; or, of the target, what only the old one had, and that in the place of which something else comes. */
export type Going = 'source' | 'surplus' | 'replaced'

/** What stands under another name for a while, by an intent that is settled whenever its storage starts. */
export interface Aside {
  readonly at: Path
  /** What has its name now is of the transfer: it may go. */
  taken(): Promise<void>
  /** It takes the name that it is kept for. Where something has that now it goes if it may, else it is shown beside it. */
  settle(): Promise<void>
  /** It goes; where it cannot, it is settled, and that rejects. */
  remove(): Promise<void>
}

/** What is kept of a copy: to remove what was moved, and for another run to go on with. Paths are those of sources, in the whole tree. */
export interface CopyJournal {
  /** An earlier run may have done something of it. */
  readonly resumes: boolean
  /** What is known of the members of a folder. */
  itemsIn(folder: Path): Promise<KnownMembers>
  copied(path: Path): Promise<CopiedState | undefined>
  /** The copy of what stands at this path was verified. To be kept soon. */
  keep(path: Path, state: CopiedState): Promise<void>
  /** What is kept of this file while it is on its way, `source` being its state; undefined where nobody would go on with it. */
  keptUpload(path: Path, source: string): KeptUpload | undefined
  /** The copy of this folder is about to be made, where nothing is. Resolves when that is surely kept. */
  begin(folder: Path): Promise<void>
  /** Forgets what was told of this path, such as a folder that somebody else was the first to make. */
  takeBack(path: Path): Promise<void>
  /** Whether the copy of this folder is of this work's own making, or its surplus was told. */
  hasBegun(folder: Path): Promise<boolean>
  /**
   * What the old target has under these names of a folder, and maybe none, goes when everything else is copied; nothing that comes
   * later. Resolves when that is surely kept.
   */
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
  /** The copy is another thing than the source for sure, such as one that took a name that was free. */
  readonly apart: boolean
  /** The copy as it was when it was verified, in the same words. Undefined of folders, of links, and where nobody noted it. */
  readonly copy?: string | undefined
}

/** Where a member of the source is copied to. */
export function targetOf({ from, to }: Pick<CopyJob, 'from' | 'to'>, inner: Path): Path {
  return under(to.inner, within(from.inner, inner) ?? inner)
}
