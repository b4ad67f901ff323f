/** Structured logs: each line has details, then a message. Internal errors are logged here only, each once. */
import { TreeError, type GatewayError } from './errors.js'

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

/**
 * Logs an internal error, of which a client sees no details: one line with its operation and path, and with its cause.
 * For a TreeError, each failure. Logs nothing for other errors, and for one that is logged already.
 */
export function logInternal(log: DriverLog, error: GatewayError, details: object = {}): void {
  const isTree = error instanceof TreeError
  if ((!isTree && error.code !== 'internal') || logged.has(error)) return
  logged.add(error)
  if (!isTree) log.error({ ...details, err: error.cause ?? error }, error.message)
  else for (const failure of error.failures) logInternal(log, failure.error.at(error.op ?? '', failure.path), details)
}
