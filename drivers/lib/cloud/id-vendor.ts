/** The calls, by ids, that a vendor offers to `IdFiles`. */
import type { Entry } from '../../../src/contract/entry.js'
import type { IdItem } from './shown-names.js'

export interface FileItem extends IdItem {
  /** The id of the folder of the item. */
  readonly parent: string
}

export interface VendorOptions {
  readonly signal?: AbortSignal | undefined
}

/** Every call rejects with GatewayErrors, and with `not_found` if nothing has an id. */
export interface IdVendor<Item extends FileItem> {
  /** Lists a folder. */
  list(
    folder: string,
    options: VendorOptions & { readonly refresh?: boolean | undefined },
  ): AsyncIterable<readonly Item[]>
  /** Rejects with `not_found` if no folder has this id. Asks the vendor each time. */
  assertFolder(id: string, signal: AbortSignal | undefined): Promise<void>
  /** The item as it is now. */
  info(id: string, options: VendorOptions): Promise<Item>
  /** Creates a folder. Resolves to its id. Rejects with `exists`. */
  makeFolder(parent: string, name: string, options: VendorOptions): Promise<string>
  /** Gives an item another name, which others in its folder may have. Repeating it does no harm. */
  rename(item: Pick<Item, 'id' | 'parent'>, name: string): Promise<void>
  /** Moves an item to another folder, which may have others of its name. Repeating it does no harm. */
  move(item: Pick<Item, 'id' | 'parent'>, folder: string): Promise<void>
  /** Removes a file, or a folder with everything in it. */
  remove(item: Pick<Item, 'id' | 'parent'>, options: VendorOptions): Promise<void>
  /** The entry of an item, shown by this name. */
  entryOf(name: string, item: Item): Entry
}
