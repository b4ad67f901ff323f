/**
 * Files that get the names of others, on servers where that may stop in the middle, or be done without an answer.
 * `settle` finds out what has become of such a replacement, and completes or undoes it: the old or the new file has the
 * name then, and neither is removed while it may be the only copy. The servers differ in how they replace: by one move
 * (`staged-files.ts`), or only after the old file was set aside (`Replacements`).
 */
import type { DriverEnv } from '../../../src/contract/driver-env.js'
import { GatewayError, toGatewayError } from '../../../src/base/errors.js'
import { nameOf, siblingPathOf, type Path } from '../../../src/base/path.js'
import { ChangeJournal } from './change-journal.js'

/** One replacement. Stored as JSON, so the names of its fields must not change. */
export interface Replacement {
  /** The path of the new file before the replacement. */
  readonly from: Path
  /** The path of the old file before the replacement, and of the new file after it. */
  readonly to: Path
  /** The path of the old file during the replacement. Absent: the server replaces the file in one move. */
  readonly backup?: Path
  /** Identifies the old file on a server that replaces by itself; absent if there was none. */
  readonly old?: string
  /** Whether `from` is a staged file, which is removed if it does not replace the old one. */
  readonly isStaged: boolean
  /** Bytes of the new file, if known. */
  readonly size?: number | undefined
  readonly isFolder?: boolean | undefined
}

/** A file on the server. */
export interface FoundFile {
  /** Differs between versions of a file, if the server reports that. */
  readonly identity?: string | undefined
  /** Bytes, if the server reports them. */
  readonly size?: number | undefined
}

export interface ReplacingFiles {
  /** Undefined if nothing exists there. */
  find(path: Path): Promise<FoundFile | undefined>
  /** Renames to a name that is free. */
  move(from: Path, to: Path, isFolder: boolean): Promise<void>
  /** Removes a file. A missing one is not an error. */
  remove(path: Path): Promise<void>
}

/**
 * 'replaced': the new file has the name; 'restored': the old one has it, or nothing is lost; 'both': another file has
 * it, or the new one is incomplete, and the file at `kept` remains beside it.
 */
export type Settlement =
  { readonly outcome: 'replaced' | 'restored' } | { readonly outcome: 'both'; readonly kept: Path | undefined }

/** Completes or undoes a replacement that the server does not work on any more. Calls of `files` do not overlap. */
export async function settle(files: ReplacingFiles, replacement: Replacement): Promise<Settlement> {
  const { from, to, backup, old, isStaged, isFolder = false, size } = replacement
  const current = await files.find(to)
  const aside = backup && (await files.find(backup))
  const next = await files.find(from)
  const discardNew = async () => {
    if (next && isStaged) await files.remove(from)
  }
  if (!current && backup && aside) {
    await files.move(backup, to, isFolder)
    await discardNew()
    return { outcome: 'restored' }
  }
  if (!current && next && isStaged && (backup ?? old) !== undefined) {
    // The old file is lost: another client, or the server, has removed it.
    await files.move(from, to, isFolder)
    return { outcome: 'replaced' }
  }
  if (current && !next && (size === undefined || current.size === size)) {
    if (backup && aside) await files.remove(backup)
    return { outcome: 'replaced' }
  }
  if (current && next && backup === undefined && !isIntact(current, old, next)) {
    // The file with the name is truncated, or another client wrote it. Neither can be discarded.
    const kept = siblingPathOf(to, 'kept')
    await files.move(from, kept, isFolder)
    return { outcome: 'both', kept }
  }
  await discardNew()
  return current && aside ? { outcome: 'both', kept: backup } : { outcome: 'restored' }
}

/** Whether the file with the name is the unchanged old one, or has the size of the new one. */
function isIntact(current: FoundFile, old: string | undefined, next: FoundFile): boolean {
  return current.identity === old || (next.size !== undefined && next.size === current.size)
}

/** Milliseconds between two attempts to settle what was interrupted. */
const retryInterval = 1000

interface ReplacementsDependencies {
  readonly files: ReplacingFiles
  /** Maximum number of bytes of the name of a file that is set aside. */
  readonly maxName: number
  readonly env: Pick<DriverEnv, 'state' | 'log'>
  /** Serializes the changes of a name. */
  readonly exclusively: <T>(path: Path, work: () => Promise<T>) => Promise<T>
}

type SettingAside = Replacement & Required<Pick<Replacement, 'backup'>>

/**
 * Replaces files on servers that cannot: the old file is set aside under a visible name, the new one gets its name, and
 * the old one is removed. Each replacement is in a journal, from which one that was interrupted is settled.
 */
export class Replacements {
  readonly #journal: ChangeJournal<SettingAside>
  #lastAttempt = Number.NEGATIVE_INFINITY

  constructor(private readonly dependencies: ReplacementsDependencies) {
    const { env, exclusively } = dependencies
    this.#journal = new ChangeJournal<SettingAside>({
      state: env.state,
      log: env.log,
      keys: ['replacing'],
      parse: (value) => value as SettingAside | undefined,
      settle: ({ to }) => exclusively(to, () => this.settleAt(to)),
    })
  }

  /**
   * Settles what earlier runs and ended nodes have left. What cannot be settled now, and what nodes leave that end
   * later, is settled before later calls.
   */
  async load(): Promise<void> {
    await this.#journal.load()
    await this.settle()
  }

  /** Whether the path is that of a file that is set aside at present. Listings leave it out. */
  isBackup(path: Path): boolean {
    return this.#journal.all.some(({ backup }) => backup === path)
  }

  /** Whether the file may still have to replace another one. */
  isNeeded(staged: Path): boolean {
    return this.#journal.all.some(({ from }) => from === staged)
  }

  /**
   * Gives `from` the name of the file at `to`. If it rejects, the old file has its name again, or will have before the
   * next call. Must run exclusively for `to`.
   */
  async replace(from: Path, to: Path, isStaged: boolean): Promise<void> {
    const { files, maxName } = this.dependencies
    const size = (await files.find(from))?.size
    const backup = siblingPathOf(to, 'replaced', maxName)
    await this.#perform({ from, to, backup, isStaged, size }, async () => {
      await files.move(to, backup, false)
      await files.move(from, to, false)
      await files.remove(backup)
    })
  }

  /**
   * Renames an entry to another spelling of its name, by a name that differs from both. If it rejects, the entry has
   * one of its two spellings, or will have before the next call. Must run exclusively for `to`.
   */
  async respell(from: Path, to: Path, isFolder: boolean): Promise<void> {
    const { files, maxName } = this.dependencies
    const backup = siblingPathOf(to, 'kept', maxName)
    await this.#perform({ from, to, backup, isStaged: false, isFolder }, async () => {
      await files.move(from, backup, isFolder)
      await files.move(backup, to, isFolder)
    })
  }

  async #perform(replacement: SettingAside, steps: () => Promise<void>): Promise<void> {
    try {
      await this.#journal.add(replacement)
      await steps()
      await this.#journal.forget(replacement)
    } catch (error) {
      const settling = this.#settle(replacement)
      const isReplaced = await settling.catch((reason: unknown) => this.#defer(replacement, error, reason))
      if (!isReplaced) throw error
    }
  }

  /** Completes or undoes what was interrupted. Never rejects. */
  async settle(): Promise<void> {
    if (!this.#journal.hasInterrupted || performance.now() - this.#lastAttempt < retryInterval) return
    this.#lastAttempt = performance.now()
    await this.#journal.settle()
  }

  /**
   * Settles what was interrupted at this name. Rejects if that is not possible now. Must run exclusively for `path`.
   */
  async settleAt(path: Path): Promise<void> {
    const isLeft = (each: SettingAside) => each.to === path && this.#journal.isInterrupted(each)
    for (const replacement of this.#journal.all.filter(isLeft)) await this.#settle(replacement)
  }

  /** Resolves to whether the new file has the name. Rejects if that cannot be found out or achieved. */
  async #settle(replacement: SettingAside): Promise<boolean> {
    const { files, env } = this.dependencies
    const { to, backup } = replacement
    const { outcome } = await settle(files, replacement)
    if (outcome === 'both') {
      env.log.error({ path: to, backup }, 'a file was created while another one was replaced, the old one remains')
    }
    await this.#journal.forget(replacement)
    return outcome === 'replaced'
  }

  #defer(replacement: SettingAside, error: unknown, reason: unknown): never {
    const { to, backup } = replacement
    this.#journal.interrupted(replacement)
    this.dependencies.env.log.error({ err: reason, path: to, backup }, 'a replacement was interrupted, will retry')
    throw new GatewayError(toGatewayError(error).code, {
      reason: `the original file may for a while be named "${nameOf(backup)}"`,
      cause: error,
    })
  }
}
