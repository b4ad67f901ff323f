/**
 * Changes by ids that take several calls: an item gets its place, and then the item that it replaces is removed, by its
 * id. Each is in a journal before its first call. One that is interrupted is completed or undone later, also by the
 * next run. The replaced item is removed only when the other one is in its place.
 *
 * If a folder cannot have two entries of one name, the replaced item is set aside before, under another name. Until it
 * is removed, or has its name again, listings of this driver show it by that name: nobody sees the moment in between,
 * also not after a kill of the gateway.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { DriverEnv } from '../../../src/contract/driver-env.js'
import { GatewayError, isGatewayError, undefinedIfMissing } from '../../../src/base/errors.js'
import { childOf, nameOf, siblingPathOf, type Path } from '../../../src/base/path.js'
import { ChangeJournal } from '../staged-files/change-journal.js'
import { stagingRun } from '../staged-files/staged-names.js'
import { field, listOf, textOf } from '../json-api/lenient.js'
import { escapeName, type IdItem } from './shown-names.js'

/** The folder of an item, and its name there. */
export interface ItemPlace {
  readonly parent: string
  readonly name: string
}

interface PlacedItem {
  readonly id: string
  /** The id of the folder of the item. */
  readonly parent: string
}

/** Stored as JSON, so the names of its fields must not change. */
export interface IdReplacement {
  readonly id: string
  /** The places that the item has one after the other; the last is the final one. */
  readonly places: readonly [ItemPlace, ...ItemPlace[]]
  /** The item that is removed when the other one is in its final place. */
  readonly replaced?: PlacedItem | undefined
  /** The item is in its final place, and only the replaced one has to be removed. Absent: that is not known. */
  readonly isPublished?: true
}

/** Calls of a vendor. */
export interface ReplacingCalls {
  rename(item: PlacedItem, name: string): Promise<unknown>
  move(item: PlacedItem, folder: string): Promise<unknown>
  /** Resolves also if no item has the id. */
  remove(item: PlacedItem, signal?: AbortSignal): Promise<unknown>
  /**
   * Returns the present place of the item; undefined if none of these folders has it. Rejects if the place cannot be
   * found out.
   */
  placeOf(id: string, folders: readonly string[]): Promise<ItemPlace | undefined>
}

/**
 * The place of an item in the first of these folders that has it. `nameIn`: its name in a folder; undefined if it is
 * not there. It may reject with `not_found` if there is no such folder.
 */
export async function findPlace(
  folders: readonly string[],
  nameIn: (folder: string) => Promise<string | undefined>,
): Promise<ItemPlace | undefined> {
  for (const parent of folders) {
    const name = await undefinedIfMissing(nameIn(parent))
    if (name !== undefined) return { parent, name }
  }
  return undefined
}

interface IdReplacementsOptions {
  readonly calls: ReplacingCalls
  readonly env: Pick<DriverEnv, 'state' | 'log'>
  /** The names of the journal, the present one first. */
  readonly keys?: readonly [string, ...string[]]
  /** Facts of a vendor whose folders cannot have two entries of one name, so that the replaced one is set aside. */
  readonly unique?: {
    /** The members of a folder as they are listed now. Rejects with `not_found` if nothing has the id. */
    readonly members: (folder: string, signal: AbortSignal) => Promise<readonly IdItem[]>
    /** Milliseconds for which a listing may not show a change. */
    readonly lag: number
  }
}

interface Failure {
  readonly error: unknown
  /** The step is not done. Otherwise it may be. */
  readonly isKnown: boolean
}

/** Number of stored replacements from which the oldest interrupted one is given up, unless it has set an item aside. */
const maxStored = 1000
/** Milliseconds between two attempts to settle what was interrupted. */
const retryInterval = 10_000
/** Milliseconds for the removal of the replaced item. If it takes longer, it is removed later. */
const removeTimeout = 60_000

export class IdReplacements {
  readonly #journal: ChangeJournal<IdReplacement>

  constructor(private readonly options: IdReplacementsOptions) {
    const { state, log } = options.env
    const settle = async (replacement: IdReplacement, since: number, signal: AbortSignal) => {
      await this.#settle(replacement, since, signal)
      await this.#journal.forget(replacement)
    }
    const keys = options.keys ?? ['publications']
    this.#journal = new ChangeJournal({ state, keys, parse: parsed, settle, retryInterval, log })
  }

  /** Loads what earlier runs and ended nodes have left. Called once, before any other method. */
  load(): Promise<void> {
    return this.#journal.load()
  }

  /** Settles what was interrupted. Never rejects: what cannot be settled now is tried again. */
  settle(): Promise<void> {
    return this.#journal.settle()
  }

  /** The members of a folder as they are shown. */
  shown<Item extends IdItem>(items: readonly Item[]): readonly Item[] {
    const all = this.#journal.all.flatMap((each) => (each.replaced ? [[each.replaced.id, each] as const] : []))
    if (all.length === 0) return items
    const replacements = new Map(all)
    return items.flatMap((item) => {
      const replacement = replacements.get(item.id)
      if (!replacement) return [item]
      const { name } = finalOf(replacement)
      const isReplaced = items.some(({ id, name: other }) => id === replacement.id && other === name)
      return replacement.isPublished === true || isReplaced ? [] : [{ ...item, name }]
    })
  }

  /** Whether the item may still have to get its place. */
  isNeeded(id: string): boolean {
    return this.#journal.all.some((each) => each.id === id)
  }

  /** Throws `busy` if it is not settled yet whether the item is replaced, or replaces another. */
  assertSettled(id: string): void {
    const isOpen = ({ id: next, replaced, isPublished }: IdReplacement) =>
      replaced !== undefined && (replaced.id === id || (next === id && isPublished !== true))
    if (!this.#journal.all.some((each) => isOpen(each) && this.#journal.isInterrupted(each))) return
    void this.settle()
    throw new GatewayError('busy', { reason: 'an interrupted replacement of the file is being settled' })
  }

  /**
   * Gives an item that is at `from` its places, one after the other, and removes what it replaces. If a step fails, the
   * steps before are undone, as far as that is possible. If its outcome is unknown, it is settled later. Resolves when
   * the item is in its place, also if the replaced item could not be removed: that is done later. If items are set
   * aside, rejects as `assertSettled` throws.
   */
  async run(replacement: IdReplacement, from: ItemPlace): Promise<void> {
    const { id, places, replaced } = replacement
    const isOneStep = places.length === 1 && replaced === undefined
    if (this.options.unique) for (const each of [id, replaced?.id ?? id]) this.assertSettled(each)
    await this.#supersede(replacement)
    if (!isOneStep) await this.#add(replacement)
    const done = [from]
    const failure = (await this.#setAside(replacement)) ?? (await this.#walk(replacement, places, done))
    if (failure) {
      const isUndone = failure.isKnown && (await this.#undo(replacement, done))
      if (isUndone) await this.#journal.forget(replacement)
      else if (!isOneStep) this.#interrupted(replacement, failure.error)
      throw failure.error
    }
    if (!isOneStep) await this.#removeReplaced(replacement)
  }

  /**
   * Like `run`, but `publish` gives the item its place. Only for vendors whose folders can have two entries of one
   * name. If it rejects, it is settled later whether the item is in its place.
   */
  async publish<T>(replacement: IdReplacement, publish: () => Promise<T>): Promise<T> {
    await this.#supersede(replacement)
    await this.#add(replacement)
    const result = await publish().catch((error: unknown) => {
      this.#interrupted(replacement, error)
      throw error
    })
    await this.#removeReplaced(replacement)
    return result
  }

  /** Resolves when nothing is being settled. What is left is settled by a later run. */
  close(): Promise<void> {
    return this.#journal.close()
  }

  /** Ends what interrupted changes of the same item, and of the replaced one, have left. Never rejects. */
  async #supersede({ id, replaced }: IdReplacement): Promise<void> {
    for (const earlier of this.#journal.all.filter((each) => this.#journal.isInterrupted(each))) {
      if (earlier.id !== id && earlier.id !== replaced?.id) continue
      try {
        const isMoot = earlier.id === id && earlier.isPublished !== true
        if (!isMoot) await this.#settle(earlier, performance.now(), AbortSignal.timeout(removeTimeout))
      } catch {
        continue
      }
      await this.#journal.forget(earlier)
    }
  }

  async #add(replacement: IdReplacement): Promise<void> {
    const { all } = this.#journal
    const oldest = all.find((each) => this.#journal.isInterrupted(each))
    // If it has set an item aside, nothing else knows the name of that.
    if (oldest && all.length >= maxStored && !this.options.unique) await this.#journal.forget(oldest)
    await this.#journal.add(replacement)
  }

  #interrupted(replacement: IdReplacement, error: unknown): void {
    const { name } = finalOf(replacement)
    this.options.env.log.warn({ err: error, name }, 'a replacement was interrupted, will be settled')
    this.#journal.interrupted(replacement)
  }

  /** Never rejects: what cannot be removed now is removed later. */
  async #removeReplaced(replacement: IdReplacement): Promise<void> {
    try {
      if (replacement.replaced)
        await this.options.calls.remove(replacement.replaced, AbortSignal.timeout(removeTimeout))
    } catch (error) {
      const left: IdReplacement = { ...replacement, isPublished: true }
      await this.#journal.add(left, replacement).catch(() => undefined)
      this.#interrupted(left, error)
      return
    }
    await this.#journal.forget(replacement)
    void this.settle()
  }

  async #settle(replacement: IdReplacement, since: number, signal: AbortSignal): Promise<void> {
    const { calls, unique, env } = this.options
    const { id, places, replaced, isPublished } = replacement
    const final = finalOf(replacement)
    if (isPublished !== true) {
      if (unique) {
        // A listing of before the interruption would show the replaced item as if nothing had been changed.
        const rest = since + unique.lag - performance.now()
        if (rest > 0) await sleep(rest, undefined, { signal })
        const members = await undefinedIfMissing(unique.members(final.parent, signal))
        if (members?.some((each) => each.name === final.name && each.id !== id && each.id !== replaced?.id)) {
          env.log.error({ name: final.name }, 'a file was created while another one was replaced, the old one remains')
          return
        }
      }
      const current = await calls.placeOf(id, foldersOf(replacement))
      const at = current ? places.findLastIndex((place) => isSame(place, current)) : -1
      // Never begun, or undone, or moved by another program since: nothing may be removed for it.
      if (!current || at < 0) return this.#restore(replacement, current, signal)
      const failure = await this.#walk(replacement, places.slice(at + 1), [current])
      if (failure) throw failure.error
    }
    const old = replaced && (await calls.placeOf(replaced.id, [replaced.parent]))
    // Renamed or moved since, it is wanted, unless it was set aside.
    if (replaced && old && (unique !== undefined || isSame(old, final))) await calls.remove(replaced, signal)
  }

  /** The name is free. The item that was set aside gets it, or the other one if another client has removed that. */
  async #restore(replacement: IdReplacement, current: ItemPlace | undefined, signal: AbortSignal): Promise<void> {
    const { calls, unique } = this.options
    const { id, replaced } = replacement
    if (!unique || !replaced) return
    const { parent, name } = finalOf(replacement)
    if (await calls.placeOf(replaced.id, [replaced.parent])) {
      await calls.rename(replaced, name)
      const isStaged = current !== undefined && stagingRun(current.name) !== undefined
      if (isStaged) await calls.remove({ id, parent: current.parent }, signal)
    } else if (current?.parent === parent) await calls.rename({ id, parent }, name)
  }

  /** Gives the replaced item another name, if the folder cannot have two of its name. */
  async #setAside(replacement: IdReplacement): Promise<Failure | undefined> {
    const { calls, unique } = this.options
    const { replaced } = replacement
    if (!unique || !replaced) return undefined
    const backup = nameOf(siblingPathOf(childOf('/' as Path, escapeName(finalOf(replacement).name)), 'replaced'))
    // If another client has removed it, nothing is in the way.
    return undefinedIfMissing(calls.rename(replaced, backup)).then(
      () => undefined,
      (error: unknown) => ({ error, isKnown: !isUnanswered(error) }),
    )
  }

  /** Gives the item these places. `done`: those that it has had, the present one last; the new ones are added. */
  async #walk(
    replacement: IdReplacement,
    places: readonly ItemPlace[],
    done: ItemPlace[],
  ): Promise<Failure | undefined> {
    for (const place of places) {
      const from = done.at(-1)
      const failure = from && (await this.#step(replacement, from, place))
      if (failure) return failure
      done.push(place)
    }
    return undefined
  }

  /** Moves or renames. If the answer is lost, looks whether it is done. */
  async #step(replacement: IdReplacement, from: ItemPlace, to: ItemPlace): Promise<Failure | undefined> {
    const { calls, unique } = this.options
    const { id } = replacement
    try {
      if (from.parent !== to.parent) await calls.move({ id, parent: from.parent }, to.parent)
      if (from.name !== to.name) await calls.rename({ id, parent: to.parent }, to.name)
      return undefined
    } catch (error) {
      if (!isUnanswered(error)) return { error, isKnown: true }
      // A listing may not show it yet.
      if (unique) return { error, isKnown: false }
      try {
        const current = await calls.placeOf(id, foldersOf(replacement))
        return current && isSame(current, to) ? undefined : { error, isKnown: true }
      } catch {
        return { error, isKnown: false }
      }
    }
  }

  /** Whether all steps are undone, and the replaced item has its name again. */
  async #undo(replacement: IdReplacement, done: readonly ItemPlace[]): Promise<boolean> {
    const { calls, unique } = this.options
    const { replaced } = replacement
    const back = done.toReversed()
    if (await this.#walk(replacement, back.slice(1), back.slice(0, 1))) return false
    if (!unique || !replaced) return true
    return undefinedIfMissing(calls.rename(replaced, finalOf(replacement).name)).then(
      () => true,
      () => false,
    )
  }
}

/**
 * The places of an item on its way: an API moves or renames, and two items of one name are avoided meanwhile. `isFree`:
 * whether the target folder has no item of this name. `spareName`: one that neither folder has.
 */
export async function placesBetween(
  from: ItemPlace,
  to: ItemPlace,
  isFree: (name: string) => Promise<boolean>,
  spareName: string,
): Promise<readonly [ItemPlace, ...ItemPlace[]]> {
  if (from.parent === to.parent || from.name === to.name) return [to]
  if (await isFree(from.name)) return [{ parent: to.parent, name: from.name }, to]
  return [{ parent: from.parent, name: spareName }, { parent: to.parent, name: spareName }, to]
}

function finalOf({ places }: IdReplacement): ItemPlace {
  return places.at(-1) ?? places[0]
}

function foldersOf({ places }: IdReplacement): readonly string[] {
  return [...new Set(places.map(({ parent }) => parent))]
}

function isSame(one: ItemPlace, other: ItemPlace): boolean {
  return one.parent === other.parent && one.name === other.name
}

function isUnanswered(error: unknown): boolean {
  return isGatewayError(error, 'unavailable', 'timeout', 'aborted')
}

function parsed(value: unknown): IdReplacement | undefined {
  const former = field(value, 'folderId')
  // An older version has stored the folder, the name and the two ids.
  if (former !== undefined) {
    const places = [{ parent: former, name: field(value, 'name') }]
    const replaced = { id: field(value, 'oldId'), parent: former }
    return parsed({ id: field(value, 'newId'), places, replaced, isPublished: field(value, 'isPublished') })
  }
  const id = textOf(field(value, 'id'))
  const [first, ...others] = listOf(field(value, 'places')).map(placeOf)
  const replaced = field(value, 'replaced')
  const old = { id: textOf(field(replaced, 'id')), parent: textOf(field(replaced, 'parent')) }
  if (id === '' || !first) return undefined
  const isPublished = field(value, 'isPublished') === true
  return {
    ...{ id, places: [first, ...others] },
    ...(old.id !== '' && { replaced: old }),
    ...(isPublished && { isPublished }),
  }
}

function placeOf(value: unknown): ItemPlace {
  return { parent: textOf(field(value, 'parent')), name: textOf(field(value, 'name')) }
}
