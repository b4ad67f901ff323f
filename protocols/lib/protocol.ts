/** What a protocol tells of itself, and how the daemon starts it. `protocols/index.ts` lists all protocols. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ProtocolFacts } from '../../src/accounts/principal.js'
import type { ListenAddress, Config } from '../../src/installation/config.js'
import type { KeyedProtocol } from '../../src/installation/import/server-keys.js'
import type { ProtocolWithSettings } from '../../src/settings/settings-table.js'
import type { ProtocolGateway } from '../../src/gateway/protocol-gateway.js'
import type { Log } from '../../src/base/log.js'
import type { ListenOptions, ProtocolServer } from './listen.js'

/** What a server or handler is made of. It begins what needs no gateway, such as generating keys, while that opens. */
export interface ProtocolEnv {
  readonly config: Config
  readonly log: Log
  readonly opening: Promise<ProtocolGateway>
  /** The name by which storages of this gateway identify themselves to servers; see `pseudonymOf`. */
  readonly pseudonym: string
}

interface CommonProtocol extends ProtocolFacts, KeyedProtocol, ProtocolWithSettings {
  /**
   * Checks what the configuration says of this protocol, before the data folder is opened. Rejects with `invalid` and a
   * reason for the admin.
   */
  checkConfig?(config: Config, log: Log): Promise<void>
}

/** A protocol with an address of its own, of which the key, the flag and the variable have its name. */
interface ListeningProtocol extends CommonProtocol {
  readonly listen: ListenAddress
  /** How the first line begins that the server sends, without being asked, by which `tidegate check` recognizes it. */
  readonly greeting?: string
  /** Imports the implementation on demand. `at`: where to listen. */
  server(env: ProtocolEnv, at: ListenOptions): Promise<ProtocolServer>
}

/** A protocol on the HTTP port. It answers every request itself and never throws. */
export type RequestHandler = (request: IncomingMessage, response: ServerResponse) => void

/** A protocol that answers at the HTTP address. */
interface HttpProtocol extends CommonProtocol {
  readonly listen?: undefined
  /** The path below that of the site: `/dav`. Empty: every path that no other protocol has. */
  readonly path: string
  /** Imports the implementation on demand. */
  handler(env: ProtocolEnv): Promise<RequestHandler>
}

export type Protocol = ListeningProtocol | HttpProtocol
