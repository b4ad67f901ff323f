/** Files that are written beside their place, under names that nobody is shown, until they take their own. */
import { assertGoing } from '../../src/aborting.js'
import type { Entry, UploadPlan, WriteOptions } from '../../src/driver.js'
import { nameOf, parentOf, type Path } from '../../src/path.js'
import { keptFile, stagedBy, stagedName } from '../lib/staged-names.js'
import type { Share } from './client/share.js'
import { folderOf, isSameName, joined, wireName } from './names.js'
import type { Place, Places } from './places.js'
import type { Held, Shares } from './shares.js'
import { StagedFile } from './staged-file.js'

interface StagingParts {
  /** The name of this run of the program. */
  readonly instance: string
  readonly places: Places
  /** The connections of what changes. */
  readonly shares: Shares
  /** Removes a file soon. */
  readonly sweep: (wirePath: string) => void
}

/** What is staged, on a connection that is kept. */
interface OnStage {
  readonly held: Held
  readonly place: Place
  readonly staged: StagedFile
  /** Bytes that an earlier upload left. */
  readonly confirmed: number
}

export class Staging {
  /** Where files are being written. */
  readonly #writing = new Set<string>()

  constructor(private readonly parts: StagingParts) {}

  /** A new file beside `path`, which can be replaced; with a plan, one that may be left, or that was. */
  async stage(path: Path, { createOnly }: WriteOptions, plan?: UploadPlan): Promise<OnStage> {
    const { instance, places, shares } = this.parts
    return shares.useAgain(async (share) => {
      const place = await places.replaceable(share, path, createOnly)
      const left = plan && (await this.#left(share, path, place, plan))
      const aside = joined(folderOf(place.wire), stagedName(instance))
      const create = () => StagedFile.create(share, aside, plan !== undefined)
      const staged = left?.staged ?? (await create().catch((error: unknown) => places.explainNew(share, error, path)))
      this.#writing.add(staged.wirePath)
      const held = shares.keep(share)
      const give = () => {
        this.#writing.delete(staged.wirePath)
        held.give()
      }
      return { held: { share, give }, place, staged, confirmed: left?.confirmed ?? 0 }
    })
  }

  /** What an earlier upload has left; undefined where it cannot be relied on, and then it goes. */
  async #left(share: Share, path: Path, place: Place, { resume = '', size }: UploadPlan) {
    const kept = keptFile(resume)
    if (!kept) return undefined
    const isBeside = parentOf(kept.path) === parentOf(path)
    const beside = joined(folderOf(place.wire), wireName(nameOf(kept.path)))
    const fits = (stored: number) => isBeside && kept.held > 0 && kept.held <= stored && stored <= size
    const staged = await StagedFile.reopen(share, isBeside ? beside : this.parts.places.wire(kept.path), fits)
    return staged && { staged, confirmed: kept.held }
  }

  /** The staged file takes its name. */
  async publish(staged: StagedFile, place: Place, path: Path, options: WriteOptions): Promise<Entry> {
    const { places } = this.parts
    await options.beforePublish?.()
    assertGoing(options.signal)
    const replaces = options.createOnly !== true
    await staged
      .publish(place.wire, replaces, options.modified)
      .catch((error: unknown) => places.explainTaken(staged.share, error, path))
    return places.entryAt(staged.share, path)
  }

  /** Most servers remove it with its connection; by name, it goes from all. */
  async discard(staged: StagedFile): Promise<void> {
    if (!(await staged.discard())) this.parts.sweep(staged.wirePath)
  }

  isWritingIn(folder: string): boolean {
    return [...this.#writing].some((each) => each.startsWith(`${folder}\\`))
  }

  /** Whether this run has staged it, and does not write it now. */
  isLeft(wirePath: string): boolean {
    const isOwn = stagedBy(wirePath.slice(wirePath.lastIndexOf('\\') + 1)) === this.parts.instance
    return isOwn && ![...this.#writing].some((each) => isSameName(each, wirePath))
  }
}
