/** Storages as an admin configures them: rows that are checked, stored, and then mounted. */
import PQueue from 'p-queue'
import type { AnyDriverType, CallOptions, Usage } from './driver.js'
import { GatewayError, isGatewayError, toGatewayError } from './errors.js'
import type { Events } from './events.js'
import { checkOptions, parsedAddition } from './fields.js'
import { CachePolicies } from './listings.js'
import type { Locks } from './locks.js'
import { visiblePath, type Mounts } from './mounts.js'
import { checkName, cleanPath, isWithin, reservedPrefix, root, segmentsOf, type Path } from './path.js'
import type { StorageRow, Store } from './store/rows.js'

/** What an admin says of a storage; the rest of its row is the gateway's. */
export type StorageConfiguration = Omit<StorageRow, 'id' | 'status' | 'modified' | 'mountPath'> & {
  readonly mountPath: string
}

/** The row is stored, but the storage did not start; the reason says why. It is tried again by itself. */
export class StorageNotStarted extends GatewayError {
  constructor(
    readonly id: number,
    reason: string,
  ) {
    super('unavailable', { reason })
  }

  override at(): this {
    return this
  }
}

export interface StoragesParts {
  readonly store: Store
  readonly mounts: Mounts
  readonly locks: Locks
  readonly events: Events
  readonly driverTypes: readonly AnyDriverType[]
}

export class Storages {
  /** What is stored is mounted in the same order; no change waits for a storage to start. */
  readonly #order = new PQueue({ concurrency: 1 })

  constructor(private readonly parts: StoragesParts) {}

  /** By order, then id; those that are disabled or did not start too. */
  list(): readonly StorageRow[] {
    return [...this.parts.mounts.rows()].sort((one, other) => one.order - other.order || one.id - other.id)
  }

  get(id: number): StorageRow | undefined {
    return this.parts.mounts.rows().find((row) => row.id === id)
  }

  /** How full it is; undefined for one that does not run, does not tell, or not in time. */
  async usage(id: number): Promise<Usage | undefined> {
    return this.parts.mounts.storageOf(id)?.usageSoon()
  }

  /** Asks the backend whether it answers now. Rejects with what is wrong, also for a storage that does not run. */
  async check(id: number, { signal }: CallOptions = {}): Promise<void> {
    const { mounts } = this.parts
    await mounts.startOf(visiblePath(this.#known(id).mountPath), { signal })
    const storage = mounts.storageOf(id)
    if (!storage) {
      throw new GatewayError('unavailable', { reason: this.#known(id).status || 'the storage is still starting' })
    }
    await storage.stat(root, { fresh: true, signal })
  }

  /** Rejects as `checkConfiguration`, with `exists` for a taken path, and with StorageNotStarted. Resolves once it runs. */
  async create(configuration: StorageConfiguration): Promise<StorageRow> {
    return this.#change(() => storeNew(configuration, this.parts))
  }

  /** Replaces the whole configuration. The driver stays what it is. Rejects as `create`, and with `not_found`. */
  async update(id: number, configuration: StorageConfiguration): Promise<StorageRow> {
    const old = this.#known(id)
    if (configuration.driver !== old.driver) {
      throw new GatewayError('invalid', { reason: 'driver cannot be changed' })
    }
    const checked = checkConfiguration(configuration, this.parts.driverTypes)
    return this.#change(async () => {
      const row = await namedPath(() =>
        this.parts.store.storages.update(id, { ...checked, status: '', modified: new Date() }),
      )
      await this.#moveKept(id, visiblePath(old.mountPath), visiblePath(row.mountPath))
      return row
    }, old)
  }

  /** `invalid` where it is enabled; rejects with StorageNotStarted. */
  async enable(id: number): Promise<void> {
    if (!this.#known(id).disabled) throw new GatewayError('invalid', { reason: 'this storage have enabled' })
    await this.#change(() => this.parts.store.storages.update(id, { disabled: false, status: '' }))
  }

  /** Its path is free at once; what runs there ends. `invalid` where it is disabled. */
  async disable(id: number): Promise<void> {
    const old = this.#known(id)
    if (old.disabled) throw new GatewayError('invalid', { reason: 'this storage have disabled' })
    await this.#change(() => this.parts.store.storages.update(id, { disabled: true, status: 'disabled' }), old)
  }

  /**
   * With everything that was kept beside its files, which themselves stay where they are. Rejects with what went wrong when it
   * closed: it is gone all the same.
   */
  async delete(id: number): Promise<void> {
    const { store, mounts } = this.parts
    const old = this.#known(id)
    const visible = visiblePath(old.mountPath)
    const { closed } = await this.#order.add(async () => {
      if (!(await store.storages.delete(id))) throw missing()
      return { closed: mounts.remove(id) }
    })
    const failure = await closed
    if (this.#ownsAlone(id, visible)) {
      await store.properties.delete(visible)
      await store.attributes.delete(visible)
      await store.folders.delete(visible)
      await this.parts.locks.dropWithin(visible, true)
    }
    this.parts.events.emit({ kind: 'removed', path: visible })
    if (failure) throw failure
  }

  /** Starts every storage that is not disabled anew. Resolves when all of them have started or failed, as their status tells. */
  async restartAll(): Promise<void> {
    const enabled = this.list().filter((row) => !row.disabled)
    await Promise.all(
      enabled.map(({ id }) =>
        this.#change(async () => ({ ...this.#known(id), status: '' })).catch((error: unknown) => {
          // Told by the status of the row, or deleted meanwhile.
          if (!isGatewayError(error, 'unavailable', 'not_found')) throw error
        }),
      ),
    )
  }

  #known(id: number): StorageRow {
    const row = this.get(id)
    if (!row) throw missing()
    return row
  }

  /** Stores and mounts a row. `old`: what stood there until now, and is told to be gone. */
  async #change(store: () => Promise<StorageRow>, old?: StorageRow): Promise<StorageRow> {
    const { mounts, events } = this.parts
    const { row, started } = await this.#order.add(async () => {
      const row = await store()
      const started = mounts.apply(row).then(
        () => undefined,
        (error: unknown) => error,
      )
      return { row, started }
    })
    if (old) events.emit({ kind: 'removed', path: visiblePath(old.mountPath) })
    const failure = await started
    events.emit({ kind: 'folder made', path: visiblePath(row.mountPath) })
    if (isGatewayError(failure, 'unavailable')) throw new StorageNotStarted(row.id, failure.reason)
    if (failure !== undefined) throw toGatewayError(failure)
    return this.get(row.id) ?? row
  }

  /** What the gateway keeps beside the files of a storage goes along to its new path. */
  async #moveKept(id: number, from: Path, to: Path): Promise<void> {
    const { store, locks } = this.parts
    if (from === to) return
    await locks.dropWithin(from, true)
    if (isWithin(from, to) || isWithin(to, from)) return
    if (!this.#ownsAlone(id, from) || !this.#ownsAlone(id, to)) return
    await store.properties.move(from, to)
    await store.attributes.move(from, to)
    await store.folders.move(from, to)
  }

  /** Whether no other storage has files at or below this path. */
  #ownsAlone(id: number, path: Path): boolean {
    return this.list().every((row) => row.id === id || !isWithin(path, visiblePath(row.mountPath)))
  }
}

/** Only the row: who mounts it starts it. Rejects as `checkConfiguration`, and with `exists` for a taken path. */
export async function storeNew(
  configuration: StorageConfiguration,
  { store, driverTypes }: Pick<StoragesParts, 'store' | 'driverTypes'>,
): Promise<StorageRow> {
  const checked = checkConfiguration(configuration, driverTypes)
  return namedPath(() => store.storages.insert({ ...checked, status: '', modified: new Date() }))
}

/**
 * The configuration with a clean path and, where the driver's options are valid, with their defaults filled in; a faulty
 * option is told when the storage starts, so that its row can be put right. Rejects with `invalid`.
 */
export function checkConfiguration(
  configuration: StorageConfiguration,
  driverTypes: readonly AnyDriverType[],
): StorageConfiguration & { readonly mountPath: Path } {
  const type = driverTypes.find(({ name }) => name === configuration.driver)
  if (!type) {
    throw new GatewayError('invalid', {
      reason: `failed get driver new: no driver named: ${configuration.driver.slice(0, 100)}`,
    })
  }
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
  // Rejects where the patterns cost too much.
  new CachePolicies(configuration.customCachePolicies)
  return { ...configuration, mountPath, addition: filledAddition(type, configuration.addition) }
}

function filledAddition(type: AnyDriverType, addition: string): string {
  try {
    const given = parsedAddition(addition)
    return JSON.stringify({ ...given, ...checkOptions(type.fields, given) })
  } catch (error) {
    if (isGatewayError(error, 'invalid')) return addition
    throw error
  }
}

/** A taken path, in words. */
async function namedPath(store: () => Promise<StorageRow>): Promise<StorageRow> {
  try {
    return await store()
  } catch (error) {
    if (!isGatewayError(error, 'exists')) throw error
    throw new GatewayError('exists', { reason: 'a storage with this mount_path exists already', cause: error })
  }
}

function missing(): GatewayError {
  return new GatewayError('not_found', { reason: 'failed get storage: record not found' })
}
