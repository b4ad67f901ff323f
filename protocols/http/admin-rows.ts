/** Errors about database rows in the admin API. Their codes and messages differ from those about files. */
import { isGatewayError } from '../../src/contract/errors.js'
import { ApiError, messageOf } from './errors.js'

/**
 * Runs `work` and maps its errors to code 500: `not_found` with the message `missing`, `exists` with its own
 * message. Other errors are rethrown.
 */
export async function withRowErrors<T>(missing: string, work: () => Promise<T> | T): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (isGatewayError(error, 'not_found')) throw new ApiError(500, missing)
    if (isGatewayError(error, 'exists')) throw new ApiError(500, messageOf(error))
    throw error
  }
}

/** Returns the row. Throws code 500 with the message `missing` if it is undefined. */
export function requireRow<T>(row: T | undefined, missing: string): T {
  if (row === undefined) throw new ApiError(500, missing)
  return row
}
