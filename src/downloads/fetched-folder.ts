/** A folder with what was downloaded, until it is stored in the tree. */
import type { Source } from '../contract/call-options.js'

interface FetchedItem {
  /** The segments of its path, relative to the folder. */
  readonly names: readonly string[]
  readonly size: number
  /** Changes whenever the content does. */
  readonly version: string
}

export type FetchedFile =
  | (FetchedItem & { readonly kind: 'folder' })
  | (FetchedItem & { readonly kind: 'other' })
  | (FetchedItem & { readonly kind: 'file'; readonly source: Source })

export interface FetchedFolder {
  /** The names in the folder. Empty if it does not exist. */
  names(): Promise<readonly string[]>
  /**
   * All files below a name in the folder. Folders precede their members. Symlinks are of kind 'other' and not followed.
   * Rejects with `not_found` if the name does not exist any more.
   */
  files(name: string): Promise<readonly FetchedFile[]>
  /** Removes a name in the folder, with everything below it. It need not exist. */
  remove(name: string): Promise<void>
  /** Removes the folder, if nothing that was downloaded is left in it. */
  removeIfEmpty(): Promise<void>
  /** Removes the folder with everything in it. It need not exist. */
  removeAll(): Promise<void>
  /** A name in the folder as the names of tasks show it. */
  displayName(name: string): string
}
