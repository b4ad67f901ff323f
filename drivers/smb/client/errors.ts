/** What can go wrong: an answer of the server, or the connection itself. */
import { statusName } from './statuses.js'

/** The server refused a request. */
export class StatusError extends Error {
  override readonly name = 'StatusError'

  constructor(readonly status: number) {
    super(`the server answers ${statusName(status)}`)
  }
}

/** The connection is of no use any more; what was asked through it may have been done. */
export class ConnectionError extends Error {
  override readonly name: string = 'ConnectionError'

  constructor(
    readonly kind: 'refused' | 'lost' | 'timeout' | 'closed' | 'ended' | 'protocol',
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}

/** The server breaks the protocol, or somebody between us and it changes what it says. */
export class ProtocolError extends ConnectionError {
  override readonly name = 'ProtocolError'

  constructor(message: string, options?: ErrorOptions) {
    super('protocol', message, options)
  }
}
