/** The description of a copy or move, and the journal that records its progress. */
import type { Entry } from '../contract/entry.js'
import type { GatewayError, MemberFailure } from '../base/errors.js'
import type { Failures } from '../base/failures.js'
import type { FairShare, Holder } from '../base/fair-share.js'
import { nameOf, parentOf, under, within, type Path } from '../base/path.js'
import type { SkippedNames } from '../storage/listable-names.js'
import type { MountedPath } from '../mounts/mounts.js'
import type { ResumableUpload } from '../storage/fallbacks/resumable-write.js'
import type { TransferMeter } from '../storage/transfer-meter.js'
import type { HeldPathLocks } from '../locks/path-locks.js'
import type { InPlaceHandles } from './in-place-handles.js'
import type { Intents } from './intents.js'

/** The request to copy or move an entry. */
export interface Transfer {
  readonly kind: 'copy' | 'move'
  readonly from: MountedPath
  readonly to: MountedPath
  /** The entry at `from`; for a symlink, the entry of the symlink itself. */
  readonly entry: Entry
  readonly signal: AbortSignal
  /** false: copies a folder without its members. */
  readonly deep: boolean
  /**
   * Existing folders are entered and existing files are left unchanged; otherwise the target is replaced as a whole.
   */
  readonly merge: boolean
  /** false: rejects with `exists` if an entry with the name of the target exists. */
  readonly overwrite: boolean
  /**
   * A move continues one that has made the target: its folders are entered, and files that are equal are its copies.
   */
  readonly continues: boolean
  /** The holder of everything that the transfer takes of a limited total. */
  readonly holder: Holder
  /** Measures what is read from one storage and written to the other. */
  readonly meter: TransferMeter
  readonly journal: CopyJournal
}

/** A transfer, with the checks that its caller makes of each member, and the functions that report its progress. */
export interface CopyJob {
  readonly transfer: Transfer
  /** Shared by all jobs. `transferSlots` limits the number of concurrent files. */
  readonly dependencies: {
    readonly transferSlots: FairShare
    readonly intents: Intents
    readonly inPlaceHandles: InPlaceHandles
  }

  /**
   * Rejects if the principal must not learn whether anything exists at this path of the target. Asked before the target
   * is.
   */
  assertTargetSeen(target: Path): Promise<void>
  /** Whether the principal may change what exists at this path of the target. */
  mayChange(target: Path): Promise<boolean>
  /** The path locks for the change of one member, or of several at once. */
  newLocks(): HeldPathLocks
  /**
   * The last check before files are published under these names in the target; takes the path locks of all of them.
   * Resolves to the error of each name that is refused: the others may be published.
   */
  refusedNames(
    locks: HeldPathLocks,
    targets: readonly Path[],
    asked: PublishOptions,
  ): Promise<ReadonlyMap<Path, unknown>>
  /**
   * The last check before an entry is removed; `tree`: with all its members. Takes the path lock. Rejects if it must
   * not be removed.
   */
  assertRemovable(locks: HeldPathLocks, what: RemovedPart, inner: Path, tree: boolean): Promise<void>
  /** Rejects if the target of the symlink at this path of the tree may not be read. */
  assertReadable(source: Path): Promise<void>
  /** Rejects if a symlink with this target text may not be created at this path of the tree. */
  assertSymlinkAllowed(target: Path, text: string): Promise<void>
  /** Whether a member of the source, by its path in the whole tree, is excluded. */
  excludes(path: Path): boolean
  /** The members that could not be copied, or whose source could not be removed. */
  readonly failures: Pick<Failures, 'count' | 'throwIfAny'>
  /** Adds a failure, and records it in the journal. */
  failed(failure: MemberFailure): Promise<void>
  /** Called with the number of bytes that were completed since the last call; negative after a failure. */
  advance(bytes: number): void
  /**
   * Called for each folder of the source, by its path in the whole tree, that has entries with unrepresentable names.
   */
  namesSkipped(folder: Path, skipped: SkippedNames): void
  /**
   * Called for each folder of the source, by its path in the whole tree, whose time and mode could not be set on its
   * copy.
   */
  attributesLost(folder: Path, error: GatewayError): void
}

export interface PublishOptions {
  /** Existing files may be replaced. */
  readonly replaces: boolean
  /** The names are new in their folder. */
  readonly isNew: boolean
}

/**
 * Which entry is removed. 'source': it was moved. 'extraneous': only the old target had it. 'replaced': another entry
 * replaces it in the target.
 */
export type RemovedPart = 'source' | 'extraneous' | 'replaced'

/**
 * Records the progress of a copy, so that a move can remove its sources and a later run can resume. All paths are paths
 * of the source in the whole tree.
 */
export interface CopyJournal {
  /** Whether an earlier run may have recorded anything. */
  readonly resumes: boolean
  /** The recorded members of a folder. */
  itemsIn(folder: Path): Promise<RecordedMembers>
  copied(path: Path): Promise<CopiedState | undefined>
  /**
   * Records that the copy of the source at this path was verified. Need not be stored before the call resolves; see
   * `flushed`.
   */
  record(path: Path, state: CopiedState): Promise<void>
  /** The resumable upload of this file, `source` being the file's state. Undefined if no later run could resume it. */
  resumableUpload(path: Path, source: string): ResumableUpload | undefined
  /** Records that the copy of this folder is about to be created at a free name. Resolves when that is stored. */
  begin(folder: Path): Promise<void>
  /** Deletes the record of this path, as for a folder that another writer created first. */
  forget(path: Path): Promise<void>
  /** Whether `begin` or `recordExtraneous` was called for this folder. */
  hasBegun(folder: Path): Promise<boolean>
  /**
   * Records the names, possibly none, that only the old target has in this folder. These are removed after everything
   * else is copied; entries that are added later are not. Resolves when that is stored.
   */
  recordExtraneous(folder: Path, names: readonly string[]): Promise<void>
  /**
   * Records why the member at this path has failed in this run, and the name of the failure. What was recorded of it
   * before remains.
   */
  fail(path: Path, reason: string, name?: string): Promise<void>
  /** Resolves when everything recorded before is stored. */
  flushed(): Promise<void>
}

export interface RecordedMembers {
  /** States of members whose copies were verified, by name. */
  readonly copied: ReadonlyMap<string, CopiedState>
  /** Names of entries that only the old target had. */
  readonly extraneous: readonly string[]
  /** Names of members that have failed in this run. */
  readonly failed: ReadonlySet<string>
}

/** State of a source when it was copied. */
export interface CopiedState {
  /** The state of the source, as `contentVersion` returns it. */
  readonly source: string
  readonly size: number
  /** Whether the copy is certainly a different file than the source, as one that was created under a free name. */
  readonly distinct: boolean
  /**
   * State of the copy when it was verified, in the same form. Undefined for folders, for symlinks, and if it was not
   * recorded.
   */
  readonly copy?: string | undefined
}

/** The path of the target to which a member of the source is copied. */
export function targetOf({ transfer: { from, to } }: CopyJob, inner: Path): Path {
  return under(to.inner, within(from.inner, inner) ?? inner)
}

/** A placeholder for a state that no caller reads. */
const someState: CopiedState = { source: '', size: 0, distinct: true }

/** The journal of a copy or move within a request, in memory: it keeps what a later step asks. */
export class MemoryJournal implements CopyJournal {
  readonly resumes = false
  /** The copied members by folder, then by name. */
  readonly #copied = new Map<Path, Map<string, CopiedState>>()

  /** `kept`: nothing, which members were copied, or also the states of their sources and copies. */
  constructor(private readonly kept: 'nothing' | 'members' | 'states') {}

  async itemsIn(folder: Path): Promise<RecordedMembers> {
    const copied = this.#copied.get(folder) ?? new Map<string, CopiedState>()
    // A member that has failed was not recorded.
    return { copied, extraneous: [], failed: new Set() }
  }

  async copied(path: Path): Promise<CopiedState | undefined> {
    return this.#copied.get(parentOf(path))?.get(nameOf(path))
  }

  async record(path: Path, state: CopiedState): Promise<void> {
    if (this.kept === 'nothing') return
    const folder = parentOf(path)
    const kept = this.kept === 'states' ? state : someState
    const members = this.#copied.get(folder)
    if (members) members.set(nameOf(path), kept)
    else this.#copied.set(folder, new Map([[nameOf(path), kept]]))
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

  fail(): Promise<void> {
    return Promise.resolve()
  }

  flushed(): Promise<void> {
    return Promise.resolve()
  }
}
