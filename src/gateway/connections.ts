/** The clients that are connected to this process now. Other nodes have others. */
import { randomUUID } from 'node:crypto'
import { GatewayError } from '../base/errors.js'

/** A session of SFTP whose user has signed in, or a request of HTTP that is being answered. */
export interface ClientConnection {
  /** What stands for it as long as it exists: the session, or the request. */
  readonly key: object
  /** The name of the protocol. */
  readonly protocol: string
  /** Undefined for a visitor of a share. */
  readonly user: { readonly id: number; readonly name: string } | undefined
  /** The address of the client, without port. */
  readonly address: string
  readonly since: Date
  /** Bytes that the client has sent and received since then, with those of the protocol. */
  readonly received: number
  readonly sent: number
  /** Ends it at once. */
  end(): void
}

/** What has connections: the server of a protocol. */
export interface ConnectionSource {
  connections(): Iterable<ClientConnection>
}

export interface ListedConnection extends ClientConnection {
  readonly id: string
}

export class Connections {
  readonly #sources: ConnectionSource[] = []
  /** The ids of connections that were listed. */
  readonly #ids = new WeakMap<object, string>()

  add(source: ConnectionSource): void {
    this.#sources.push(source)
  }

  /** All but that of `own`, whose request asks for them, the oldest first. */
  list(own?: object): readonly ListedConnection[] {
    return this.#sources
      .flatMap((source) => [...source.connections()])
      .filter(({ key }) => key !== own)
      .sort((one, other) => one.since.getTime() - other.since.getTime())
      .map((connection) => ({ ...connection, id: this.#idOf(connection) }))
  }

  /** Ends a connection that was listed. Throws `not_found` if it has ended, or is that of another node. */
  end(id: string): ListedConnection {
    const found = this.list().find((connection) => connection.id === id)
    if (!found) throw new GatewayError('not_found', { reason: 'connection not found' })
    found.end()
    return found
  }

  #idOf({ key }: ClientConnection): string {
    const id = this.#ids.get(key) ?? randomUUID()
    this.#ids.set(key, id)
    return id
  }
}
