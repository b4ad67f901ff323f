/** Storages as admins configure them, and what their drivers store. */
import type { Path } from '../../base/path.js'
import type { Installation } from '../installation.js'
import type { New } from './path-rows.js'

/** A storage as the admin configured it. */
export interface StorageRow {
  readonly id: number
  readonly mountPath: Path
  readonly order: number
  readonly driver: string
  /** Minutes for which a listing stays in the cache. */
  readonly cacheExpiration: number
  readonly customCachePolicies: string
  /** The state of the storage or the error of its last start, as text for the admin (src/mounts/mounts.ts). */
  readonly status: string
  /** Options of the driver, as JSON text. */
  readonly addition: string
  readonly remark: string
  readonly modified: Date
  readonly disabled: boolean
  readonly disableIndex: boolean
  readonly enableSign: boolean
  readonly orderBy: '' | 'name' | 'size' | 'modified'
  readonly orderDirection: '' | 'asc' | 'desc'
  readonly extractFolder: '' | 'front' | 'back'
  readonly webProxy: boolean
  readonly webdavPolicy: '302_redirect' | 'use_proxy_url' | 'native_proxy'
  readonly proxyRange: boolean
  readonly downProxyUrl: string
  readonly disableProxySign: boolean
}

/** An entry of the journal of a driver. */
export interface JournalRow {
  /** An id without spaces. The ids of earlier entries sort first. */
  readonly id: string
  readonly value: string
}

export interface StorageRows {
  all(): Promise<StorageRow[]>
  insert(row: New<StorageRow>): Promise<StorageRow> // `exists` for a taken mount path
  update(id: number, changes: Partial<New<StorageRow>>): Promise<StorageRow>
  /**
   * Updates the row, and moves the properties, attributes and folders at and below `from` to `to` in the same
   * transaction. They replace those at `to`. Neither path is within the other.
   */
  updateAndMove(id: number, changes: Partial<New<StorageRow>>, from: Path, to: Path): Promise<StorageRow>
  delete(id: number): Promise<boolean>
  /** Deletes a storage. Returns the tokens of its uploads, of all nodes; undefined if there is no such storage. */
  deleteWithUploads(id: number): Promise<string[] | undefined>
}

/** Key-value state of drivers, by storage. */
export interface DriverStateRows {
  get(storageId: number, key: string): Promise<string | undefined>
  set(storageId: number, key: string, value: string | undefined): Promise<void>
  /** Stores an entry of a journal of this node; without a value, deletes it. */
  setEntry(storageId: number, journal: string, entry: { readonly id: string; readonly value?: string }): Promise<void>
  /** The entries of this node, the oldest first. */
  entries(storageId: number, journal: string): Promise<JournalRow[]>
  /** Makes the entries of nodes that are not alive those of this node. Resolves to these, the oldest first. */
  takeOver(storageId: number, journal: string): Promise<JournalRow[]>
  /**
   * If the key has a value, deletes it and adds entries of this node to the journal of that name; in one transaction.
   */
  deleteAndAdd(storageId: number, key: string, entries: readonly JournalRow[]): Promise<void>
}

/** What `installation.ts` says. `isFirst`: whether a first run makes this storage. */
export interface InstallationRows {
  assertNew(isFirst: (row: StorageRow) => boolean): Promise<void>
  replace(by: Installation, isFirst: (row: StorageRow) => boolean): Promise<void>
}
