/** Translates database errors. */
import { GatewayError, toGatewayError } from '../contract/errors.js'

/**
 * `exists` for a violated unique constraint, `not_found` for a violated foreign key, `busy` and `no_space` accordingly,
 * `internal` otherwise; the original error is the `cause`. Supports the error codes of SQLite and the SQLSTATEs of
 * PostgreSQL.
 */
export function toStoreError(error: unknown): GatewayError {
  if (!(error instanceof Error)) return toGatewayError(error)
  const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
  const cause = error
  if (code === '23505') return new GatewayError('exists', { cause })
  if (code === '23503') return new GatewayError('not_found', { cause })
  if (code === '53100' || code === 'SQLITE_FULL') return new GatewayError('no_space', { cause })
  // Knex found no free connection in time.
  const isPoolTimeout = error.name === 'KnexTimeoutError'
  if (isPoolTimeout || code === '40001' || code === '40P01' || code === 'SQLITE_BUSY' || code === 'SQLITE_LOCKED') {
    return new GatewayError('busy', { reason: 'the database is busy', retryAfter: 1, cause })
  }
  // The SQLite driver reports the kind of constraint only in its message.
  if (code === 'SQLITE_CONSTRAINT') {
    if (error.message.includes('UNIQUE constraint failed')) return new GatewayError('exists', { cause })
    if (error.message.includes('FOREIGN KEY constraint failed')) return new GatewayError('not_found', { cause })
  }
  return toGatewayError(error)
}
