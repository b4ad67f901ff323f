/** Structured logs: each line has details, then a message. Internal errors are logged here only, each once. */
import { TreeError, type ErrorCode, type GatewayError } from './errors.js'
import type { Path } from './path.js'

/** The log that is passed to a driver. */
export interface DriverLog {
  debug(details: object, message: string): void
  info(details: object, message: string): void
  warn(details: object, message: string): void
  error(details: object, message: string): void
}

export interface Log extends DriverLog {
  /** Returns a log that adds these details to each line. */
  child(details: Readonly<Record<string, unknown>>): Log
}

/** Errors that are logged already. */
const logged = new WeakSet<GatewayError>()
/** The mount paths of the storages whose drivers threw these errors. */
const storages = new WeakMap<Error, Path>()

/**
 * Records the storage that an error came from; of nested storages, the innermost. Ignores `not_found`, the most
 * frequent error, because its source is of no use in the log.
 */
export function recordStorage(error: GatewayError, mountPoint: Path): void {
  const cause = error.cause ?? error
  if (error.code !== 'not_found' && cause instanceof Error && !storages.has(cause)) storages.set(cause, mountPoint)
}

/** The mount path of the storage that an error came from, as far as it was recorded. */
export function storageOfError(error: Error): Path | undefined {
  return storages.get(error) ?? (error.cause instanceof Error ? storageOfError(error.cause) : undefined)
}

interface FailureDetails {
  readonly code: ErrorCode
  /** The original error. Its other properties may hold secrets. */
  readonly cause: Pick<NodeJS.ErrnoException, 'name' | 'code' | 'message'> | undefined
}

/** The details of the log line about an expected error: its code and its first cause. */
export function failureDetails(error: GatewayError): FailureDetails {
  const cause = firstCause(error)
  const { name, code, message } = cause as NodeJS.ErrnoException
  return { code: error.code, cause: cause === error ? undefined : { name, code, message } }
}

/** The last error of the chain of causes. */
export function firstCause(error: Error): Error {
  return error.cause instanceof Error ? firstCause(error.cause) : error
}

/**
 * Logs an internal error, of which a client sees no details: one line with its operation and path, with its cause, and
 * with the storage that it came from. Of a `TreeError`, logs each failure. Logs nothing for other errors, nor for one
 * that is logged already.
 */
export function logInternal(log: DriverLog, error: GatewayError, details: object = {}): void {
  const isTree = error instanceof TreeError
  if ((!isTree && error.code !== 'internal') || logged.has(error)) return
  logged.add(error)
  if (!isTree) {
    const cause = error.cause ?? error
    const storage = storageOfError(error)
    log.error({ ...details, ...(storage !== undefined && { storage }), err: cause }, error.message)
  } else for (const failure of error.failures) logInternal(log, failure.error.at(error.op, failure.path), details)
}
