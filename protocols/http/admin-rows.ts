/** What administration says of rows of the database: clients know other words for them than for files. */
import { isGatewayError } from '../../src/errors.js'
import { WireError } from './errors.js'

/** `missing`: the text for a row that is not there. A value that is taken is told in the core's words. */
export async function onRow<T>(missing: string, work: () => Promise<T> | T): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (isGatewayError(error, 'not_found')) throw new WireError(500, missing)
    if (isGatewayError(error, 'exists')) throw new WireError(500, error.reason)
    throw error
  }
}

/** The row, or the same answer as `onRow` gives for one that is missing. */
export function rowThere<T>(row: T | undefined, missing: string): T {
  if (row === undefined) throw new WireError(500, missing)
  return row
}
