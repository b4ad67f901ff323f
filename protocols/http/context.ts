/** What every part of this door shares, and the shape of a request in it. */
import type { IncomingMessage } from 'node:http'
import type Router from '@koa/router'
import type { RouterContext } from '@koa/router'
import type { Gateway } from '../../src/gateway.js'
import { clientOf, type Client, type ClientOptions } from '../lib/client.js'
import { FileTypes } from './file-types.js'
import { PrivacyMasks } from './privacy-masks.js'
import { WrittenLists } from './written-lists.js'

export { signalOf } from '../lib/client.js'

export class Door {
  readonly fileTypes: FileTypes
  readonly masks: PrivacyMasks
  readonly writtenLists = new WrittenLists()
  readonly #clients: ClientOptions

  constructor(
    readonly gateway: Gateway,
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
  /** What a refusal carries as its data; nothing else than null for most routes. */
  refusalData?: object
  /** What a success says, where that is more than `success`. */
  message?: string
}
export type Context = RouterContext<State>
export type Routes = Router<State>
