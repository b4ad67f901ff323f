/** Errors of the SMB client. */
import { statusName } from './statuses.js'

/** The server rejected a request with an NT status. */
export class StatusError extends Error {
  override readonly name = 'StatusError'

  constructor(readonly status: number) {
    super(`the server returned ${statusName(status)}`)
  }
}

/**
 * The connection is unusable. The server may have processed the request, except if `kind` is `ended`: then it has
 * processed neither the request nor any other request of the same compound.
 */
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

/**
 * Awaits a request that follows a completed change of the same operation. An ended session rejects with `lost` instead
 * of `ended`, because a repetition of the operation would repeat the change.
 */
export async function afterChange<T>(request: Promise<T>): Promise<T> {
  try {
    return await request
  } catch (error) {
    if (!(error instanceof ConnectionError) || error.kind !== 'ended') throw error
    throw new ConnectionError('lost', error.message, { cause: error })
  }
}
