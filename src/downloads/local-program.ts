/** Calls of the programs that an admin runs beside the gateway: their addresses are the admin's, and no redirect leads elsewhere. */
import { GatewayError, toGatewayError } from '../errors.js'
import { joinSignals } from '../signals.js'

/** Milliseconds for one call. */
const patience = 10_000

export interface ProgramAnswer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

/** Rejects with `unavailable` where the program does not answer. */
export async function callProgram(
  name: string,
  url: string | URL,
  init: RequestInit & { readonly signal: AbortSignal },
): Promise<ProgramAnswer> {
  // AbortSignal.any would not hold on to the limit of time: once that was collected as garbage, a call could wait for ever.
  const joined = joinSignals(init.signal, AbortSignal.timeout(patience))
  try {
    const response = await fetch(url, { ...init, signal: joined.signal, redirect: 'error' })
    return { status: response.status, headers: response.headers, text: await response.text() }
  } catch (error) {
    const known = toGatewayError(error)
    if (known.code === 'aborted' && init.signal.aborted) throw known
    throw new GatewayError('unavailable', { reason: `${name} does not answer`, cause: error })
  } finally {
    joined.release()
  }
}
