/**
 * Uploads into a file of a server that stays staged, for a later run to go on with. Requests go side by side, and a server that loses
 * its power loses what it has not brought to its medium: so the size of the file says nothing. What counts is what the server has been
 * told to bring there, now and then, once all before it was written; the token says how far that is.
 */
import type { Readable } from 'node:stream'
import { untilAborted } from '../../src/aborting.js'
import type { Driver, Entry, Source, Upload } from '../../src/driver.js'
import { writeAll, type OpenPieces } from './pieces.js'
import { tokenOf, type KeptFile } from './staged-names.js'

/** How often what was sent is brought to the medium, and how long the end of an upload is waited for; in milliseconds. */
export interface KeepingPace {
  readonly every: number
  readonly atMost: number
}

export const keepingPace: KeepingPace = { every: 10_000, atMost: 3000 }

/** A staged file that is open. */
export interface OpenStaged {
  readonly kept: KeptFile
  readonly file: OpenPieces
  /** Of the whole file, in bytes. */
  readonly size: number
  readonly signal: AbortSignal | undefined
  /** What was written is on the medium. Rejects where the server does not say so. */
  readonly sync: () => Promise<void>
  /** Told a new token. */
  readonly replace: (token: string) => Promise<void>
  /** Does what talks to the server, with the signal, and rejects with GatewayErrors alone. */
  readonly within: <T>(work: () => Promise<T>) => Promise<T>
  /** The file takes its name. */
  readonly publish: () => Promise<Entry>
  /** Closes it. Without `publish`, it stays. Never rejects. */
  readonly leave: () => Promise<void>
}

export class StagedUpload implements Upload {
  readonly token: string
  readonly confirmed: number
  /** Up to where all was written, and up to where the server holds it surely. */
  #written: number
  #held: number
  #heldAt = 0
  /** What was written since may not be on the medium, whatever the server says from now on. */
  #isLost = false
  #writing: Promise<void> = Promise.resolve()
  #isPublished = false

  constructor(
    private readonly staged: OpenStaged,
    private readonly pace: KeepingPace,
  ) {
    this.token = tokenOf(staged.kept)
    this.confirmed = this.#written = this.#held = staged.kept.held
  }

  write(from: Readable): Promise<void> {
    const { confirmed: start } = this
    const { file, size, signal, within } = this.staged
    const rest: Source = { size: size - start, rereadable: false, read: () => Promise.resolve(from) }
    const { every } = this.pace
    const begin = performance.now()
    const written = async (position: number) => {
      this.#written = position
      if (performance.now() - Math.max(begin, this.#heldAt) >= every) await this.#hold()
    }
    this.#writing = writeAll(rest, file, signal, { start, every, written })
    return within(() => this.#writing)
  }

  /** What was written up to now is kept, if the server says so. */
  async #hold(): Promise<void> {
    const { kept, sync, replace } = this.staged
    const written = this.#written
    if (this.#isLost || written <= this.#held) return
    // A server may tell once that it could not, and not again, although it never did.
    this.#isLost = await sync().then(
      () => false,
      () => true,
    )
    this.#heldAt = performance.now()
    if (this.#isLost) return
    await replace(tokenOf({ path: kept.path, held: written }))
    this.#held = written
  }

  async commit(): Promise<Entry> {
    const entry = await this.staged.within(() => this.staged.publish())
    this.#isPublished = true
    return entry
  }

  /** Nobody is kept waiting for long by a server that does not answer: the rest goes on by itself. */
  async close(): Promise<void> {
    await untilAborted(this.#end(), AbortSignal.timeout(this.pace.atMost)).catch(() => undefined)
  }

  async #end(): Promise<void> {
    await this.#writing.catch(() => undefined)
    // Of what cannot be held now, the token of before still stands.
    if (!this.#isPublished) await this.#hold().catch(() => undefined)
    await this.staged.leave()
  }
}

/** Nobody got this upload of `driver`: what was begun with it is of no use. */
export async function forsaken(driver: Pick<Driver, 'dropUpload'>, upload: Upload): Promise<void> {
  await upload.close()
  if (upload.confirmed === 0) await driver.dropUpload?.(upload.token)
}
