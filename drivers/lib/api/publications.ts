/**
 * Changes by ids that take several calls: an item gets its folder and its name, and then the item that it replaces is
 * removed. What is left to do is stored before, so that the next run completes it.
 */
import type { DriverState } from '../../../src/contract/driver-env.js'
import { isGatewayError } from '../../../src/contract/errors.js'
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
  /** Where the item is now; undefined if no item has the id. */
  placeOf(id: string): Promise<Place | undefined>
}

const stateKey = 'publications'
/** Maximum number of publications that are stored. */
const maxStored = 1000

export class Publications {
  readonly #pending = new Map<string, Publication>()
  /** Stores the pending publications, one time after the other. */
  #storing: Promise<void> = Promise.resolve()

  constructor(
    private readonly calls: PublishingCalls,
    private readonly state: DriverState,
  ) {}

  /** Completes what an earlier run has left. Never rejects: what cannot be completed now is left to the next run. */
  async resume(): Promise<void> {
    for (const publication of parsed(await this.state.get(stateKey))) this.#pending.set(publication.id, publication)
    for (const publication of [...this.#pending.values()]) {
      await this.#complete(publication).catch(() => undefined)
    }
  }

  /**
   * Gives an item that is at `from` the places of the publication, one after the other, and removes what it replaces. If
   * a step fails, the steps before are undone, as far as that is possible. Resolves when the item is in its place, also if
   * the replaced item could not be removed: that is done later.
   */
  async run(publication: Publication, from: Place): Promise<void> {
    const { id, places, replaced } = publication
    const isOneStep = places.length === 1 && replaced === undefined
    if (!isOneStep) await this.#add(publication)
    const done = [from]
    try {
      for (const place of places) {
        await this.#step(id, done.at(-1) ?? from, place)
        done.push(place)
      }
    } catch (error) {
      await this.#undo(id, done)
      if (!isOneStep) await this.#delete(id)
      throw error
    }
    if (replaced) await this.#removeReplaced(publication)
    else if (!isOneStep) await this.#delete(id)
  }

  async #removeReplaced({ id, replaced }: Publication): Promise<void> {
    try {
      if (replaced) await this.calls.remove(replaced)
    } catch {
      // It stays stored, and the next run removes it.
      return
    }
    await this.#delete(id)
  }

  async #complete(publication: Publication): Promise<void> {
    const { id, places } = publication
    const current = await this.calls.placeOf(id)
    const at = current ? places.findLastIndex((place) => isSame(place, current)) : -1
    // Never begun, or undone, or moved by another program since: nothing may be removed for it.
    if (!current || at < 0) return this.#delete(id)
    let from = current
    for (const place of places.slice(at + 1)) {
      await this.#step(id, from, place)
      from = place
    }
    const old = publication.replaced && (await this.calls.placeOf(publication.replaced.id))
    // Renamed or moved since, it is wanted.
    if (old && isSame(old, from)) await this.#removeReplaced(publication)
    else await this.#delete(id)
  }

  /** Moves or renames. If the answer is lost, looks whether it is done. */
  async #step(id: string, from: Place, to: Place): Promise<void> {
    const item = { id, parent: from.parent }
    try {
      if (from.parent !== to.parent) await this.calls.move(item, to.parent)
      if (from.name !== to.name) await this.calls.rename({ id, parent: to.parent }, to.name)
    } catch (error) {
      if (!isGatewayError(error, 'unavailable', 'timeout')) throw error
      const current = await this.calls.placeOf(id).catch(() => undefined)
      if (!current || !isSame(current, to)) throw error
    }
  }

  async #undo(id: string, done: readonly Place[]): Promise<void> {
    const back = done.slice(0, -1).reverse()
    let from = done.at(-1)
    for (const place of back) {
      if (!from) return
      try {
        await this.#step(id, from, place)
      } catch {
        return
      }
      from = place
    }
  }

  async #add(publication: Publication): Promise<void> {
    this.#pending.set(publication.id, publication)
    const [oldest] = this.#pending.keys()
    if (oldest !== undefined && this.#pending.size > maxStored) this.#pending.delete(oldest)
    await this.#store()
  }

  async #delete(id: string): Promise<void> {
    this.#pending.delete(id)
    await this.#store()
  }

  #store(): Promise<void> {
    const stored = this.#storing.then(() => {
      const all = [...this.#pending.values()]
      return this.state.set(stateKey, all.length === 0 ? undefined : JSON.stringify(all))
    })
    this.#storing = stored.catch(() => undefined)
    return stored
  }
}

function isSame(one: Place, other: Place): boolean {
  return one.parent === other.parent && one.name === other.name
}

function parsed(text: string | undefined): readonly Publication[] {
  try {
    return listOf(JSON.parse(text ?? '[]')).flatMap((value) => {
      const id = textOf(field(value, 'id'))
      const [first, ...others] = listOf(field(value, 'places')).map(placeOf)
      const replaced = field(value, 'replaced')
      const old = { id: textOf(field(replaced, 'id')), parent: textOf(field(replaced, 'parent')) }
      return id === '' || !first ? [] : [{ id, places: [first, ...others], ...(old.id !== '' && { replaced: old }) }]
    })
  } catch {
    return []
  }
}

function placeOf(value: unknown): Place {
  return { parent: textOf(field(value, 'parent')), name: textOf(field(value, 'name')) }
}
