/**
 * The driver `115 Cloud`: a folder of an account of 115, by the API of its web site.
 *
 * A file is stored under a staged name in the folder of its target (drivers/lib/api/id-files.ts): without its bytes if 115
 * has them, otherwise by way of its object store. Then it gets its name, and the file that it replaces is removed by its
 * id. A process that ends in between leaves the old or the new file, and the next one completes it. Of an upload in parts, a
 * later run continues where the object store has parts.
 */
import type { Readable } from 'node:stream'
import type { ByteRange, CallOptions, ListOptions, Source, WriteOptions } from '../../src/contract/call-options.js'
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
import type { Traits } from '../../src/contract/traits.js'
import { GatewayError, isGatewayError, toGatewayError } from '../../src/contract/errors.js'
import type { Path } from '../../src/contract/path.js'
import { IdFiles } from '../lib/api/id-files.js'
import { protocolViolation } from './errors.js'
import { FilesApi, maxPageSize } from './files-api.js'
import { HashUploads } from './hash-uploads.js'
import type { Cloud115Options } from './index.js'
import type { Item115 } from './items.js'
import { Downloads115, type LinkRequest } from './links.js'
import { OfflineDownloads115 } from './offline.js'
import { Session } from './session.js'
import { WebUploads } from './web-uploads.js'
import { Writing115 } from './writing.js'

/** Milliseconds for which a listing may not show a change. */
const defaultLag = 3000

/** What tests choose differently. */
export interface Cloud115Tuning {
  readonly listingLag?: number
  /** Bytes of each part but the last of a file of this size. */
  readonly partLength?: (size: number) => number
}

export async function openCloud115(
  options: Cloud115Options,
  env: DriverEnv,
  tuning: Cloud115Tuning = {},
): Promise<Driver> {
  const account = options.qrcode_token || options.cookie
  const session = await Session.connect(options, env, JSON.stringify(['cloud', account]))
  try {
    await session.signIn(options)
    const api = new FilesApi(session, Math.min(Math.max(Math.round(options.page_size), 1), maxPageSize))
    const { root_folder_id: rootId } = options
    await api.assertFolder(rootId, env.signal)
    const driver = new Cloud115Driver({ session, api, env, rootId, tuning })
    await driver.resume()
    return driver
  } catch (error) {
    await session.close()
    throw isGatewayError(error, 'not_found')
      ? new GatewayError('invalid', { reason: 'root_folder_id is not a folder of this account', cause: error })
      : toGatewayError(error)
  }
}

interface Cloud115Dependencies {
  readonly session: Session
  readonly api: FilesApi
  readonly env: DriverEnv
  readonly rootId: string
  readonly tuning: Cloud115Tuning
}

class Cloud115Driver implements Driver {
  readonly traits: Partial<Traits>
  readonly #files: IdFiles<Item115>
  readonly #downloads: Downloads115
  readonly #writing: Writing115<Item115>
  readonly #offline: OfflineDownloads115

  constructor(private readonly dependencies: Cloud115Dependencies) {
    const { session, api, env, rootId, tuning } = dependencies
    const { listingLag = defaultLag, partLength } = tuning
    this.traits = { listingLag }
    this.#files = new IdFiles({ vendor: api, rootId, lag: listingLag, env })
    this.#downloads = new Downloads115(session.http, session.userAgent)
    const uploads = new WebUploads(session, api)
    this.#writing = new Writing115(this.#files, new HashUploads(uploads, session.http, partLength))
    this.#offline = new OfflineDownloads115(session, uploads)
  }

  /** Completes what an earlier run has left. */
  async resume(): Promise<void> {
    await this.#files.resume()
  }

  stat(path: Path, options?: CallOptions): Promise<Entry> {
    return this.#files.stat(path, options)
  }

  pages(path: Path, options?: ListOptions): AsyncIterable<readonly Entry[]> {
    return this.#files.pages(path, options)
  }

  async read(path: Path, range?: ByteRange, { signal }: CallOptions = {}): Promise<Readable> {
    return this.#files.file(path, (item) => this.#downloads.read(this.#linkOf(item, signal), range, signal), { signal })
  }

  async directUrl(path: Path, { signal, userAgent }: DirectUrlOptions = {}): Promise<DirectUrl> {
    return this.#files.file(path, (item) => this.#downloads.directUrl(this.#linkOf(item, signal), userAgent), {
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
    return this.dependencies.api.usage(signal)
  }

  async addDownload(folder: Path, address: string, options: CallOptions = {}): Promise<string> {
    return this.#offline.add(await this.#files.folderId(folder, options), address, options.signal)
  }

  async findDownload(
    folder: Path,
    query: RemoteDownloadQuery,
    options: CallOptions = {},
  ): Promise<RemoteDownload | undefined> {
    return this.#offline.find(await this.#files.folderId(folder, options), query, options.signal)
  }

  async removeDownload(_folder: Path, id: string, options: RemoveDownloadOptions = {}): Promise<void> {
    await this.#offline.remove(id, options.withFiles === true, options.signal)
  }

  async close(): Promise<void> {
    await this.#files.close()
    this.#downloads.close()
    await this.dependencies.session.close()
  }

  #linkOf({ pickCode, size }: Item115, signal: AbortSignal | undefined): LinkRequest {
    return async (userAgent) => {
      const link = await this.dependencies.api.link(pickCode, userAgent, { signal })
      if (link?.size !== undefined && link.size !== size) throw protocolViolation('sent the link of another file')
      return link
    }
  }
}
