/**
 * The keys by which clients recognize a server, as an import takes them from another program. A protocol that has some
 * states this.
 */
import type { ImportedKind } from '../../base/imported-kinds.js'
import type { Store } from '../../database/tables.js'

export interface ServerKeys {
  /** What the report calls the key. */
  readonly kind: ImportedKind
  /** The name of its file. */
  readonly file: string
  /** Rejects with `invalid` if the content of the file is no usable key. */
  readonly check: (text: string) => Promise<void>
  /**
   * Takes the keys in the folder `from` into the database and the data folder `data`. A server uses them from its next
   * start. Rejects with `invalid`.
   */
  readonly take: (secrets: Store['secrets'], data: string, from: string) => Promise<void>
}

/** A protocol, as far as imports need it. */
export interface KeyedProtocol {
  readonly keys?: ServerKeys
}

export function serverKeysOf(protocols: readonly KeyedProtocol[]): readonly ServerKeys[] {
  return protocols.flatMap(({ keys }) => keys ?? [])
}
