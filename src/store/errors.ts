/** What a database says, in the words of the core. */
import { GatewayError, toGatewayError } from '../errors.js'

/**
 * `exists` for a value that must be unique and is taken, `not_found` for a reference to a row that is gone, `busy` and
 * `no_space` for what they say, `internal` for the rest; the original is the `cause`. Knows the codes of SQLite and the
 * SQLSTATEs of PostgreSQL.
 */
export function toStoreError(error: unknown): GatewayError {
  if (!(error instanceof Error)) return toGatewayError(error)
  const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
  const cause = error
  if (code === '23505') return new GatewayError('exists', { cause })
  if (code === '23503') return new GatewayError('not_found', { cause })
  if (code === '53100' || code === 'SQLITE_FULL') return new GatewayError('no_space', { cause })
  // The query builder's own words for a queue that does not move.
  const waited = error.name === 'KnexTimeoutError'
  if (waited || code === '40001' || code === '40P01' || code === 'SQLITE_BUSY' || code === 'SQLITE_LOCKED') {
    return new GatewayError('busy', { reason: 'the database is busy', retryAfter: 1, cause })
  }
  // SQLite's driver tells the kind of constraint in its message alone.
  if (code === 'SQLITE_CONSTRAINT') {
    if (error.message.includes('UNIQUE constraint failed')) return new GatewayError('exists', { cause })
    if (error.message.includes('FOREIGN KEY constraint failed')) return new GatewayError('not_found', { cause })
  }
  return toGatewayError(error)
}
