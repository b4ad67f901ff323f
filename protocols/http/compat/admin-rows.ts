/** Errors about database rows in the admin API. Their codes and messages differ from those about files. */
import type { Refusal } from '../api/endpoint.js'
import { refused, withResponses } from '../api/errors.js'

/** Runs `work`. Its error `not_found` becomes `missing`, and `exists` has code 500 with its own message. */
export function withRowErrors<T>(missing: Refusal, work: () => Promise<T> | T): Promise<T> {
  return withResponses({ not_found: missing, exists: { code: 500 } }, work)
}

/** Returns the row. Throws `missing` if it is undefined. */
export function requireRow<T>(row: T | undefined, missing: Refusal): T {
  if (row === undefined) throw refused(missing)
  return row
}
