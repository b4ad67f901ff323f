/**
 * A folder of an account of 115, by either of its APIs.
 *
 * A file is stored under a staged name in the folder of its target (drivers/lib/cloud/id-files.ts): without its bytes
 * if 115 has them, otherwise by way of its object store. Then it gets its name, and the file that it replaces is
 * removed by its id. A process that ends in between leaves the old or the new file, and the next one completes it. Of
 * an upload in parts, a later run continues where the object store has parts.
 */
import type { Readable } from 'node:stream'
import type {
  ByteRange,
  CallOptions,
  ListOptions,
  ReadOptions,
  Source,
  WriteOptions,
} from '../../src/contract/call-options.js'
import type {
  DirectUrl,
  DirectUrlOptions,
  RemoteDownload,
  RemoteDownloadQuery,
  RemoveDownloadOptions,
  Upload,
  UploadPlan,
  Usage,
} from '../../src/contract/capabilities.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError, isGatewayError } from '../../src/base/errors.js'
import type { Path } from '../../src/base/path.js'
import type { Traits } from '../../src/contract/traits.js'
import { IdFiles } from '../lib/cloud/id-files.js'
import type { IdVendor, VendorOptions } from '../lib/cloud/id-vendor.js'
import { findInPages, type ListedDownload } from '../lib/cloud/listed-downloads.js'
import type { HttpClient } from '../lib/http/http-client.js'
import { protocolViolation } from './errors.js'
import { HashUploads, type UploadServer } from './hash-uploads.js'
import { Downloads115, type Link, type LinkRequest } from './links.js'
import { Writing115, type HashedItem } from './writing.js'

/** Options that tests set to other values. */
export interface Tuning115 {
  /** Milliseconds for which a listing may not show a change. */
  readonly listingLag?: number
  /** See `IdTreeOptions`. */
  readonly absence?: number
  /** Bytes of each part but the last of a file of this size. */
  readonly partLength?: (size: number) => number
}

export interface AccountItem extends HashedItem {
  /** Identifies the file in requests for its download link. */
  readonly pickCode: string
}

export interface AccountApi<Item extends AccountItem> extends IdVendor<Item> {
  /** The link of a file, for a client with this User-Agent. Rejects like `linkOf`, and with `not_found`. */
  link(pickCode: string, userAgent: string, options: VendorOptions): Promise<Link | undefined>
  usage(options: VendorOptions): Promise<Usage>
}

/** Downloads that 115 makes by itself. */
export interface OfflineApi {
  /** Resolves to the id of the download. Rejects as `Driver.addDownload`. */
  add(folderId: string, address: string, options: CallOptions): Promise<string>
  pages(options: CallOptions): AsyncIterable<readonly ListedDownload[]>
  /** An unknown id is not an error. */
  remove(id: string, options: RemoveDownloadOptions): Promise<void>
}

interface AccountDependencies<Item extends AccountItem> {
  readonly api: AccountApi<Item>
  readonly uploads: UploadServer
  readonly offline: OfflineApi
  readonly http: HttpClient
  /** The User-Agent of the gateway's own downloads. */
  readonly userAgent: string
  readonly rootId: string
  /** See `Traits`. */
  readonly listsInOrder?: boolean
  readonly env: DriverEnv
  readonly tuning: Tuning115
  /** Ends the sign-in, and closes the connections. */
  readonly close: () => Promise<void>
}

const defaultLag = 3000
/** Milliseconds for which a name that a listing did not show counts as absent: a call or two in a second are few. */
const defaultAbsence = 10_000

export class AccountDriver<Item extends AccountItem> implements Driver {
  readonly traits: Partial<Traits>
  readonly #files: IdFiles<Item>
  readonly #downloads: Downloads115
  readonly #writing: Writing115<Item>

  private constructor(private readonly dependencies: AccountDependencies<Item>) {
    const { api, uploads, http, userAgent, rootId, listsInOrder = false, env, tuning } = dependencies
    const { listingLag = defaultLag, absence = defaultAbsence, partLength } = tuning
    this.traits = { listingLag, listsInOrder }
    this.#files = new IdFiles({ vendor: api, rootId, lag: listingLag, absence, env })
    this.#downloads = new Downloads115(http, userAgent)
    this.#writing = new Writing115(this.#files, new HashUploads(uploads, http, partLength))
  }

  /** Completes what an earlier run has left. Rejects with `invalid` if the root folder cannot be used. */
  static async open<Item extends AccountItem>(dependencies: AccountDependencies<Item>): Promise<Driver> {
    const { api, rootId, env } = dependencies
    if (!/^\d+$/.test(rootId)) throw new GatewayError('invalid', { reason: 'root_folder_id is not a number' })
    await api.assertFolder(rootId, env.signal).catch((error: unknown) => {
      if (!isGatewayError(error, 'not_found')) throw error
      throw new GatewayError('invalid', { reason: 'root_folder_id is not a folder of this account', cause: error })
    })
    const driver = new AccountDriver(dependencies)
    await driver.#files.resume()
    return driver
  }

  stat(path: Path, options?: CallOptions): Promise<Entry> {
    return this.#files.stat(path, options)
  }

  pages(path: Path, options?: ListOptions): AsyncIterable<readonly Entry[]> {
    return this.#files.pages(path, options)
  }

  async read(path: Path, range?: ByteRange, options: ReadOptions = {}): Promise<Readable> {
    return this.#files.file(path, (item) => this.#downloads.read(this.#linkOf(item), range, options), options)
  }

  async directUrl(path: Path, { signal, userAgent }: DirectUrlOptions = {}): Promise<DirectUrl> {
    return this.#files.file(path, (item) => this.#downloads.directUrl(this.#linkOf(item), userAgent), {
      signal,
    })
  }

  write(path: Path, source: Source, options?: WriteOptions): Promise<Entry> {
    return this.#writing.write(path, source, options)
  }

  upload(path: Path, plan: UploadPlan, options?: WriteOptions): Promise<Upload> {
    return this.#writing.upload(path, plan, options)
  }

  async dropUpload(token: string, options?: CallOptions): Promise<void> {
    await this.#writing.drop(token, options)
  }

  async mkdir(path: Path, options?: CallOptions): Promise<void> {
    await this.#files.mkdir(path, options)
  }

  async remove(path: Path, options?: CallOptions): Promise<void> {
    await this.#files.remove(path, options)
  }

  async removeTree(path: Path, options?: CallOptions): Promise<void> {
    await this.#files.removeTree(path, options)
  }

  async move(from: Path, to: Path, options?: CallOptions): Promise<void> {
    await this.#files.move(from, to, options)
  }

  usage({ signal }: CallOptions = {}): Promise<Usage> {
    return this.dependencies.api.usage({ signal })
  }

  async addDownload(folder: Path, address: string, options: CallOptions = {}): Promise<string> {
    return this.dependencies.offline.add(await this.#files.folderId(folder, options), address, options)
  }

  async findDownload(
    folder: Path,
    query: RemoteDownloadQuery,
    options: CallOptions = {},
  ): Promise<RemoteDownload | undefined> {
    const folderId = await this.#files.folderId(folder, options)
    return findInPages(this.dependencies.offline.pages(options), folderId, query)
  }

  async removeDownload(_folder: Path, id: string, options: RemoveDownloadOptions = {}): Promise<void> {
    await this.dependencies.offline.remove(id, options)
  }

  async close(): Promise<void> {
    this.#downloads.close()
    const completed = this.#files.close()
    await this.dependencies.close()
    await completed
  }

  #linkOf({ pickCode, size }: Item): LinkRequest {
    const request = async (userAgent: string) => {
      const link = await this.dependencies.api.link(pickCode, userAgent, {})
      if (link?.size !== undefined && link.size !== size) throw protocolViolation('sent the link of another file')
      return link
    }
    return { key: pickCode, request }
  }
}
