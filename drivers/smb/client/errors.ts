/** Errors of the SMB client. */
import { statusName } from './statuses.js'

/** The server rejected a request with an NT status. */
export class StatusError extends Error {
  override readonly name = 'StatusError'

  constructor(readonly status: number) {
    super(`the server returned ${statusName(status)}`)
  }
}

/** The connection is unusable. The server may have processed the pending requests. */
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

/** The server violates the protocol, or its messages were modified in transit. */
export class ProtocolError extends ConnectionError {
  override readonly name = 'ProtocolError'

  constructor(message: string, options?: ErrorOptions) {
    super('protocol', message, options)
  }
}
