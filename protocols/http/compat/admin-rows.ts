/** Errors about database rows in the admin API. Their codes and messages differ from those about files. */
import { refused, withResponses } from '../api/errors.js'

/** Runs `work`. Its errors have code 500: `not_found` with the message `missing`, `exists` with its own message. */
export function withRowErrors<T>(missing: string, work: () => Promise<T> | T): Promise<T> {
  return withResponses({ not_found: { code: 500, text: missing }, exists: { code: 500 } }, work)
}

/** Returns the row. Throws code 500 with the message `missing` if it is undefined. */
export function requireRow<T>(row: T | undefined, missing: string): T {
  if (row === undefined) throw refused({ code: 500, text: missing })
  return row
}
