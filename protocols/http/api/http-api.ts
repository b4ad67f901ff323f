/** State that all parts of the HTTP protocol share, and the types of its Koa context. */
import type { IncomingMessage } from 'node:http'
import type Router from '@koa/router'
import type { RouterContext } from '@koa/router'
import { FairShare } from '../../../src/base/fair-share.js'
import type { ProtocolGateway } from '../../../src/gateway/protocol-gateway.js'
import { clientOf, type Client, type ClientOptions } from '../../lib/client.js'
import { FileTypes } from '../compat/file-types.js'
import { PrivacyMasks } from './privacy-masks.js'
import { ZipDownloads } from '../files/zip-downloads.js'

export { signalOf } from '../../lib/client.js'

/** Concurrent changes of many files, of all users: each holds the paths that it changes. Others wait. */
const maxBulkChanges = 8

export class HttpApi {
  readonly fileTypes: FileTypes
  readonly masks: PrivacyMasks
  readonly zips = new ZipDownloads()
  readonly bulkChanges = new FairShare(maxBulkChanges)
  readonly #clients: ClientOptions

  constructor(
    readonly gateway: ProtocolGateway,
    clients: ClientOptions,
  ) {
    this.fileTypes = new FileTypes(gateway.settings)
    this.masks = new PrivacyMasks(gateway.settings, gateway.log)
    this.#clients = clients
  }

  clientOf(request: IncomingMessage): Client {
    return clientOf(request, this.#clients)
  }
}

export interface State {
  /** The `data` of an error response. Default: null. */
  refusalData?: object
  /** The `message` of a success. Default: `success`. */
  message?: string
}
export type Exchange = RouterContext<State>
export type Routes = Router<State>
