/** State that all parts of the HTTP protocol share, and the types of its Koa context. */
import type { IncomingMessage } from 'node:http'
import type Router from '@koa/router'
import type { RouterContext } from '@koa/router'
import type { ProtocolFacts } from '../../../src/accounts/principal.js'
import { FairShare, type Holder } from '../../../src/base/fair-share.js'
import type { ProtocolGateway } from '../../../src/gateway/protocol-gateway.js'
import { clientOf, type Client, type ClientOptions } from '../../lib/client.js'
import { PrivacyMasks } from './privacy-masks.js'

export { signalOf } from '../../lib/client.js'

/** Maximum number of concurrent changes of many files, by all users: each holds its paths. Others wait. */
const maxBulkChanges = 8

/** A running download of an archive. */
export interface ZipDownload {
  /** Counts bytes that are held until the end. Throws `too_large` if a limit is exceeded. */
  reserve(bytes: number): void
  /** Must be called at the end. */
  end(): void
}

/** The parts that `server.ts` makes of the folders that import this one. */
interface HttpParts {
  readonly protocol: ProtocolFacts
  readonly fileTypes: {
    /** The values of the settings that determine the types. */
    readonly settingValues: readonly string[]
    /** Returns a function from a file name to its type. It uses the settings as of this call. */
    classifier(): (name: string) => 0 | 1 | 2 | 3 | 4 | 5
  }
  readonly zips: {
    /** Throws `throttled` if too many are running. */
    begin(holder: Holder): ZipDownload
  }
}

export class HttpApi {
  readonly protocol: HttpParts['protocol']
  readonly fileTypes: HttpParts['fileTypes']
  readonly zips: HttpParts['zips']
  readonly masks: PrivacyMasks
  readonly bulkChanges = new FairShare(maxBulkChanges)
  readonly #clients: ClientOptions

  constructor(
    readonly gateway: ProtocolGateway,
    clients: ClientOptions,
    { protocol, fileTypes, zips }: HttpParts,
  ) {
    this.protocol = protocol
    this.fileTypes = fileTypes
    this.zips = zips
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
  /** The HTTP status of an error response. Default: 200. */
  refusalStatus?: number
  /** The caller is an admin, who is told as it is what is wrong with the request. */
  isAdminCall?: boolean
  /** The `message` of a success. Default: `success`. */
  message?: string
}
export type Exchange = RouterContext<State>
export type Routes = Router<State>
