/** Staged files: written under hidden names in the target folder, and renamed when they are complete. */
import { throwIfAborted } from '../../src/base/cancellation.js'
import type { UploadPlan } from '../../src/contract/capabilities.js'
import type { WriteOptions } from '../../src/contract/call-options.js'
import type { Entry } from '../../src/contract/entry.js'
import { nameOf, parentOf, type Path } from '../../src/base/path.js'
import { parseResumeToken, stagingRun, stagedName } from '../lib/staged-files/staged-names.js'
import type { Share } from './client/share.js'
import type { SmbLocation, SmbLocations } from './locations.js'
import { folderOf, isSameName, joinWirePath, wireName } from './names.js'
import type { ShareLease, SharePool } from './shares.js'
import { SmbStagedFile } from './open-files.js'

interface StagingDependencies {
  /** The name of this process instance, part of each staged name. */
  readonly instance: string
  readonly locations: SmbLocations
  /** The connections for writes. */
  readonly shares: SharePool
  /** Queues a file for removal. */
  readonly deleteLater: (wirePath: string) => void
}

/** A staged file and its connection. */
interface StagedWrite {
  readonly lease: ShareLease
  readonly location: SmbLocation
  readonly staged: SmbStagedFile
  /** Bytes from the start that an earlier upload has committed. */
  readonly committed: number
}

export class SmbStaging {
  /** Wire paths of the staged files that are being written. */
  readonly #writing = new Set<string>()

  constructor(private readonly dependencies: StagingDependencies) {}

  /**
   * Opens a staged file in the folder of `path`. With `plan`, the file is resumable, and the upload that the plan's
   * token names is continued if possible. Rejects with `is_folder` if `path` is a folder, and with `exists` if
   * `createOnly` is set and it is a file.
   */
  async stage(path: Path, { createOnly }: WriteOptions, plan?: UploadPlan): Promise<StagedWrite> {
    const { instance, locations, shares } = this.dependencies
    return shares.useIdempotent(async (share) => {
      const location = await locations.findReplaceable(share, path, createOnly)
      const earlier = plan && (await this.#reopen(share, path, location, plan))
      const stagedPath = joinWirePath(folderOf(location.wire), stagedName(instance))
      const create = () => SmbStagedFile.create(share, stagedPath, plan !== undefined)
      const staged =
        earlier?.staged ?? (await create().catch((error: unknown) => locations.refineCreateError(share, error, path)))
      this.#writing.add(staged.wirePath)
      const lease = shares.retain(share)
      const release = () => {
        this.#writing.delete(staged.wirePath)
        lease.release()
      }
      return { lease: { share, release }, location, staged, committed: earlier?.committed ?? 0 }
    })
  }

  /**
   * The staged file of an earlier upload. Undefined if there is none, or if it does not match the plan: then it is
   * removed.
   */
  async #reopen(share: Share, path: Path, location: SmbLocation, { resumeToken = '', size }: UploadPlan) {
    const resumable = parseResumeToken(resumeToken)
    if (!resumable) return undefined
    const isSameFolder = parentOf(resumable.path) === parentOf(path)
    const sibling = joinWirePath(folderOf(location.wire), wireName(nameOf(resumable.path)))
    const fits = (stored: number) =>
      isSameFolder && resumable.committed > 0 && resumable.committed <= stored && stored <= size
    const staged = await SmbStagedFile.reopen(
      share,
      isSameFolder ? sibling : this.dependencies.locations.wirePath(resumable.path),
      fits,
    )
    return staged && { staged, committed: resumable.committed }
  }

  /** Renames the staged file to its final name and resolves to its entry. */
  async publish(staged: SmbStagedFile, location: SmbLocation, path: Path, options: WriteOptions): Promise<Entry> {
    const { locations } = this.dependencies
    await options.beforePublish?.()
    throwIfAborted(options.signal)
    const replaces = options.createOnly !== true
    await staged
      .publish(location.wire, replaces, options.modified)
      .catch((error: unknown) => locations.refineRenameError(staged.share, error, path))
    return locations.entryAt(staged.share, path)
  }

  /** Removes the staged file; if that fails, queues its path for removal. */
  async discard(staged: SmbStagedFile): Promise<void> {
    if (!(await staged.discard())) this.dependencies.deleteLater(staged.wirePath)
  }

  /** Whether a staged file is being written anywhere below the wire path `folder`. */
  isWritingIn(folder: string): boolean {
    return [...this.#writing].some((each) => each.startsWith(`${folder}\\`))
  }

  /** Whether this instance created the staged file and is no longer writing it. */
  isOrphan(wirePath: string): boolean {
    const isOwn = stagingRun(wirePath.slice(wirePath.lastIndexOf('\\') + 1)) === this.dependencies.instance
    return isOwn && ![...this.#writing].some((each) => isSameName(each, wirePath))
  }
}
