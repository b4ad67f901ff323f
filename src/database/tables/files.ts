/** What is stored about files and folders: tables that may be written once per file. */
import type { Path } from '../../base/path.js'

/** Attributes that a backend could not store. */
export interface StoredAttributes {
  readonly modified?: Date | undefined
  readonly mode?: number | undefined
}

/** Name of a dead property, which a WebDAV client stores for a resource (RFC 4918 §4.1). */
export interface PropertyName {
  readonly namespace: string
  readonly name: string
}

export interface Property extends PropertyName {
  /** The element's content as XML text that declares all namespaces it uses. */
  readonly value: string
  /** `xml:lang` in scope where the property was set; empty for none. */
  readonly language: string
}

/** Limits of properties in characters: each counts its namespace, name, value and language, and 256 for itself. */
export interface PropertyLimits {
  /** The size of all properties of one file or folder. */
  readonly ofPath: number
  /** The size of all properties that one user has stored. */
  readonly ofUser: number
}

export type PropertyChange = { readonly set: Property } | { readonly remove: PropertyName }

/** Keyed by path of the whole tree. */
export interface PropertyRows {
  of(path: Path): Promise<Property[]>
  /**
   * Properties of the children of a folder, by path; only of those in `which` if it is given. Children without any
   * are omitted.
   */
  ofChildren(folder: Path, which?: readonly Path[]): Promise<Map<Path, Property[]>>
  /** Total size of the properties of all children, in characters. */
  sizeOfChildren(folder: Path): Promise<number>
  /**
   * Applies all changes in one transaction. `no_space` if the properties of `path`, or those of the user, would
   * exceed a limit.
   */
  change(
    path: Path,
    changes: readonly PropertyChange[],
    userId?: number,
    limits?: Partial<PropertyLimits>,
  ): Promise<void>
  /** Rejects with `no_space` if the properties of the user have reached the limit. */
  assertRoom(userId: number, limit: number): Promise<void>
  move(from: Path, to: Path): Promise<void>
  /** The copies are properties of the user, even above the limit. */
  copy(from: Path, to: Path, deep: boolean, userId?: number): Promise<void>
  /**
   * Pages of the paths at and below `path` that have properties. Each page reflects the database at the time it is
   * read.
   */
  within(path: Path): AsyncIterable<readonly Path[]>
  /** Whether any exist at or below one of these paths. */
  hasWithin(...paths: readonly Path[]): Promise<boolean>
  /**
   * Moves the properties of each `from`, excluding those of its descendants, to its `to`, replacing the properties
   * there; in one transaction. `keep`: copies them, as `copy` does.
   */
  transfer(pairs: readonly (readonly [from: Path, to: Path])[], keep: boolean, userId?: number): Promise<void>
  delete(path: Path): Promise<void> // with everything below
}

/** Modification times and modes of files whose backend stores none. Moved with their files, as properties are. */
export interface AttributeRows {
  of(path: Path): Promise<StoredAttributes | undefined>
  ofChildren(folder: Path): Promise<Map<Path, StoredAttributes>>
  set(path: Path, to: StoredAttributes): Promise<void>
  /** Whether any exist at or below one of these paths. */
  hasWithin(...paths: readonly Path[]): Promise<boolean>
  copy(from: Path, to: Path): Promise<void>
  delete(path: Path): Promise<void>
}

/** Folders of storages whose backend has no empty folders. */
export interface FolderRows {
  /** When the folder was created or last changed; undefined if it is not recorded. */
  of(path: Path): Promise<Date | undefined>
  /** Returns the recorded times of all children of a folder, by path. */
  ofChildren(folder: Path): Promise<Map<Path, Date>>
  /** Records a folder. Without `modified`, an existing record is unchanged and a new one gets the current time. */
  put(path: Path, modified?: Date): Promise<void>
  delete(path: Path): Promise<void> // with everything below
}
