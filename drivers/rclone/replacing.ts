/**
 * Replaces files on remotes that cannot: the old file is set aside under a visible name, the new one gets its name, and
 * the old one is removed. An intent is stored before, from which a replacement that was interrupted, also by a kill of
 * the gateway, is completed or undone. The old file is removed only when the new one has its name.
 */
import type { DriverEnv } from '../../src/contract/driver-env.js'
import { GatewayError, toGatewayError } from '../../src/contract/errors.js'
import { nameOf, siblingPathOf, type Path } from '../../src/contract/path.js'
import { KeyedMutex } from '../lib/keyed-mutex.js'
import type { Files } from './files.js'
import { isMissing, type Remote } from './remote.js'

/** One replacement. Stored as JSON, so the names of its fields must not change. */
interface Intent {
  /** The new file, before. */
  readonly from: Path
  /** The old file, before; the new file, after. */
  readonly to: Path
  /** The old file, in the meantime. */
  readonly backup: Path
  /** Whether `from` is a staged file, which is removed if it does not replace the old one. */
  readonly isStaged: boolean
  /** Bytes of the new file. Absent in intents of earlier versions. */
  readonly size?: number | undefined
}

const stateKey = 'replacing'
/** Bytes of the name of an old file that is set aside. Remotes that encrypt names have room for 143. */
const maxName = 120
/** Milliseconds between two attempts to settle what was interrupted. */
const retryInterval = 1000

export class Replacements {
  readonly #intents = new Map<Path, Intent>()
  readonly #storing = new KeyedMutex()
  /** Intents of replacements that failed in an unknown state. */
  readonly #unsettled = new Set<Intent>()
  #lastAttempt = Number.NEGATIVE_INFINITY

  constructor(
    private readonly remote: Remote,
    private readonly files: Files,
    private readonly env: Pick<DriverEnv, 'state' | 'log'>,
    /** Serializes the changes of a name. */
    private readonly exclusively: <T>(path: Path, work: () => Promise<T>) => Promise<T>,
  ) {}

  /** Settles what an earlier run has left. What cannot be settled now is settled before later calls. */
  async load(): Promise<void> {
    const text = await this.env.state.get(stateKey)
    for (const intent of text === undefined ? [] : (JSON.parse(text) as readonly Intent[])) {
      this.#intents.set(intent.backup, intent)
      this.#unsettled.add(intent)
    }
    await this.settle()
  }

  /** Whether the path is that of an old file that is set aside at present. Listings leave it out. */
  isBackup(path: Path): boolean {
    return this.#intents.has(path)
  }

  /** Whether the file may still have to replace another one. */
  isNeeded(staged: Path): boolean {
    return [...this.#intents.values()].some(({ from }) => from === staged)
  }

  /**
   * Gives `from` the name of the file at `to`. If it rejects, the old file has its name again, or will have before the
   * next call. Must run exclusively for `to`.
   */
  async replace(from: Path, to: Path, isStaged: boolean): Promise<void> {
    const { item } = await this.files.find(from, undefined)
    const intent: Intent = { from, to, backup: siblingPathOf(to, 'replaced', maxName), isStaged, size: item?.size }
    this.#intents.set(intent.backup, intent)
    try {
      await this.#store()
      await this.remote.moveFile(to, intent.backup)
      await this.remote.moveFile(from, to)
      await this.remote.removeFile(intent.backup, undefined)
      await this.#forget(intent)
    } catch (error) {
      const isReplaced = await this.#settle(intent).catch((reason: unknown) => this.#defer(intent, error, reason))
      if (!isReplaced) throw error
    }
  }

  /** Completes or undoes what was interrupted. Never rejects. */
  async settle(): Promise<void> {
    if (this.#unsettled.size === 0 || performance.now() - this.#lastAttempt < retryInterval) return
    this.#lastAttempt = performance.now()
    for (const intent of [...this.#unsettled]) {
      try {
        await this.exclusively(intent.to, async () => {
          if (this.#unsettled.has(intent)) await this.#settle(intent)
        })
      } catch (error) {
        this.env.log.warn({ err: error, path: intent.to }, 'cannot settle an interrupted replacement, will retry')
      }
    }
  }

  /** Resolves to whether the new file has the name. Rejects if that cannot be found out or achieved. */
  async #settle(intent: Intent): Promise<boolean> {
    const { from, to, backup, isStaged, size } = intent
    const [current, old, next] = await Promise.all(
      [to, backup, from].map(async (path) => (await this.files.find(path, undefined)).item),
    )
    let isReplaced = false
    if (current && !next && (size === undefined || current.size === size)) {
      isReplaced = true
      if (old) await this.remote.removeFile(backup, undefined)
    } else if (!current && old) {
      await this.remote.moveFile(backup, to)
    } else if (!current && next && isStaged) {
      // The old file was removed by another client.
      await this.remote.moveFile(from, to)
      isReplaced = true
    } else if (old) {
      // Another client has created a file meanwhile, or the new one is incomplete: both remain.
      this.env.log.error({ path: to, backup }, 'a file was created while another one was replaced, the old one remains')
    }
    if (!isReplaced && next && isStaged) await this.remote.removeFile(from, undefined).catch(ignoreMissing)
    await this.#forget(intent)
    return isReplaced
  }

  #defer(intent: Intent, error: unknown, reason: unknown): never {
    this.#unsettled.add(intent)
    this.env.log.error(
      { err: reason, path: intent.to, backup: intent.backup },
      'a replacement was interrupted, will retry',
    )
    throw new GatewayError(toGatewayError(error).code, {
      reason: `the original file may for a while be named "${nameOf(intent.backup)}"`,
      cause: error,
    })
  }

  async #forget(intent: Intent): Promise<void> {
    this.#unsettled.delete(intent)
    this.#intents.delete(intent.backup)
    await this.#store().catch(() => undefined)
  }

  async #store(): Promise<void> {
    await this.#storing.run(stateKey, async () => {
      const intents = [...this.#intents.values()]
      await this.env.state.set(stateKey, intents.length === 0 ? undefined : JSON.stringify(intents))
    })
  }
}

function ignoreMissing(error: unknown): void {
  if (!isMissing(error)) throw error
}
