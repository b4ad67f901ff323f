/**
 * Replaces files of a vendor with ids: the new file gets the name, and then the old one is removed, by its id. An intent is
 * stored before, so that what is interrupted is completed or undone later. The old file is removed only when the new one
 * has the name.
 *
 * If a folder cannot have two entries of one name, the old file is set aside before, under another name. Until the new one
 * has the name, or the old one has it again, listings of this driver show the old one by it: nobody sees the moment in
 * between, also not after a kill of the gateway.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { DriverEnv } from '../../../src/contract/driver-env.js'
import { GatewayError, isGatewayError, undefinedIfMissing } from '../../../src/contract/errors.js'
import { childOf, nameOf, siblingPathOf, type Path } from '../../../src/contract/path.js'
import { stagingRun } from '../staged-names.js'
import { ChangeJournal } from '../change-journal.js'
import { field, textOf } from './lenient.js'
import { escapeName, type IdItem } from './shown-names.js'

/** Stored as JSON, so the names of its fields must not change. */
export interface Replacement {
  readonly folderId: string
  /** The name that both files have, one after the other, as the vendor has it. */
  readonly name: string
  readonly oldId: string
  readonly newId: string
}

interface Intent extends Replacement {
  /** The new file has the name, and only the old one has to be removed. Absent: that is not known. */
  readonly isPublished?: true
}

/** Calls of the vendor, which reject with `not_found` if nothing has an id. */
interface ReplacingCalls {
  /** The members of a folder as they are listed now. */
  members(folderId: string, signal: AbortSignal): Promise<readonly IdItem[]>
  rename(id: string, name: string, signal?: AbortSignal): Promise<unknown>
  remove(id: string, signal?: AbortSignal): Promise<void>
}

interface IdReplacementsOptions {
  readonly calls: ReplacingCalls
  readonly env: Pick<DriverEnv, 'state' | 'log'>
  /** The key of the state. */
  readonly key: string
  /** Whether a folder cannot have two entries of one name, so that the old file has to be set aside. */
  readonly hasUniqueNames: boolean
  /** Milliseconds for which a listing may not show a change. */
  readonly lag: number
}

const retryInterval = 10_000
/** Milliseconds for the removal of the old file. If it takes longer, it is removed later. */
const removeTimeout = 60_000

export class IdReplacements {
  readonly #intents: ChangeJournal<Intent>

  constructor(private readonly options: IdReplacementsOptions) {
    const { env, key } = options
    this.#intents = new ChangeJournal({
      state: env.state,
      key,
      parse: parsed,
      settle: (intent, since, signal) => this.#settle(intent, since, signal),
      retryInterval,
      log: env.log,
    })
  }

  /** Loads what an earlier run has left, and settles it in the background. Called once, before any other method. */
  async load(): Promise<void> {
    await this.#intents.load()
    void this.#intents.settle()
  }

  /** The members of a folder as they are shown. */
  shown<Item extends IdItem>(items: readonly Item[]): readonly Item[] {
    const intents = new Map(this.#intents.all.map((intent) => [intent.oldId, intent]))
    if (intents.size === 0) return items
    return items.flatMap((item) => {
      const intent = intents.get(item.id)
      if (!intent) return [item]
      return isReplaced(intent, items) ? [] : [{ ...item, name: intent.name }]
    })
  }

  /** Whether the file may still have to replace another one. */
  isNeeded(id: string): boolean {
    return this.#intents.all.some(({ newId }) => newId === id)
  }

  /** Throws `busy` if it is not settled yet whether the file is replaced. */
  assertSettled(id: string): void {
    const isOpen = (intent: Intent) => intent.oldId === id && this.#intents.isInterrupted(intent)
    if (!this.#intents.all.some(isOpen)) return
    void this.#intents.settle()
    throw new GatewayError('busy', { reason: 'an interrupted replacement of the file is being settled' })
  }

  /**
   * Calls `publish`, which puts the new file into the folder, under its name, and removes the old one. Resolves also if that
   * could not be removed: it is removed later. If it rejects, the old file has the name, or will have it when it is settled
   * what `publish` has done.
   */
  async replace<T>({ folderId, name, oldId, newId }: Replacement, publish: () => Promise<T>): Promise<T> {
    const { calls, hasUniqueNames } = this.options
    if (hasUniqueNames) this.assertSettled(oldId)
    const intent: Intent = { folderId, name, oldId, newId }
    let result: T
    try {
      await this.#intents.add(intent)
      // If another client has removed it, nothing is in the way.
      if (hasUniqueNames) await undefinedIfMissing(calls.rename(oldId, backupNameOf(name)))
      result = await publish()
    } catch (error) {
      await this.#undo(intent, error)
      throw error
    }
    await this.#removeOld(intent)
    void this.#intents.settle()
    return result
  }

  /** Resolves when nothing is being settled. What is left is settled by a later run. */
  close(): Promise<void> {
    return this.#intents.close()
  }

  /** Gives the old file its name again, unless it is unknown whether the new one has it. Never rejects. */
  async #undo(intent: Intent, error: unknown): Promise<void> {
    const { calls, hasUniqueNames, env } = this.options
    try {
      if (!hasUniqueNames || isGatewayError(error, 'unavailable', 'timeout', 'aborted')) throw error
      await undefinedIfMissing(calls.rename(intent.oldId, intent.name))
      await this.#intents.forget(intent)
    } catch (reason) {
      env.log.warn({ err: reason, name: intent.name }, 'a replacement was interrupted, will be settled')
      this.#intents.interrupted(intent)
    }
  }

  /** The new file has the name. If the old one cannot be removed now, it is removed later. Never rejects. */
  async #removeOld(intent: Intent): Promise<void> {
    const { calls, hasUniqueNames, env } = this.options
    const { oldId, name } = intent
    try {
      await undefinedIfMissing(calls.remove(oldId, AbortSignal.timeout(removeTimeout)))
      await this.#intents.forget(intent)
    } catch (error) {
      env.log.warn({ err: error, name }, 'cannot remove a file that was replaced, will retry')
      // Otherwise another client may have given it another name since, to keep it.
      const left: Intent = hasUniqueNames ? { ...intent, isPublished: true } : intent
      await this.#intents.add(left, intent).catch(() => undefined)
      this.#intents.interrupted(left)
    }
  }

  async #settle(intent: Intent, since: number, signal: AbortSignal): Promise<void> {
    const { calls, hasUniqueNames, env } = this.options
    const { folderId, name, oldId, newId, isPublished } = intent
    if (isPublished) return undefinedIfMissing(calls.remove(oldId, signal))
    await this.#waitForListings(since, signal)
    // Missing: the folder was removed, with both files.
    const items = (await undefinedIfMissing(calls.members(folderId, signal))) ?? []
    const hasName = (item: IdItem) => item.name === name
    const isTaken = items.some((item) => hasName(item) && item.id !== oldId && item.id !== newId)
    if (hasUniqueNames && isTaken) {
      env.log.error({ name }, 'a file was created while another one was replaced, the old one remains')
    } else if (isReplaced(intent, items)) {
      // One with another name was set aside, or another client has renamed it to keep it.
      const hasOld = items.some((item) => item.id === oldId && (hasUniqueNames || hasName(item)))
      if (hasOld) await undefinedIfMissing(calls.remove(oldId, signal))
    } else if (hasUniqueNames) await this.#restore(intent, items, signal)
  }

  /** The name is free. The old file gets it, or the new one if the old one was removed by another client. */
  async #restore({ name, oldId, newId }: Intent, items: readonly IdItem[], signal: AbortSignal): Promise<void> {
    const { calls } = this.options
    const next = items.find(({ id }) => id === newId)
    if (items.some(({ id }) => id === oldId)) {
      await calls.rename(oldId, name, signal)
      const isStaged = next !== undefined && stagingRun(next.name) !== undefined
      if (isStaged) await undefinedIfMissing(calls.remove(newId, signal))
    } else if (next) await calls.rename(newId, name, signal)
  }

  /** A listing of before the interruption would show the old file as if nothing had been changed. */
  async #waitForListings(since: number, signal: AbortSignal): Promise<void> {
    const rest = since + this.options.lag - performance.now()
    if (rest > 0) await sleep(rest, undefined, { signal })
  }
}

/** Whether the new file has the name. */
function isReplaced({ newId, name, isPublished }: Intent, items: readonly IdItem[]): boolean {
  return isPublished ?? items.some((item) => item.id === newId && item.name === name)
}

/** The name of the old file in the meantime. */
function backupNameOf(name: string): string {
  return nameOf(siblingPathOf(childOf('/' as Path, escapeName(name)), 'replaced'))
}

function parsed(value: unknown): Intent | undefined {
  const [folderId, name, oldId, newId] = ['folderId', 'name', 'oldId', 'newId'].map((key) => textOf(field(value, key)))
  if (!folderId || !name || !oldId || !newId) return undefined
  return { folderId, name, oldId, newId, ...(field(value, 'isPublished') === true && { isPublished: true }) }
}
