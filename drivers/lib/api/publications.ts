/**
 * Changes by ids that take several calls: an item gets its folder and its name, and then the item that it replaces is
 * removed. What is left to do is stored before, so that it is completed later, also by the next run.
 */
import type { DriverEnv } from '../../../src/contract/driver-env.js'
import { isGatewayError } from '../../../src/contract/errors.js'
import { ChangeJournal } from '../change-journal.js'
import { field, listOf, textOf } from './lenient.js'

/** Where an item is, and how it is named. */
export interface Place {
  readonly parent: string
  readonly name: string
}

export interface Publication {
  readonly id: string
  /** The places that the item has one after the other; the last is the final one. */
  readonly places: readonly [Place, ...Place[]]
  /** The item that is removed when the other one is in its place. */
  readonly replaced?: { readonly id: string; readonly parent: string } | undefined
}

export interface PublishingCalls {
  rename(item: { readonly id: string; readonly parent: string }, name: string): Promise<void>
  move(item: { readonly id: string; readonly parent: string }, folder: string): Promise<void>
  /** Resolves also if no item has the id. */
  remove(item: { readonly id: string; readonly parent: string }): Promise<void>
  /** Where the item is now; undefined if none of these folders has it. Rejects if that cannot be found out. */
  placeOf(id: string, folders: readonly string[]): Promise<Place | undefined>
}

interface Interruptible extends Publication {
  /** The item is in its final place, and only the replaced one has to be removed. Absent: that is not known. */
  readonly isPublished?: true
}

interface Failure {
  readonly error: unknown
  /** The step is not done. Otherwise it may be. */
  readonly isKnown: boolean
}

/** Maximum number of publications that are stored. */
const maxStored = 1000
/** Milliseconds between two attempts to complete what was interrupted. */
const retryInterval = 10_000

export class Publications {
  readonly #intents: ChangeJournal<Interruptible>

  constructor(
    private readonly calls: PublishingCalls,
    { state, log }: Pick<DriverEnv, 'state' | 'log'>,
  ) {
    const settle = (publication: Interruptible) => this.#complete(publication)
    this.#intents = new ChangeJournal({ state, key: 'publications', parse: parsed, settle, retryInterval, log })
  }

  /** Completes what an earlier run has left. Never rejects: what cannot be completed now is tried again. */
  async resume(): Promise<void> {
    await this.#intents.load()
    await this.#intents.settle()
  }

  /** Whether it is not known yet if the item has its final place. */
  isPending(id: string): boolean {
    return this.#intents.all.some((publication) => publication.id === id && publication.isPublished !== true)
  }

  /**
   * Gives an item that is at `from` the places of the publication, one after the other, and removes what it replaces. If
   * a step fails, the steps before are undone, as far as that is possible. If its outcome is unknown, the publication is
   * completed later. Resolves when the item is in its place, also if the replaced item could not be removed: that is done
   * later.
   */
  async run(publication: Publication, from: Place): Promise<void> {
    const { places, replaced } = publication
    const isOneStep = places.length === 1 && replaced === undefined
    await this.#supersede(publication)
    if (!isOneStep) await this.#add(publication)
    const done = [from]
    for (const place of places) {
      const failure = await this.#step(publication, done.at(-1) ?? from, place)
      if (!failure) {
        done.push(place)
        continue
      }
      const isUndone = failure.isKnown && (await this.#undo(publication, done))
      if (isUndone) await this.#forget(publication)
      else if (!isOneStep) this.#intents.interrupted(publication)
      throw failure.error
    }
    if (!isOneStep) await this.#removeReplaced(publication)
  }

  /** Resolves when nothing is being completed. What is left is completed by a later run. */
  async close(): Promise<void> {
    await this.#intents.close()
  }

  /** Ends what interrupted publications of the same item, and of the replaced one, have left. Never rejects. */
  async #supersede({ id, replaced }: Publication): Promise<void> {
    for (const earlier of this.#intents.all.filter((each) => this.#intents.isInterrupted(each))) {
      try {
        if (earlier.id === replaced?.id) await this.#complete(earlier)
        else if (earlier.id !== id) continue
      } catch {
        continue
      }
      await this.#forget(earlier)
    }
  }

  async #add(publication: Publication): Promise<void> {
    const { all } = this.#intents
    const [oldest] = all
    if (oldest && all.length >= maxStored) await this.#intents.forget(oldest)
    await this.#intents.add(publication)
  }

  /** Never rejects: the next run looks at it once more, and finds nothing to do. */
  async #forget(publication: Interruptible): Promise<void> {
    await this.#intents.forget(publication).catch(() => undefined)
  }

  /** Never rejects: what cannot be removed now is removed later. */
  async #removeReplaced(publication: Publication): Promise<void> {
    try {
      if (publication.replaced) await this.calls.remove(publication.replaced)
    } catch {
      const left: Interruptible = { ...publication, isPublished: true }
      await this.#intents.add(left, publication).catch(() => undefined)
      this.#intents.interrupted(left)
      return
    }
    await this.#forget(publication)
  }

  async #complete(publication: Interruptible): Promise<void> {
    const { id, places, replaced, isPublished } = publication
    const final = places.at(-1)
    if (isPublished !== true) {
      const current = await this.calls.placeOf(id, foldersOf(publication))
      const at = current ? places.findLastIndex((place) => isSame(place, current)) : -1
      // Never begun, or undone, or moved by another program since: nothing may be removed for it.
      if (!current || at < 0) return
      let from = current
      for (const place of places.slice(at + 1)) {
        const failure = await this.#step(publication, from, place)
        if (failure) throw failure.error
        from = place
      }
    }
    const old = replaced && (await this.calls.placeOf(replaced.id, [replaced.parent]))
    // Renamed or moved since, it is wanted.
    if (replaced && old && final && isSame(old, final)) await this.calls.remove(replaced)
  }

  /** Moves or renames. If the answer is lost, looks whether it is done. */
  async #step(publication: Publication, from: Place, to: Place): Promise<Failure | undefined> {
    const { id } = publication
    try {
      if (from.parent !== to.parent) await this.calls.move({ id, parent: from.parent }, to.parent)
      if (from.name !== to.name) await this.calls.rename({ id, parent: to.parent }, to.name)
      return undefined
    } catch (error) {
      if (!isGatewayError(error, 'unavailable', 'timeout', 'aborted')) return { error, isKnown: true }
      try {
        const current = await this.calls.placeOf(id, foldersOf(publication))
        return current && isSame(current, to) ? undefined : { error, isKnown: true }
      } catch {
        return { error, isKnown: false }
      }
    }
  }

  /** Whether all steps are undone. */
  async #undo(publication: Publication, done: readonly Place[]): Promise<boolean> {
    const [last, ...back] = done.toReversed()
    let from = last
    for (const place of back) {
      if (!from || (await this.#step(publication, from, place))) return false
      from = place
    }
    return true
  }
}

/**
 * The places of an item on its way: an API moves or renames, and two items of one name are avoided meanwhile. `isFree`:
 * whether the target folder has no item of this name. `spareName`: one that neither folder has.
 */
export async function placesBetween(
  from: Place,
  to: Place,
  isFree: (name: string) => Promise<boolean>,
  spareName: string,
): Promise<readonly [Place, ...Place[]]> {
  if (from.parent === to.parent || from.name === to.name) return [to]
  if (await isFree(from.name)) return [{ parent: to.parent, name: from.name }, to]
  return [{ parent: from.parent, name: spareName }, { parent: to.parent, name: spareName }, to]
}

function foldersOf({ places }: Publication): readonly string[] {
  return [...new Set(places.map(({ parent }) => parent))]
}

function isSame(one: Place, other: Place): boolean {
  return one.parent === other.parent && one.name === other.name
}

function parsed(value: unknown): Interruptible | undefined {
  const id = textOf(field(value, 'id'))
  const [first, ...others] = listOf(field(value, 'places')).map(placeOf)
  const replaced = field(value, 'replaced')
  const old = { id: textOf(field(replaced, 'id')), parent: textOf(field(replaced, 'parent')) }
  if (id === '' || !first) return undefined
  const isPublished = field(value, 'isPublished') === true
  return {
    id,
    places: [first, ...others],
    ...(old.id !== '' && { replaced: old }),
    ...(isPublished && { isPublished }),
  }
}

function placeOf(value: unknown): Place {
  return { parent: textOf(field(value, 'parent')), name: textOf(field(value, 'name')) }
}
