/** Errors of databases: what they are translated to, and which work is repeated. */
import { setTimeout as delay } from 'node:timers/promises'
import { GatewayError, toGatewayError } from '../base/errors.js'

/** SQLSTATEs of a server that accepts no connections, and of sessions that it has ended. */
const disconnected = new Set(['57P01', '57P02', '57P03', '53300', '25006', '08000', '08001', '08003', '08004', '08006'])
/** Codes of statements that have waited too long for a lock. */
const waited = new Set(['55P03', '57014', 'SQLITE_BUSY', 'SQLITE_LOCKED'])
/** Errors of Node's sockets. */
const socketErrors = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  // A statement that is sent while the server ends the session.
  'ERR_STREAM_DESTROYED',
  'ERR_STREAM_WRITE_AFTER_END',
])

/** Milliseconds for which work waits for a server that restarts. */
const reconnectTime = 5000

/** The driver's error for a server that accepts a connection and does not greet. */
const connectTimeout = 'timeout expired'

/** Whether the connection to the database was lost or could not be opened. */
export function isConnectionError(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const code = codeOf(error)
  // The driver has no code for these. Knex puts the statement before its message.
  const isLost = /(?:^| - )Connection terminated|not queryable$/.test(error.message)
  return disconnected.has(code) || socketErrors.has(code) || isLost || error.message === connectTimeout
}

/** Whether no statement has reached the database: no connection could be opened, or it was lost before. */
export function isUnsent(error: unknown): boolean {
  if (!(error instanceof Error) || !isConnectionError(error)) return false
  const { syscall } = error as NodeJS.ErrnoException
  const isOpening =
    syscall === 'connect' || syscall === 'getaddrinfo' || /connection timeout|not queryable$/.test(error.message)
  return isOpening || error.message === connectTimeout || ['57P03', '53300', '08001', '08004'].includes(codeOf(error))
}

/** Whether PostgreSQL has rolled back the transaction because of a deadlock or a conflict, and it can be repeated. */
export function isRolledBack(error: unknown): boolean {
  return error instanceof Error && ['40001', '40P01'].includes(codeOf(error))
}

function codeOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : ''
}

/**
 * `exists` for a violated unique constraint, `not_found` for a violated foreign key, `busy`, `no_space`
 * and `unavailable` accordingly, `invalid` for text that the database cannot store, `internal` otherwise; the original
 * error is the `cause`. Supports the error codes of SQLite and the SQLSTATEs of PostgreSQL.
 */
export function toStoreError(error: unknown): GatewayError {
  if (!(error instanceof Error)) return toGatewayError(error)
  const code = codeOf(error)
  const cause = error
  if (code === '23505') return new GatewayError('exists', { cause })
  if (code === '23503') return new GatewayError('not_found', { cause })
  if (code === '53100' || code === 'SQLITE_FULL') return new GatewayError('no_space', { cause })
  if (isConnectionError(error)) {
    return new GatewayError('unavailable', { reason: 'the database does not answer', retryAfter: 1, cause })
  }
  // A path above about 2,700 bytes, which no index of PostgreSQL can hold.
  if (code === '54000') return new GatewayError('invalid', { reason: 'the path is too long for the database', cause })
  if (code === '22021') return new GatewayError('invalid', { reason: 'the database cannot store this text', cause })
  // Knex, or the pool of path locks, found no free connection in time.
  const isPoolTimeout = error.name === 'KnexTimeoutError' || error.message === 'timeout exceeded when trying to connect'
  if (isPoolTimeout || isRolledBack(error) || waited.has(code)) {
    return new GatewayError('busy', { reason: 'the database is busy', retryAfter: 1, cause })
  }
  // The SQLite driver reports the kind of constraint only in its message.
  if (code === 'SQLITE_CONSTRAINT') {
    if (error.message.includes('UNIQUE constraint failed')) return new GatewayError('exists', { cause })
    if (error.message.includes('FOREIGN KEY constraint failed')) return new GatewayError('not_found', { cause })
  }
  return toGatewayError(error)
}

/** Runs `work` again, after increasing pauses, while it rejects with an error that is `isRepeatable`. */
export async function retried<T>(work: () => Promise<T>, isRepeatable: (error: unknown) => boolean): Promise<T> {
  const end = performance.now() + reconnectTime
  for (let pause = 20; ; pause = Math.min(2 * pause, 500)) {
    try {
      return await work()
    } catch (error) {
      if (!isRepeatable(error) || performance.now() + pause > end) throw error
    }
    await delay(pause)
  }
}
