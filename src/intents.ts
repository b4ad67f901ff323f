/**
 * What a transfer does in several steps on one storage, written down before: moves by a backend, which rows follow, and what is
 * set aside while something takes its place. What was cut off is settled when its storage starts, and again until that works.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Aside } from './copy-job.js'
import type { Entry } from './driver.js'
import { isGatewayError } from './errors.js'
import type { Log } from './log.js'
import type { Place } from './mounts.js'
import { besideOf, type Path } from './path.js'
import { asideOf, copyWithin, existing, removeAll } from './removing.js'
import type { Reservations } from './reservations.js'
import type { Rules } from './rules.js'
import { manyCalls } from './signals.js'
import type { Storage } from './storage.js'
import type { Intent, Store } from './store/rows.js'

export interface IntentsParts {
  readonly store: Pick<Store, 'intents' | 'properties' | 'attributes' | 'rules'>
  readonly rules: Pick<Rules, 'of' | 'below' | 'respell' | 'reload'>
  readonly reservations: Reservations
  readonly log: Log
  /** Undefined for one that does not run. */
  readonly storageOf: (id: number) => Storage | undefined
}

/** Seconds until what could not be settled is tried again, by the number of failures. */
const retryAfter = [5, 15, 60, 300]

/** How long a storage that starts is kept back for what waits for it, in milliseconds. */
const startPatience = 10_000

export class Intents {
  /** Those that a transfer of this process, or a settlement, is at work with. */
  readonly #busy = new Set<number>()
  /** By storage. */
  readonly #retries = new Map<number, NodeJS.Timeout>()
  #closed = false

  constructor(private readonly parts: IntentsParts) {}

  /** Nothing is tried again from now on. */
  close(): void {
    this.#closed = true
    for (const timer of this.#retries.values()) clearTimeout(timer)
  }

  /**
   * Puts right what was cut off on a storage that is about to be used. Resolves once that is done, or after some seconds, as the
   * rest goes on by itself; what cannot be settled yet is logged, and tried again.
   */
  async settle(storage: Storage): Promise<void> {
    await Promise.race([this.#settleAll(storage, 0), pause(startPatience, undefined, { ref: false })])
  }

  /**
   * Does `work` while both paths are reserved; it resolves to whether the backend gave the file or folder its other name. If so
   * rules, properties and attributes follow, as they are stored, and `follow` does the rest. Where none of these is recorded, and
   * the target was not set aside (`replaces`), the call of the backend is all there is to do, and no intent is recorded.
   */
  async move(
    from: Place,
    to: Place,
    replaces: boolean,
    work: () => Promise<boolean>,
    follow: () => Promise<void>,
  ): Promise<boolean> {
    const { storage } = from
    const { store, rules } = this.parts
    const [source, target] = [storage.treePath(from.inner), storage.treePath(to.inner)]
    const hasRules = () => rules.of(source) !== undefined || rules.below(source).length > 0
    const isRuled = hasRules()
    const isJournaled =
      replaces ||
      isRuled ||
      (await store.properties.hasWithin(source, target)) ||
      (await store.attributes.hasWithin(source, target))
    // A rule that a power cut separates from its folder protects nothing.
    const { intents } = isRuled ? store : storage.records
    const intent = { storageId: storage.row.id, from: from.inner, to: to.inner, kind: 'move', spare: false } as const
    const id = isJournaled ? await this.#insert(intent, intents) : undefined
    let moved = false
    try {
      moved = await work()
    } catch (error) {
      // It may have happened all the same.
      moved = await hasMoved(storage, intent).catch(() => false)
      throw error
    } finally {
      if (id !== undefined) {
        await this.#end(intent.storageId, id, async () => {
          await (moved ? intents.carryOut(id, storage.mount) : intents.drop(id))
        })
      }
      // Rules may have been made while the backend worked: they follow too.
      const hasRulesNow = moved && (isRuled || hasRules())
      if (hasRulesNow && id === undefined) {
        await rules.respell(source)
        await store.rules.move(source, target)
      }
      if (hasRulesNow) await rules.reload()
      if (moved) await follow()
    }
    return moved
  }

  /**
   * Gives what stands there another name; a file is copied where the backend cannot. Undefined for a folder of such a backend. A
   * backend that is a gateway itself refuses the names that gateways keep for themselves: there it is one that is seen.
   */
  async setAside(place: Place, signal: AbortSignal): Promise<Aside | undefined> {
    const { storage, inner } = place
    try {
      return await this.#setAsideAt(asideOf(inner), place, signal)
    } catch (error) {
      if (!isGatewayError(error, 'not_found', 'parent_missing', 'denied') || !(await stands(storage, inner)))
        throw error
      return this.#setAsideAt(besideOf(inner, 'replaced'), place, signal)
    }
  }

  async #setAsideAt(at: Path, { storage, inner }: Place, signal: AbortSignal): Promise<Aside | undefined> {
    const aside = await this.#aside({ storage, inner }, at, false)
    try {
      if (await storage.move(inner, aside.at, { signal })) return aside.isSet()
      const entry = await storage.stat(inner, { signal, link: true })
      if (entry.kind === 'file') {
        await aside.setSpare(true)
        await copyWithin(storage, inner, aside.at, signal)
        await aside.setSpare(false)
        await storage.remove(inner, { signal }).catch(async (error: unknown) => {
          const now = await existing(storage, inner, manyCalls().signal).catch(() => undefined)
          if (now && isUnchanged(entry, now)) await aside.setSpare(true)
          throw error
        })
        return aside.isSet()
      }
    } catch (error) {
      await aside.settle()
      throw error
    }
    await aside.settle()
    return undefined
  }

  /** A name for what is to take the place, while what stands there is not to be missed. */
  async writeAside(place: Place): Promise<Aside> {
    return this.#aside(place, asideOf(place.inner), true)
  }

  async #aside({ storage, inner: from }: Place, to: Path, spare: boolean) {
    const { intents } = this.parts.store
    const storageId = storage.row.id
    const intent = { storageId, kind: 'aside', from, to, spare } as const
    const id = await this.#insert(intent, intents)
    const setSpare = (spare: boolean) => intents.setSpare(id, spare)
    const settleNow = async (wasSet: boolean) => {
      const settled = await this.#settleAside(storage, (await intents.get(id)) ?? { ...intent, id })
      if (!settled && !wasSet) await intents.drop(id)
      else if (!settled) this.#later(storageId, 0)
    }
    let wasSet = false
    const aside = {
      at: intent.to,
      taken: () => setSpare(true),
      settle: () => this.#end(storageId, id, () => settleNow(wasSet)),
      remove: () =>
        this.#end(storageId, id, async () => {
          await setSpare(true)
          try {
            await removeAll(storage, intent.to, manyCalls().signal)
            await intents.drop(id)
          } catch (error) {
            await settleNow(true)
            throw error
          }
        }),
    }
    const isSet = () => {
      wasSet = true
      return aside
    }
    return { ...aside, setSpare, isSet }
  }

  async #insert(intent: Omit<Intent, 'id'>, intents: Store['intents']): Promise<number> {
    const id = await intents.insert(intent)
    this.#busy.add(id)
    return id
  }

  async #end(storageId: number, id: number, work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      this.#later(storageId, 0)
      throw error
    } finally {
      this.#busy.delete(id)
    }
  }

  async #settleAll(storage: Storage, failures: number): Promise<void> {
    const { store, log } = this.parts
    const id = storage.row.id
    try {
      const intents = await store.intents.ofStorage(id)
      // What was moved into the place of something says so of what stepped aside for it.
      const moves = intents.filter(({ kind }) => kind === 'move')
      const settled = await this.#settleEach(storage, moves)
      if (moves.length > 0) await this.parts.rules.reload()
      const asides = (await store.intents.ofStorage(id)).filter(({ kind }) => kind === 'aside')
      if ((await this.#settleEach(storage, asides)) && settled) return
    } catch (error) {
      if (!this.#closed) log.warn({ err: error, storage: storage.mount }, 'changes that were cut off could not be read')
    }
    this.#later(id, failures)
  }

  /** Resolves to whether none of them waits any more. */
  async #settleEach(storage: Storage, intents: readonly Intent[]): Promise<boolean> {
    let all = true
    for (const intent of intents) {
      if (this.#busy.has(intent.id)) continue
      this.#busy.add(intent.id)
      try {
        if (!(await this.#settleOne(storage, intent))) all = false
      } catch (error) {
        all = false
        const found = { err: error, storage: storage.mount, path: storage.treePath(intent.from) }
        this.parts.log.warn(found, 'a change that was cut off could not be finished yet')
      } finally {
        this.#busy.delete(intent.id)
      }
    }
    return all
  }

  /** false: nothing of it is found, as on a disk that is not there yet. */
  async #settleOne(storage: Storage, intent: Intent): Promise<boolean> {
    const { reservations } = this.parts
    const claims = [intent.from, intent.to].map((path) => ({ path: storage.treePath(path), tree: true }))
    const release = await reservations.take(claims)
    try {
      return await (intent.kind === 'aside' ? this.#settleAside(storage, intent) : this.#settleMove(storage, intent))
    } finally {
      release()
    }
  }

  async #settleMove(storage: Storage, intent: Intent): Promise<boolean> {
    const { intents } = this.parts.store
    if (await hasMoved(storage, intent)) await intents.carryOut(intent.id, storage.mount)
    else if (await stands(storage, intent.from)) await intents.drop(intent.id)
    else return false
    return true
  }

  /** false: nothing stands at either name, of what was not to go. */
  async #settleAside(storage: Storage, { id, from, to, spare }: Intent): Promise<boolean> {
    const { signal } = manyCalls()
    const isTaken = await stands(storage, from)
    if (await stands(storage, to)) {
      if (!isTaken) await rename(storage, to, from, signal)
      else if (spare) await removeAll(storage, to, signal)
      else await this.#show(storage, to, from, signal)
    } else if (!isTaken && !spare) {
      return false
    }
    await this.parts.store.intents.drop(id)
    return true
  }

  /** Nobody knows what has its name now: both stay. */
  async #show(storage: Storage, aside: Path, path: Path, signal: AbortSignal): Promise<void> {
    const shown = besideOf(path, 'replaced')
    await rename(storage, aside, shown, signal)
    const found = { path: storage.treePath(path), kept: storage.treePath(shown) }
    this.parts.log.warn(found, 'what stepped aside found its name taken, and is kept beside it')
  }

  #later(storageId: number, failures: number): void {
    if (this.#closed) return
    clearTimeout(this.#retries.get(storageId))
    const seconds = retryAfter[Math.min(failures, retryAfter.length - 1)] ?? 300
    const again = () => {
      this.#retries.delete(storageId)
      // One that does not run settles them when it starts.
      const storage = this.parts.storageOf(storageId)
      if (storage) void this.#settleAll(storage, failures + 1)
    }
    this.#retries.set(storageId, setTimeout(again, seconds * 1000).unref())
  }
}

async function stands(storage: Storage, path: Path): Promise<boolean> {
  return (await existing(storage, path, manyCalls().signal)) !== undefined
}

async function hasMoved(storage: Storage, { from, to }: Pick<Intent, 'from' | 'to'>): Promise<boolean> {
  return (await stands(storage, to)) && !(await stands(storage, from))
}

async function rename(storage: Storage, from: Path, to: Path, signal: AbortSignal): Promise<void> {
  if (await storage.move(from, to)) return
  await copyWithin(storage, from, to, signal)
  await storage.remove(from, { signal })
}

function isUnchanged(entry: Entry, now: Entry): boolean {
  const isFile = now.kind === entry.kind && now.size === entry.size
  return isFile && now.modified.getTime() === entry.modified.getTime() && now.revision === entry.revision
}
