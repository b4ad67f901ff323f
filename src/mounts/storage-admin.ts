/** The administration of storages: validates, stores and mounts their rows. */
import PQueue from 'p-queue'
import type { Usage } from '../contract/capabilities.js'
import type { CallOptions } from '../contract/call-options.js'
import type { AnyDriverType } from '../contract/driver-type.js'
import { GatewayError, isGatewayError, toGatewayError, type ErrorOrigin, type OperationName } from '../base/errors.js'
import type { Log } from '../base/log.js'
import { checkName, cleanPath, isWithin, reservedPrefix, root, segmentsOf, topNames, type Path } from '../base/path.js'
import type { Events } from '../storage/events.js'
import { checkOptions, parseAddition } from './fields.js'
import { CachePolicies } from '../storage/listings.js'
import type { MountSupervisor } from './mount-supervisor.js'
import { storedStatus, visiblePath, type Mounts } from './mounts.js'
import type { StorageRow } from '../database/tables/storages.js'
import type { Store } from '../database/tables.js'
import type { Locks } from '../locks/webdav-locks.js'

export type { StorageRow } from '../database/tables/storages.js'

/** The part of a row that an admin sets. */
export type StorageConfiguration = Omit<StorageRow, 'id' | 'status' | 'modified' | 'mountPath'> & {
  readonly mountPath: string
}

/**
 * The row is stored, but the storage did not start. The reason is its error. The start is retried automatically. Has
 * the id of the row, which the caller needs to correct it.
 */
export class StorageNotStarted extends GatewayError {
  constructor(
    readonly id: number,
    reason: string,
    options: ErrorOrigin = {},
  ) {
    super('unavailable', { ...options, reason })
  }

  override at(op: OperationName | undefined, path: string): StorageNotStarted {
    return new StorageNotStarted(this.id, this.reason, { op, path, cause: this.cause ?? this })
  }
}

interface StorageAdminDependencies {
  readonly store: Store
  readonly mounts: Mounts
  readonly supervisor: Pick<MountSupervisor, 'apply' | 'delete'>
  readonly locks: Locks
  readonly events: Events
  readonly driverTypes: readonly AnyDriverType[]
  readonly log: Log
}

export class StorageAdmin {
  /** Stores and mounts changes in the same order. A change does not wait until a storage has started. */
  readonly #order = new PQueue({ concurrency: 1 })

  constructor(private readonly dependencies: StorageAdminDependencies) {}

  /** All storages, including disabled and failed ones, sorted by order, then id. */
  list(): readonly StorageRow[] {
    return [...this.dependencies.mounts.rows()].sort((one, other) => one.order - other.order || one.id - other.id)
  }

  get(id: number): StorageRow | undefined {
    return this.dependencies.mounts.rows().find((row) => row.id === id)
  }

  /** The disk usage of a storage; undefined if it does not run, does not report it, or does not answer in time. */
  async usage(id: number): Promise<Usage | undefined> {
    return this.dependencies.mounts.storageOf(id)?.usageWithTimeout()
  }

  /** Checks whether the backend answers. Rejects with its error, or with `unavailable` if the storage does not run. */
  async check(id: number, { signal }: CallOptions = {}): Promise<void> {
    const { mounts } = this.dependencies
    await mounts.whenStarted(visiblePath(this.#existingRow(id).mountPath), { signal })
    const storage = mounts.storageOf(id)
    if (!storage) {
      throw new GatewayError('unavailable', { reason: this.#existingRow(id).status || 'the storage is still starting' })
    }
    await storage.stat(root, { refresh: true, signal })
  }

  /**
   * Stores and starts a storage. Resolves once it runs. Rejects as `checkConfiguration` and `checkOptions`, with
   * `exists` if the mount path is taken, and with StorageNotStarted.
   */
  async create(configuration: StorageConfiguration): Promise<StorageRow> {
    const type = this.dependencies.driverTypes.find(({ name }) => name === configuration.driver)
    // The storage could never start.
    if (type) checkOptions(type.fields, parseAddition(configuration.addition))
    return this.#storeAndMount(() => insertStorage(configuration, this.dependencies))
  }

  /** Replaces the whole configuration. The driver cannot be changed. Rejects as `create`, and with `not_found`. */
  async update(id: number, configuration: StorageConfiguration): Promise<StorageRow> {
    const old = this.#existingRow(id)
    if (configuration.driver !== old.driver) {
      throw new GatewayError('invalid', { detail: 'driver_changed' })
    }
    const { storages } = this.dependencies.store
    const checked = checkConfiguration(configuration, this.dependencies.driverTypes)
    const [from, to] = [visiblePath(old.mountPath), visiblePath(checked.mountPath)]
    return this.#storeAndMount(() => {
      const changes = { ...checked, status: storedStatus.starting, modified: new Date() }
      return withPathError(() =>
        this.#movesMetadata(id, from, to)
          ? storages.updateAndMove(id, changes, from, to)
          : storages.update(id, changes),
      )
    }, old)
  }

  /** Enables and starts a storage. Rejects with `invalid` if it is enabled, and with StorageNotStarted. */
  async enable(id: number): Promise<void> {
    if (!this.#existingRow(id).disabled) throw new GatewayError('invalid', { detail: 'storage_enabled' })
    await this.#storeAndMount(() =>
      this.dependencies.store.storages.update(id, { disabled: false, status: storedStatus.starting }),
    )
  }

  /** Disables and unmounts a storage, and aborts its operations. Rejects with `invalid` if it is disabled. */
  async disable(id: number): Promise<void> {
    const old = this.#existingRow(id)
    if (old.disabled) throw new GatewayError('invalid', { detail: 'storage_disabled' })
    await this.#storeAndMount(
      () => this.dependencies.store.storages.update(id, { disabled: true, status: storedStatus.disabled }),
      old,
    )
  }

  /**
   * Deletes a storage with the metadata that the gateway stores for its files. The files themselves are not touched.
   * Rejects if closing the driver failed; the storage is deleted nevertheless.
   */
  async delete(id: number): Promise<void> {
    const { store, supervisor } = this.dependencies
    const old = this.#existingRow(id)
    const visible = visiblePath(old.mountPath)
    const { closed } = await this.#order.add(async () => {
      const tokens = await store.storages.deleteWithUploads(id)
      if (!tokens) throw notFound()
      return { closed: supervisor.delete(id, tokens) }
    })
    const failure = await closed
    if (this.#ownsAlone(id, visible)) {
      await store.properties.delete(visible)
      await store.attributes.delete(visible)
      await store.folders.delete(visible)
      await this.dependencies.locks.dropWithin(visible, true)
    }
    this.dependencies.events.emit({ kind: 'removed', path: visible })
    if (failure) throw failure
  }

  /** Deletes the storages that a command has marked. Does not reject: the command reports what remains. */
  async deleteMarked(): Promise<void> {
    const { store, log } = this.dependencies
    for (const { id, status, mountPath } of await store.storages.all()) {
      if (status !== storedStatus.removing) continue
      await this.delete(id).catch((error: unknown) => {
        // Another node may have deleted it.
        if (!isGatewayError(error, 'not_found'))
          log.warn({ err: error, storage: mountPath }, 'a storage is not deleted')
      })
    }
  }

  /** Restarts every enabled storage. Resolves when all of them have started or failed, as their status shows. */
  async restartAll(): Promise<void> {
    const enabled = this.list().filter((row) => !row.disabled)
    await Promise.all(
      enabled.map(({ id }) =>
        this.#storeAndMount(async () => ({ ...this.#existingRow(id), status: storedStatus.starting })).catch(
          (error: unknown) => {
            // The status of the storage shows the error, or it was deleted meanwhile.
            if (!isGatewayError(error, 'unavailable', 'not_found')) throw error
          },
        ),
      ),
    )
  }

  #existingRow(id: number): StorageRow {
    const row = this.get(id)
    if (!row) throw notFound()
    return row
  }

  /** Stores and mounts a row. `old`: the row that it replaces, whose path is reported as removed. */
  async #storeAndMount(store: () => Promise<StorageRow>, old?: StorageRow): Promise<StorageRow> {
    const { supervisor, events, locks } = this.dependencies
    const { row, started } = await this.#order.add(async () => {
      const row = await store()
      const started = supervisor.apply(row).then(
        () => undefined,
        (error: unknown) => error,
      )
      return { row, started }
    })
    const [from, to] = [old && visiblePath(old.mountPath), visiblePath(row.mountPath)]
    if (from !== undefined) events.emit({ kind: 'removed', path: from })
    const failure = await started
    events.emit({ kind: 'folder made', path: to })
    if (from !== undefined && from !== to) await locks.dropWithin(from, true)
    if (isGatewayError(failure, 'unavailable')) throw new StorageNotStarted(row.id, failure.reason, { cause: failure })
    if (failure !== undefined) throw toGatewayError(failure)
    return this.get(row.id) ?? row
  }

  /** Whether the metadata that the gateway stores for the files of a storage moves to its new path. */
  #movesMetadata(id: number, from: Path, to: Path): boolean {
    return !isWithin(from, to) && !isWithin(to, from) && this.#ownsAlone(id, from) && this.#ownsAlone(id, to)
  }

  /** Whether no other storage has files at or below this path. */
  #ownsAlone(id: number, path: Path): boolean {
    return this.list().every((row) => row.id === id || !isWithin(path, visiblePath(row.mountPath)))
  }
}

/**
 * Stores the row without mounting it. Rejects as `checkConfiguration`, with `exists` if the mount path is taken, and
 * with `invalid` if it begins with a name that URLs begin with.
 */
export async function insertStorage(
  configuration: StorageConfiguration,
  { store, driverTypes }: Pick<StorageAdminDependencies, 'store' | 'driverTypes'>,
): Promise<StorageRow> {
  const checked = checkConfiguration(configuration, driverTypes)
  const [first = ''] = segmentsOf(checked.mountPath)
  if (topNames.has(first)) {
    throw new GatewayError('invalid', { reason: `the URLs of this server begin with ${first}: use another name` })
  }
  return withPathError(() => store.storages.insert({ ...checked, status: storedStatus.starting, modified: new Date() }))
}

/** Throws `invalid` if there is none. */
export function driverTypeNamed(driver: string, driverTypes: readonly AnyDriverType[]): AnyDriverType {
  const type = driverTypes.find(({ name }) => name === driver)
  if (type) return type
  const subject = driver.slice(0, 100)
  throw new GatewayError('invalid', { detail: 'driver_unknown', subject, reason: `there is no driver ${subject}` })
}

/**
 * Validates a configuration. Normalizes its path and, if the driver's options are valid, adds their defaults. Does
 * not throw for invalid options: a stored storage with such options can be changed otherwise. Throws `invalid`.
 */
export function checkConfiguration(
  configuration: StorageConfiguration,
  driverTypes: readonly AnyDriverType[],
): StorageConfiguration & { readonly mountPath: Path } {
  const type = driverTypeNamed(configuration.driver, driverTypes)
  const mountPath = cleanPath(configuration.mountPath)
  for (const name of segmentsOf(mountPath)) {
    checkName(name)
    if (name.startsWith(reservedPrefix)) {
      throw new GatewayError('invalid', { reason: `names that start with ${reservedPrefix} are the gateway's own` })
    }
  }
  if (configuration.cacheExpiration < 0) {
    throw new GatewayError('invalid', { reason: 'the cache expiration is a number of minutes' })
  }
  // Throws if the patterns are too expensive.
  new CachePolicies(configuration.customCachePolicies)
  return { ...configuration, mountPath, addition: filledAddition(type, configuration.addition) }
}

function filledAddition(type: AnyDriverType, addition: string): string {
  try {
    const parsed = parseAddition(addition)
    return JSON.stringify({ ...parsed, ...checkOptions(type.fields, parsed) })
  } catch (error) {
    if (isGatewayError(error, 'invalid')) return addition
    throw error
  }
}

/** Rewords `exists` for a mount path that is taken. */
async function withPathError(store: () => Promise<StorageRow>): Promise<StorageRow> {
  try {
    return await store()
  } catch (error) {
    if (!isGatewayError(error, 'exists')) throw error
    throw new GatewayError('exists', { reason: 'a storage with this mount_path exists already', cause: error })
  }
}

function notFound(): GatewayError {
  return new GatewayError('not_found', { reason: 'there is no such storage' })
}
