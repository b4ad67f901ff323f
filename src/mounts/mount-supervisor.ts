/**
 * Starts and closes the storages, and keeps the table of mounts current. A storage that cannot start stays mounted,
 * reports why in its status, and is started again after increasing pauses.
 */
import PQueue from 'p-queue'
import { settlesWithin, sharedController } from '../base/cancellation.js'
import type {
  ChangeElsewhere,
  DriverEnv,
  Egress,
  GatewayFolders,
  Instance,
  TreeDriver,
} from '../contract/driver-env.js'
import type { AnyDriverType } from '../contract/driver-type.js'
import { releaseWhenIdle } from '../base/idle-memory.js'
import { GatewayError, isGatewayError, toGatewayError } from '../base/errors.js'
import { failureDetails, logInternal, type Log } from '../base/log.js'
import { root, within, type Path } from '../base/path.js'
import type { StorageRow } from '../database/tables/storages.js'
import type { Store } from '../database/tables.js'
import type { Bandwidth } from '../storage/bandwidth.js'
import { BackendCheck } from './backend-check.js'
import { DriverJournals } from './driver-journals.js'
import { concernedPath, type Events, type TreeChange } from '../storage/events.js'
import type { Cluster } from '../cluster/cluster.js'
import { runExclusively } from '../locks/exclusive-work.js'
import { mergeAddition, checkOptions, parseAddition } from './fields.js'
import { ListingBudget } from '../storage/listing-cache.js'
import { storedStatus, visiblePath, workingStatus, type Mount, type Mounts, type ShownPath } from './mounts.js'
import type { PathLocks } from '../locks/path-locks.js'
import type { Spool } from '../storage/fallbacks/spool.js'
import { Storage } from '../storage/storage.js'

/** Changes that an earlier run has begun and not ended. */
interface InterruptedOperations {
  /** Completes or undoes them on a storage that is not in use yet. Resolves after some seconds in any case. */
  recover(storage: Storage): Promise<void>
  /** Ends all retries. */
  close(): void
}

/** Resumable uploads that are not complete. */
interface UnfinishedUploads {
  /** Discards those that no task will resume, on a storage that runs. Never rejects. */
  discardUnused(storage: Storage): Promise<void>
  /** Discards those with these tokens on a storage that was deleted. Never rejects. */
  discardOn(storage: Storage, tokens: readonly string[]): Promise<void>
  /** Tokens of those that a task may resume, on all storages. */
  tokens(): Promise<readonly string[]>
}

interface MountSupervisorDependencies {
  /** The table that the supervisor fills. */
  readonly mounts: Mounts
  readonly store: Store
  readonly events: Events
  readonly spool: Spool
  readonly bandwidth: Bandwidth
  readonly log: Log
  readonly driverTypes: readonly AnyDriverType[]
  readonly instance: Instance
  readonly own: GatewayFolders
  /** A path of the tree as a driver, for drivers that are made of other storages. */
  readonly tree: (path: Path) => TreeDriver
  readonly egress: Egress
  readonly intents: InterruptedOperations
  readonly uploads: UnfinishedUploads
  readonly pathLocks: PathLocks
  /** The number of processes that serve the tree, as far as it is known. */
  readonly processes: () => number
  readonly cluster: Pick<Cluster, 'assertCurrent' | 'knowsEntries' | 'spansMachines'>
}

/** The supervisor changes the state that the table shows. */
interface SupervisedMount extends Mount {
  row: StorageRow
  storage: Storage | undefined
  isGone: boolean
  shows: readonly ShownPath[]
  starting: Promise<void> | undefined
  reason: string
  /** The warnings that the driver has reported since it was opened. */
  warnings: readonly string[]
  /** The journals of the driver that was opened last. */
  journals: DriverJournals
  /** The listeners of the driver that was opened last: see `DriverEnv.onChangeElsewhere`. */
  changeListeners: ((change: ChangeElsewhere) => void)[]
  /** Resolves `starting` and removes it. */
  readonly endFirstStart: () => void
  /** Asks the backend of the running storage. */
  check: BackendCheck | undefined
  /** Aborts when the mount is removed or replaced. */
  readonly controller: AbortController
  retry: NodeJS.Timeout | undefined
  /** Number of consecutive failures. */
  failures: number
}

/** Seconds before the next attempt to start a storage, by the number of failures. */
const retryPauses = [5, 15, 60, 300]

/** Milliseconds that `start` waits for the storages. Slower ones continue in the background. */
const startTimeout = 1500

/** Milliseconds after `start` in which storages that have neither started nor failed count as starting. */
const countsAsStarting = 10_000

/** Milliseconds that `delete` waits until the uploads of the storage are discarded. */
const discardTimeout = 3000

/** Milliseconds that `stop` waits for the storages to close. */
export const storagesCloseTimeout = 6000

export class MountSupervisor {
  readonly #mounts = new Map<number, SupervisedMount>()
  /** When the last call of `start` began, until all of its storages have started or failed. */
  #startingSince = -Infinity
  readonly #listings = new ListingBudget()
  /** Compares stored rows with the mounts, or stores options of a mount. Together, they would see each other's half. */
  readonly #rowAccess = new PQueue({ concurrency: 1 })
  /**
   * Whether a backend on a file system of this machine is being asked. Those that do not respond must not hold several
   * threads.
   */
  #isAskingLocal = false
  readonly #stopReleasing = releaseWhenIdle(() => this.#listings.dropRevised())

  readonly #stopListening: () => void

  constructor(readonly dependencies: MountSupervisorDependencies) {
    this.#stopListening = dependencies.events.on((event, origin) => {
      if (origin === 'elsewhere') this.#tellDrivers(event)
    })
  }

  /**
   * Starts all storages that are not disabled, concurrently. Resolves when all have started or failed, or soon after.
   */
  async start(): Promise<void> {
    const rows = await this.dependencies.store.storages.all()
    const begun = Promise.all(rows.map((row) => this.#begin(this.#attach(row))))
    this.#startingSince = performance.now()
    void begun.finally(() => (this.#startingSince = -Infinity))
    await settlesWithin(begun, startTimeout)
  }

  /**
   * Whether storages of the last call of `start` have neither started nor failed, for some seconds after it: a backend
   * that does not respond does not count forever.
   */
  get isStarting(): boolean {
    return performance.now() - this.#startingSince < countsAsStarting
  }

  /** Closes all storages. A storage that does not close in time is logged and abandoned. */
  async stop(): Promise<void> {
    this.dependencies.intents.close()
    this.#stopReleasing()
    this.#stopListening()
    const closing = new Set(this.#mounts.values())
    const closed = [...closing].map((mount) => this.remove(mount.row.id).finally(() => closing.delete(mount)))
    if (await settlesWithin(Promise.all(closed), storagesCloseTimeout)) return
    const storages = [...closing].map(({ row }) => row.mountPath)
    this.dependencies.log.warn({ storages }, 'storages did not close in time')
  }

  /**
   * Mounts a storage as its row says, in place of the storage with the same id. The table changes at once; the old
   * storage is then closed and the new one is started, unless it is disabled. Rejects with `unavailable` if it does not
   * start; it stays mounted, and is started again later.
   */
  async apply(row: StorageRow): Promise<void> {
    const old = this.#detach(row.id)
    const mount = this.#attach(row)
    await this.#close(old)
    await this.#begin(mount)
    // If the storage was changed again in the meantime, that call reports whether it started.
    const wasReplaced = this.#mounts.get(row.id) !== mount && this.#mounts.has(row.id)
    if (row.disabled || mount.storage || wasReplaced) return
    throw new GatewayError('unavailable', { reason: mount.row.status || 'the storage was removed meanwhile' })
  }

  /** Unmounts a storage at once, and closes it. Resolves to the error if closing failed. */
  async remove(id: number): Promise<GatewayError | undefined> {
    return this.#close(this.#detach(id))
  }

  /**
   * Like `remove`, of a storage that was deleted: nothing could remove later what its writes have staged. `tokens`: of
   * its uploads, whose records are deleted with its row.
   */
  async delete(id: number, tokens: readonly string[]): Promise<GatewayError | undefined> {
    const mount = this.#detach(id)
    if (mount?.storage) {
      await mount.storage.endWrites()
      await settlesWithin(this.dependencies.uploads.discardOn(mount.storage, tokens), discardTimeout)
    }
    return this.#close(mount)
  }

  /**
   * Reads the stored rows, which another process has changed. Unmounts the storages whose rows were deleted, and
   * applies rows that are new or changed. Other storages continue to run. Resolves when the changed ones have started
   * or failed, or soon after.
   */
  async reload(): Promise<void> {
    const begun = await this.#rowAccess.add(async () => {
      const before = new Map(this.#mounts)
      const rows = new Map((await this.dependencies.store.storages.all()).map((row) => [row.id, row]))
      // All changes begin in the same turn of the event loop: a later `apply` must not be overwritten with these rows.
      // Mounts that this process changed while the rows were read are newer than the rows.
      const removed = [...before.keys()].filter((id) => !rows.has(id)).map((id) => this.delete(id, []))
      const changed = [...rows.values()].filter((row) => {
        const mount = this.#mounts.get(row.id)
        return mount === before.get(row.id) && (!mount || !hasSameConfiguration(mount.row, row))
      })
      return [...removed, ...changed.map((row) => this.#restart(row))]
    })
    await settlesWithin(Promise.all(begun), startTimeout)
  }

  /**
   * Stops the storages that must not run while several processes serve the tree, or starts them when no other one is
   * left.
   */
  async processesChanged(): Promise<void> {
    const { driverTypes, processes } = this.dependencies
    const isAlone = processes() === 1
    const changed = [...this.#mounts.values()].filter(({ row, storage }) => {
      const type = driverTypes.find(({ name }) => name === row.driver)
      return type?.facts?.perProcess === true && !row.disabled && (storage === undefined) === isAlone
    })
    await Promise.all(changed.map(({ row }) => this.#restart(row)))
  }

  /** Applies the row, as `apply` does, but never rejects. */
  async #restart(row: StorageRow): Promise<void> {
    try {
      await this.apply(row)
    } catch (error) {
      // A storage that does not start is logged already.
      if (!isGatewayError(error, 'unavailable')) this.#logFailure(row, toGatewayError(error))
    }
  }

  /**
   * Recovers, on every storage, operations and uploads that this node takes over from nodes that have ended. Resolves
   * after some seconds in any case; what is slow continues in the background.
   */
  async recoverAll(): Promise<void> {
    const { intents, uploads, log } = this.dependencies
    await Promise.all([...this.#mounts.values()].map(({ journals }) => journals.takeOver()))
    const storages = [...this.#mounts.values()].flatMap(({ storage }) => storage ?? [])
    await Promise.all(storages.map((storage) => intents.recover(storage)))
    for (const storage of storages) {
      const discarded = uploads.discardUnused(storage).then(() => storage.removeOrphans())
      discarded.catch((error: unknown) => {
        const details = { err: error, storage: storage.mountPoint }
        log.warn(details, 'could not remove what uploads of a dead node have left')
      })
    }
  }

  #attach(row: StorageRow): SupervisedMount {
    let resolve: () => void = () => undefined
    const firstStart = new Promise<void>((done) => (resolve = done))
    const mount: SupervisedMount = {
      row,
      mountPoint: visiblePath(row.mountPath),
      storage: undefined,
      isGone: false,
      shows: [],
      warnings: [],
      journals: new DriverJournals(this.dependencies.store.driverState, row.id),
      changeListeners: [],
      starting: row.disabled ? undefined : firstStart,
      reason: 'it is disabled',
      endFirstStart: () => {
        mount.starting = undefined
        resolve()
      },
      check: undefined,
      controller: sharedController(),
      retry: undefined,
      failures: 0,
    }
    this.#mounts.set(row.id, mount)
    this.dependencies.mounts.replace(this.#mounts.values())
    return mount
  }

  #detach(id: number): SupervisedMount | undefined {
    const mount = this.#mounts.get(id)
    if (!mount) return undefined
    this.#mounts.delete(id)
    this.dependencies.mounts.replace(this.#mounts.values())
    clearTimeout(mount.retry)
    mount.check?.stop()
    mount.controller.abort()
    mount.endFirstStart()
    return mount
  }

  async #close(mount: SupervisedMount | undefined): Promise<GatewayError | undefined> {
    try {
      await mount?.storage?.close()
      return undefined
    } catch (error) {
      this.dependencies.log.warn({ err: error, storage: mount?.row.mountPath }, 'a storage did not close well')
      return toGatewayError(error)
    }
  }

  async #begin(mount: SupervisedMount): Promise<void> {
    if (mount.controller.signal.aborted) return
    if (mount.row.disabled) await this.#setStatus(mount, storedStatus.disabled)
    else await this.#open(mount).finally(mount.endFirstStart)
  }

  async #open(mount: SupervisedMount): Promise<void> {
    const { row, controller } = mount
    try {
      const storage = await this.#newStorage(mount)
      if (!storage) return
      // Before requests can create a file where an interrupted operation has left one to restore.
      await this.dependencies.intents.recover(storage)
      if (controller.signal.aborted) {
        await storage.close()
        return
      }
      mount.storage = storage
      mount.failures = 0
      void this.dependencies.uploads.discardUnused(storage)
      await this.#setStatus(mount, workingStatus(mount.warnings))
      if (!storage.traits.metered) mount.check?.start()
    } catch (error) {
      if (controller.signal.aborted) return
      const failure = toGatewayError(error)
      // The error of an invalid option may name a folder of this machine, which only the admin may see.
      mount.reason = failure.code === 'invalid' ? 'its options are not valid' : failure.reason
      this.#logFailure(row, failure)
      await this.#setStatus(mount, statusOf(failure))
      this.#retryLater(mount)
    }
  }

  /** Logs why a storage did not start, with the stack only of an unexpected error. */
  #logFailure({ mountPath }: StorageRow, error: GatewayError): void {
    const { log } = this.dependencies
    const failure = error.at('start', mountPath)
    if (failure.code === 'internal') logInternal(log, failure, { storage: mountPath })
    else log.warn({ storage: mountPath, ...failureDetails(error) }, failure.message)
  }

  /** Opens the driver. Undefined if the mount was removed in the meantime. */
  async #newStorage(mount: SupervisedMount): Promise<Storage | undefined> {
    const { row, controller } = mount
    const type = requireDriverType(row.driver, this.dependencies)
    const options = checkOptions(type.fields, parseAddition(row.addition))
    mount.shows = []
    mount.warnings = []
    mount.journals = new DriverJournals(this.dependencies.store.driverState, row.id)
    mount.changeListeners = []
    const driver = await type.open(options as never, this.#env(mount))
    if (controller.signal.aborted) {
      await driver.close?.()
      return undefined
    }
    const { mounts, events, spool, bandwidth, store, cluster, log } = this.dependencies
    const storage: Storage = new Storage({
      row,
      mountPoint: mount.mountPoint,
      driver,
      traits: type.traits,
      events,
      spool,
      bandwidth,
      store,
      log: log.child({ storage: row.mountPath }),
      listings: this.#listings,
      knowsEntries: cluster.knowsEntries,
      isMountAncestor: (path) => mounts.isMountAncestor(path),
      answered: () => check.answered(),
    })
    const ask = (signal: AbortSignal) => storage.stat(root, { refresh: true, signal })
    const askLocal = (signal: AbortSignal) => {
      this.#isAskingLocal = true
      return ask(signal).finally(() => (this.#isAskingLocal = false))
    }
    const mayAskLocal = () => (this.#isAskingLocal ? undefined : askLocal)
    const check = new BackendCheck(
      () => (storage.traits.remote ? ask : mayAskLocal()),
      (failure) => {
        mount.isGone = failure !== undefined
        void this.#setStatus(mount, failure ? statusOf(failure) : workingStatus(mount.warnings))
      },
    )
    mount.check = check
    return storage
  }

  /** Tells the drivers about a change by another node, also those that are being opened. */
  #tellDrivers(event: TreeChange): void {
    for (const { mountPoint, changeListeners } of this.#mounts.values()) {
      if (changeListeners.length === 0) continue
      const change = changeIn(mountPoint, event)
      if (change) for (const listener of changeListeners) listener(change)
    }
  }

  #retryLater(mount: SupervisedMount): void {
    if (mount.controller.signal.aborted) return
    const seconds = retryPauses[Math.min(mount.failures++, retryPauses.length - 1)] ?? 300
    mount.retry = setTimeout(() => void this.#open(mount), seconds * 1000).unref()
  }

  async #setStatus(mount: SupervisedMount, status: string): Promise<void> {
    if (mount.row.status === status) return
    mount.row = { ...mount.row, status }
    if (this.#mounts.get(mount.row.id) !== mount) return
    await this.dependencies.store.storages.update(mount.row.id, { status }).catch((error: unknown) => {
      this.dependencies.log.warn({ err: error, storage: mount.row.mountPath }, 'a status could not be stored')
    })
  }

  #env(mount: SupervisedMount): DriverEnv {
    const { store, log, instance, own, tree, egress, uploads, pathLocks, cluster } = this.dependencies
    const { id } = mount.row
    const { journals, changeListeners } = mount
    return {
      log: log.child({ storage: mount.row.mountPath }),
      signal: mount.controller.signal,
      instance,
      own,
      spansMachines: cluster.spansMachines,
      save: (options) =>
        this.#rowAccess.add(async () => {
          // The options of a replaced mount must not overwrite those of its successor.
          if (this.#mounts.get(id) !== mount) return
          const stored = (await store.storages.all()).find((row) => row.id === id)
          if (stored?.addition !== mount.row.addition || this.#mounts.get(id) !== mount) return
          const addition = mergeAddition(stored.addition, options)
          mount.row = { ...mount.row, addition }
          await store.storages.update(id, { addition })
        }),
      state: {
        get: (key) => store.driverState.get(id, key),
        set: (key, value) => store.driverState.set(id, key, value),
        exclusively: (key, work) => runExclusively(pathLocks, key, work),
        journal: (key) => journals.journal(key),
      },
      resumableUploads: () => uploads.tokens(),
      tree: (path, shownAt = (member) => [member]) => {
        mount.shows = [...mount.shows, { path, shownAt }]
        return tree(path)
      },
      egress,
      changed: (path) => mount.storage?.changedElsewhere(path),
      assertCurrent: () => cluster.assertCurrent(),
      onChangeElsewhere: (listener) => void changeListeners.push(listener),
      report: (warnings) => {
        mount.warnings = [...warnings]
        if (mount.storage && !mount.isGone) void this.#setStatus(mount, workingStatus(warnings))
      },
    }
  }
}

/** The driver type of this name. Throws `invalid` if there is none, `unavailable` if several processes exclude it. */
export function requireDriverType(
  driver: string,
  { driverTypes, processes }: Pick<MountSupervisorDependencies, 'driverTypes' | 'processes'>,
): AnyDriverType {
  const type = driverTypes.find(({ name }) => name === driver)
  if (!type) throw new GatewayError('invalid', { reason: `no driver named: ${driver}` })
  if (type.facts?.perProcess === true && processes() > 1) {
    const reason = `each process would have other files in a storage of ${type.name}, and several processes serve this tree`
    throw new GatewayError('unavailable', { reason })
  }
  return type
}

/** Returns the words for a failure that an admin reads. */
function statusOf({ code, cause, reason }: GatewayError): string {
  return code === 'internal' && cause instanceof Error ? cause.message : reason
}

/** The change in a storage at `mountPoint`; undefined if the event is about other paths. */
function changeIn(mountPoint: Path, event: TreeChange): ChangeElsewhere | undefined {
  const path = within(mountPoint, event.path)
  if (path !== undefined) {
    if (event.kind === 'removed') return { kind: 'removed', path }
    const from = event.kind === 'moved' ? within(mountPoint, event.from) : undefined
    return from === undefined ? { kind: 'changed', path } : { kind: 'moved', from, path }
  }
  const concerned = concernedPath(mountPoint, event.path)
  return concerned === undefined ? undefined : { kind: 'changed', path: concerned }
}

function hasSameConfiguration(one: StorageRow, other: StorageRow): boolean {
  const { status: _oneStatus, ...first } = one
  const { status: _otherStatus, ...second } = other
  return JSON.stringify(first) === JSON.stringify(second)
}
