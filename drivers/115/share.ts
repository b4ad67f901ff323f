/** The driver `115 Share`: what somebody shares on 115, to read. Its download links need a signed-in account. */
import type { Readable } from 'node:stream'
import { throwIfAborted } from '../../src/base/cancellation.js'
import type { ByteRange, CallOptions, ListOptions, ReadOptions } from '../../src/contract/call-options.js'
import type { DirectUrl, DirectUrlOptions } from '../../src/contract/capabilities.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError, isGatewayError, toGatewayError } from '../../src/base/errors.js'
import { nameOf, type Path } from '../../src/base/path.js'
import { IdTree, rootExists, type Located } from '../lib/cloud/id-tree.js'
import type { Share115Options } from './index.js'
import { entryOf, type Item115 } from './items.js'
import { Downloads115, type LinkRequest } from './links.js'
import { WebSession } from './web-session.js'
import { ShareApi } from './share-api.js'

/** Maximum number of entries in one answer: 115 blocks clients that ask for more. */
const maxPageSize = 200

export async function openShare115(options: Share115Options, env: DriverEnv): Promise<Driver> {
  const session = await WebSession.connect(options, env, 'share')
  try {
    const pageSize = Math.min(Math.max(Math.round(options.page_size), 1), maxPageSize)
    const api = new ShareApi(session, { shareCode: options.share_code, receiveCode: options.receive_code, pageSize })
    // Other servers of this family write 0 for the whole share.
    const rootId = options.root_folder_id.replace(/^0$/, '')
    await api.snap(rootId, 0, env.signal)
    await session.signIn(options)
    return new Share115Driver(session, api, rootId, env)
  } catch (error) {
    await session.close()
    throw isGatewayError(error, 'not_found')
      ? new GatewayError('invalid', { reason: 'root_folder_id is not a folder of this share', cause: error })
      : toGatewayError(error)
  }
}

class Share115Driver implements Driver {
  readonly #tree: IdTree<Item115>
  readonly #downloads: Downloads115

  constructor(
    private readonly session: WebSession,
    private readonly api: ShareApi,
    rootId: string,
    env: DriverEnv,
  ) {
    this.#tree = new IdTree({
      rootId,
      env,
      list: async function* (id, { signal }) {
        yield await api.list(id, signal)
      },
    })
    this.#downloads = new Downloads115(session.http, session.userAgent)
  }

  async stat(path: Path, options: CallOptions = {}): Promise<Entry> {
    throwIfAborted(options.signal)
    const { id, item } = await this.#tree.look(path, options)
    if (item) return entryOf(nameOf(path), item)
    await rootExists(this.api.snap(id, 0, options.signal))
    return { name: '', kind: 'folder', size: 0, modified: new Date(0) }
  }

  async *pages(path: Path, options: ListOptions = {}): AsyncGenerator<readonly Entry[]> {
    throwIfAborted(options.signal)
    for await (const page of this.#tree.pages(path, options)) yield page.map(({ name, item }) => entryOf(name, item))
  }

  async read(path: Path, range?: ByteRange, options: ReadOptions = {}): Promise<Readable> {
    return this.#withFile(path, (link) => this.#downloads.read(link, range, options), options)
  }

  async directUrl(path: Path, { signal, userAgent }: DirectUrlOptions = {}): Promise<DirectUrl> {
    return this.#withFile(path, (link) => this.#downloads.directUrl(link, userAgent), { signal })
  }

  async close(): Promise<void> {
    this.#downloads.close()
    await this.session.close()
  }

  async #withFile<T>(path: Path, work: (link: LinkRequest) => Promise<T>, options: CallOptions): Promise<T> {
    throwIfAborted(options.signal)
    const ofFile = async ({ id, kind }: Located<Item115>) => {
      if (kind === 'folder') throw new GatewayError('is_folder')
      return work({ key: id, request: (userAgent) => this.api.link(id, userAgent, {}) })
    }
    return this.#tree.with(path, ofFile, options)
  }
}
