/**
 * Replaces files. The service has no two entries of one name in a folder, and does not replace an entry by another: the old
 * file gets another name, the new one gets its name, and the old one is removed.
 *
 * An intent is stored before. While it exists, listings of this driver show the old file under its name, until the new
 * one has that name: nobody sees the moment in between, also not after a kill of the gateway. What was interrupted is
 * completed or undone later. The old file is removed by its id, and only when the new one has its name.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import { GatewayError, isGatewayError } from '../../src/contract/errors.js'
import { KeyedMutex } from '../lib/keyed-mutex.js'
import { stagingRun } from '../lib/staged-names.js'
import type { QuarkApi } from './api.js'
import type { QuarkItem } from './items.js'

/** One replacement. Stored as JSON, so the names of its fields must not change. */
interface Intent {
  readonly folderId: string
  /** The name that both files have, one after the other. */
  readonly name: string
  readonly oldId: string
  readonly newId: string
  /** The new file has the name, and only the old one has to be removed. Absent: that is not known. */
  readonly isPublished?: true
}

interface Replacement extends Omit<Intent, 'isPublished'> {
  /** The name of the old file in the meantime. */
  readonly backupName: string
  /** Puts the new file into the folder, under its name. */
  readonly publish: () => Promise<void>
}

const stateKey = 'replacing'
/** Milliseconds between two attempts to settle what was interrupted. */
const retryInterval = 10_000

export class Replacements {
  /** By the id of the old file. */
  readonly #intents = new Map<string, Intent>()
  /** When the replacements of these old files were interrupted, in milliseconds of `performance.now()`. */
  readonly #interrupted = new Map<string, number>()
  readonly #mutex = new KeyedMutex()
  readonly #closed = new AbortController()
  #settling: Promise<void> | undefined
  #lastAttempt = Number.NEGATIVE_INFINITY

  constructor(
    private readonly api: QuarkApi,
    private readonly env: Pick<DriverEnv, 'state' | 'log'>,
    /** Milliseconds for which listings do not show a change. */
    private readonly lag: number,
  ) {}

  /** Loads what an earlier run has left, and settles it in the background. */
  async load(): Promise<void> {
    const text = await this.env.state.get(stateKey)
    for (const intent of text === undefined ? [] : (JSON.parse(text) as readonly Intent[])) {
      this.#intents.set(intent.oldId, intent)
      this.#interrupted.set(intent.oldId, performance.now())
    }
    this.settleSoon()
  }

  /** The members of a folder as they are shown. */
  shown(items: readonly QuarkItem[]): readonly QuarkItem[] {
    if (this.#intents.size === 0) return items
    return items.flatMap((item) => {
      const intent = this.#intents.get(item.id)
      if (!intent) return [item]
      return isReplaced(intent, items) ? [] : [{ ...item, name: intent.name }]
    })
  }

  /** Whether the file may still have to replace another one. */
  isNeeded(id: string): boolean {
    return [...this.#intents.values()].some(({ newId }) => newId === id)
  }

  /** Throws `busy` if it is not settled yet whether the file is replaced. */
  assertSettled(id: string): void {
    if (!this.#interrupted.has(id)) return
    this.settleSoon()
    throw new GatewayError('busy', { reason: 'an interrupted replacement of the file is being settled' })
  }

  /** Resolves when the new file has the name. If it rejects, the old file has it, or will have it when it is settled. */
  async replace({ publish, backupName, ...intent }: Replacement): Promise<void> {
    const { oldId } = intent
    this.assertSettled(oldId)
    this.#intents.set(oldId, intent)
    try {
      await this.#store()
      // If another client has removed it, nothing is in the way.
      await this.api.rename(oldId, backupName).catch(ignoreMissing)
      await publish()
    } catch (error) {
      await this.#undo(intent, error)
      throw error
    }
    await this.#removeOld(intent)
  }

  /** Completes or undoes what was interrupted, in the background. */
  settleSoon(): void {
    const isDue = performance.now() - this.#lastAttempt >= retryInterval
    if (this.#interrupted.size === 0 || this.#settling || !isDue) return
    this.#lastAttempt = performance.now()
    this.#settling = this.#settleAll().finally(() => (this.#settling = undefined))
  }

  /** Resolves when nothing is being settled. What is left is settled by a later run. */
  async close(): Promise<void> {
    this.#closed.abort()
    await this.#settling
  }

  /** The new file has the name. If the old one cannot be removed now, it is removed later. Never rejects. */
  async #removeOld(intent: Intent): Promise<void> {
    const { oldId, name } = intent
    try {
      await this.api.remove(oldId).catch(ignoreMissing)
      await this.#forget(intent)
    } catch (error) {
      this.env.log.warn({ err: error, name }, 'cannot remove a file that was replaced, will retry')
      this.#intents.set(oldId, { ...intent, isPublished: true })
      this.#interrupted.set(oldId, performance.now())
      await this.#store().catch(() => undefined)
    }
  }

  /** Gives the old file its name again, unless it is unknown whether the new one has it. */
  async #undo(intent: Intent, error: unknown): Promise<void> {
    try {
      if (isGatewayError(error, 'unavailable', 'timeout')) throw error
      await this.api.rename(intent.oldId, intent.name).catch(ignoreMissing)
      await this.#forget(intent)
    } catch (reason) {
      this.env.log.warn({ err: reason, name: intent.name }, 'a replacement was interrupted, will be settled')
      this.#interrupted.set(intent.oldId, performance.now())
    }
  }

  async #settleAll(): Promise<void> {
    for (const [id, since] of [...this.#interrupted]) {
      const intent = this.#intents.get(id)
      try {
        if (intent?.isPublished) await this.#removeReplaced(intent)
        else if (intent) await this.#settle(intent, since)
        this.#interrupted.delete(id)
      } catch (error) {
        if (isGatewayError(error, 'aborted')) return
        this.env.log.warn({ err: error, name: intent?.name }, 'cannot settle an interrupted replacement, will retry')
      }
    }
  }

  async #removeReplaced(intent: Intent): Promise<void> {
    await this.api.remove(intent.oldId, this.#closed.signal).catch(ignoreMissing)
    await this.#forget(intent)
  }

  /** `since`: when it was interrupted. */
  async #settle(intent: Intent, since: number): Promise<void> {
    await this.#waitForListings(since)
    const { signal } = this.#closed
    const items = await this.api.members(intent.folderId, signal).catch((error: unknown) => {
      // The folder was removed, with both files.
      if (isGatewayError(error, 'not_found')) return []
      throw error
    })
    const hasOld = items.some(({ id }) => id === intent.oldId)
    const next = items.find(({ id }) => id === intent.newId)
    const isTaken = items.some(({ id, name }) => name === intent.name && id !== intent.oldId && id !== intent.newId)
    if (isTaken) {
      this.env.log.error(
        { name: intent.name },
        'a file was created while another one was replaced, the old one remains',
      )
    } else if (isReplaced(intent, items)) {
      if (hasOld) await this.api.remove(intent.oldId, signal).catch(ignoreMissing)
    } else if (hasOld) {
      await this.api.rename(intent.oldId, intent.name, signal)
      const isStaged = next !== undefined && stagingRun(next.name) !== undefined
      if (isStaged) await this.api.remove(next.id, signal).catch(ignoreMissing)
    } else if (next) {
      // The old file was removed by another client.
      await this.api.rename(intent.newId, intent.name, signal)
    }
    await this.#forget(intent)
  }

  /** A listing of before the interruption would show the old file as if nothing had been changed. */
  async #waitForListings(since: number): Promise<void> {
    const rest = since + this.lag - performance.now()
    try {
      if (rest > 0) await sleep(rest, undefined, { signal: this.#closed.signal })
    } catch (error) {
      throw new GatewayError('aborted', { cause: error })
    }
  }

  async #forget({ oldId }: Intent): Promise<void> {
    this.#intents.delete(oldId)
    await this.#store()
  }

  async #store(): Promise<void> {
    await this.#mutex.run(stateKey, async () => {
      const intents = [...this.#intents.values()]
      await this.env.state.set(stateKey, intents.length === 0 ? undefined : JSON.stringify(intents))
    })
  }
}

/** Whether the new file has the name. */
function isReplaced({ newId, name, isPublished }: Intent, items: readonly QuarkItem[]): boolean {
  return isPublished ?? items.some((item) => item.id === newId && item.name === name)
}

function ignoreMissing(error: unknown): void {
  if (!isGatewayError(error, 'not_found')) throw error
}
