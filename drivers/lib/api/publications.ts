/**
 * Changes by ids that take several calls: an item gets its folder and its name, and then the item that it replaces is
 * removed. What is left to do is stored before, so that the next run completes it.
 */
import type { DriverEnv } from '../../../src/contract/driver-env.js'
import { isGatewayError } from '../../../src/contract/errors.js'
import { Intents } from './intents.js'
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

/** Maximum number of publications that are stored. */
const maxStored = 1000

export class Publications {
  readonly #intents: Intents<Publication>

  constructor(
    private readonly calls: PublishingCalls,
    { state, log }: Pick<DriverEnv, 'state' | 'log'>,
  ) {
    const settle = (publication: Publication) => this.#complete(publication)
    this.#intents = new Intents({ state, key: 'publications', parse: parsed, settle, log })
  }

  /** Completes what an earlier run has left. Never rejects: what cannot be completed now is left to the next run. */
  async resume(): Promise<void> {
    await this.#intents.load()
    await this.#intents.settle()
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
      if (!isOneStep) await this.#intents.forget(publication)
      throw error
    }
    if (isOneStep) return
    try {
      if (replaced) await this.calls.remove(replaced)
    } catch {
      // It stays stored, and the next run removes it.
      return
    }
    await this.#intents.forget(publication)
  }

  async #add(publication: Publication): Promise<void> {
    const { all } = this.#intents
    const [oldest] = all
    if (oldest && all.length >= maxStored) await this.#intents.forget(oldest)
    await this.#intents.add(publication)
  }

  async #complete({ id, places, replaced }: Publication): Promise<void> {
    const current = await this.calls.placeOf(id)
    const at = current ? places.findLastIndex((place) => isSame(place, current)) : -1
    // Never begun, or undone, or moved by another program since: nothing may be removed for it.
    if (!current || at < 0) return
    let from = current
    for (const place of places.slice(at + 1)) {
      await this.#step(id, from, place)
      from = place
    }
    const old = replaced && (await this.calls.placeOf(replaced.id))
    // Renamed or moved since, it is wanted.
    if (replaced && old && isSame(old, from)) await this.calls.remove(replaced)
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
}

function isSame(one: Place, other: Place): boolean {
  return one.parent === other.parent && one.name === other.name
}

function parsed(value: unknown): Publication | undefined {
  const id = textOf(field(value, 'id'))
  const [first, ...others] = listOf(field(value, 'places')).map(placeOf)
  const replaced = field(value, 'replaced')
  const old = { id: textOf(field(replaced, 'id')), parent: textOf(field(replaced, 'parent')) }
  return id === '' || !first ? undefined : { id, places: [first, ...others], ...(old.id !== '' && { replaced: old }) }
}

function placeOf(value: unknown): Place {
  return { parent: textOf(field(value, 'parent')), name: textOf(field(value, 'name')) }
}
