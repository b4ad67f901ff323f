/**
 * The driver `115 Open`: a folder of an account of 115, by its official API.
 *
 * A file is stored under a staged name in the folder of its target (drivers/lib/api/id-files.ts): without its bytes if the
 * server has them, otherwise by way of its object store. Then it gets its name, and the file that it replaces is removed by
 * its id. A process that ends in between leaves the old or the new file. Of an upload in parts, a later run continues where
 * the object store has parts. The tokens that the server issues are in the driver's state, not in the options.
 */
import type { Readable } from 'node:stream'
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
import type { ByteRange, CallOptions, ListOptions, Source, WriteOptions } from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError, isGatewayError, toGatewayError } from '../../src/contract/errors.js'
import type { Path } from '../../src/contract/path.js'
import type { Traits } from '../../src/contract/traits.js'
import { ApiClient } from '../lib/api/api-client.js'
import { IdFiles } from '../lib/api/id-files.js'
import { RateGate } from '../lib/api/rate-gate.js'
import { Renewal } from '../lib/api/renewal.js'
import { defaultUserAgent, HttpClient } from '../lib/http-client.js'
import { serverName } from './errors.js'
import { HashUploads } from './hash-uploads.js'
import { Downloads115, type LinkRequest } from './links.js'
import { Open115Api, refreshTokens, type Tokens } from './open-api.js'
import { judge } from './open-errors.js'
import type { Open115Item } from './open-items.js'
import { Open115Downloads } from './open-offline.js'
import type { Open115Options } from './open-type.js'
import { Open115Uploads } from './open-uploads.js'
import { Writing115 } from './writing.js'

/** Domains of 115, of its download servers, and of the object store. */
const domains = ['115.com', '115cdn.com', '115cdn.net', 'aliyuncs.com']
/** Milliseconds for which a listing may lack a change. */
const defaultLag = 3000
/** Milliseconds for which a name that a listing did not show counts as absent: one call in a second is few. */
const defaultAbsence = 10_000
const maxPageSize = 1150

/** What tests choose differently. */
export interface Open115Tuning {
  readonly listingLag?: number
  readonly absence?: number
  /** Bytes of each part but the last of a file of this size. */
  readonly partLength?: (size: number) => number
}

export async function openOpen115(
  options: Open115Options,
  env: DriverEnv,
  tuning: Open115Tuning = {},
): Promise<Driver> {
  const client = await connect(options, env)
  try {
    const api = new Open115Api(client, {
      orderBy: options.order_by,
      isAscending: options.order_direction !== 'desc',
      pageSize: Math.min(maxPageSize, Math.max(1, Math.floor(options.page_size))),
    })
    const { root_folder_id: rootId } = options
    await assertRoot(api, rootId, env.signal)
    const driver = new Open115Driver({ api, client, env, rootId, tuning })
    await driver.resume()
    return driver
  } catch (error) {
    await client.close()
    throw toGatewayError(error)
  }
}

async function connect(options: Open115Options, env: DriverEnv): Promise<ApiClient<Tokens>> {
  const { access_token: access, refresh_token: refresh, limit_rate } = options
  const typed = { access, refresh }
  const { state, egress } = env
  const address = new URL('https://proapi.115.com')
  const http = new HttpClient({ server: serverName, address, domains, verifiesCertificate: true, egress })
  // A new access token with the old refresh token is of no use: that one is void if there is a stored one.
  const scope = `115 Open ${typed.refresh}`
  const gate = await RateGate.open({ server: serverName, perSecond: limit_rate, scope, state })
  const renewal = await Renewal.open<Tokens>({
    state,
    key: 'tokens',
    typed: scope,
    first: typed,
    request: async (current) => refreshTokens(client, (current ?? typed).refresh),
  })
  const client: ApiClient<Tokens> = new ApiClient<Tokens>({
    server: serverName,
    http,
    gate,
    credentials: { renewal, headers: ({ access }) => ({ authorization: `Bearer ${access}` }) },
    judge: (answer, call) => judge(answer, call.isAnonymous !== true),
  })
  return client
}

/** Rejects if the account or the root folder cannot be used. */
async function assertRoot(api: Open115Api, rootId: string, signal: AbortSignal): Promise<void> {
  if (!/^\d+$/.test(rootId)) throw new GatewayError('invalid', { reason: 'root_folder_id is not a number' })
  try {
    await api.assertFolder(rootId, signal)
  } catch (error) {
    if (!isGatewayError(error, 'not_found')) throw error
    throw new GatewayError('invalid', { reason: 'root_folder_id is not that of a folder', cause: error })
  }
}

interface Open115Dependencies {
  readonly api: Open115Api
  readonly client: ApiClient<Tokens>
  readonly env: DriverEnv
  readonly rootId: string
  readonly tuning: Open115Tuning
}

class Open115Driver implements Driver {
  readonly traits: Partial<Traits>
  readonly #api: Open115Api
  readonly #files: IdFiles<Open115Item>
  readonly #writing: Writing115<Open115Item>
  readonly #downloads: Downloads115
  readonly #offline: Open115Downloads

  constructor(private readonly dependencies: Open115Dependencies) {
    const { api, client, env, rootId, tuning } = dependencies
    const { listingLag = defaultLag, absence = defaultAbsence, partLength } = tuning
    this.traits = { listingLag }
    this.#api = api
    this.#files = new IdFiles({ vendor: api, rootId, lag: listingLag, absence, env })
    this.#writing = new Writing115(this.#files, new HashUploads(new Open115Uploads(api), client.http, partLength))
    this.#downloads = new Downloads115(client.http, defaultUserAgent)
    this.#offline = new Open115Downloads(api)
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

  upload(path: Path, plan: UploadPlan, options?: WriteOptions): Promise<Upload> {
    return this.#writing.upload(path, plan, options)
  }

  async dropUpload(token: string, options?: CallOptions): Promise<void> {
    await this.#writing.drop(token, options)
  }

  usage({ signal }: CallOptions = {}): Promise<Usage> {
    return this.#api.usage({ signal })
  }

  async addDownload(folder: Path, address: string, options: CallOptions = {}): Promise<string> {
    return this.#offline.add(await this.#files.folderId(folder, options), address, options)
  }

  async findDownload(
    folder: Path,
    query: RemoteDownloadQuery,
    options: CallOptions = {},
  ): Promise<RemoteDownload | undefined> {
    return this.#offline.find(await this.#files.folderId(folder, options), query, options)
  }

  async removeDownload(_folder: Path, id: string, options: RemoveDownloadOptions = {}): Promise<void> {
    await this.#offline.remove(id, options)
  }

  async close(): Promise<void> {
    await this.#files.close()
    this.#downloads.close()
    await this.dependencies.client.close()
  }

  #linkOf({ pickCode }: Open115Item, signal: AbortSignal | undefined): LinkRequest {
    return (userAgent) => this.#api.link(pickCode, userAgent, { signal })
  }
}
