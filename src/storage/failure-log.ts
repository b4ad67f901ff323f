/** Logs the failures of one backend, of which a client sees no cause, and some of which reach no client. */
import { errorMonitor } from 'node:events'
import type { Readable } from 'node:stream'
import type { Source } from '../contract/call-options.js'
import type { Entry } from '../contract/entry.js'
import {
  GatewayError,
  isGatewayError,
  toGatewayError,
  TreeError,
  type ErrorCode,
  type OperationName,
} from '../base/errors.js'
import { failureDetails, firstCause, recordStorage, type DriverLog } from '../base/log.js'
import { under, type Path } from '../base/path.js'

/** Minimum time between two lines about the same code, in milliseconds. */
const interval = 60_000

const failureCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['unavailable', 'timeout', 'no_space'])

/** The last line about a code. */
interface Line {
  readonly at: number
  /** Number of failures since the line. */
  suppressed: number
}

export class FailureLog {
  readonly #lines = new Map<ErrorCode, Line>()
  /** Errors of bodies that the backend receives. */
  readonly #ofBodies = new WeakSet<Error>()

  /** `mountPoint`: the storage's path in the whole tree. `answered` is called after each call that succeeds. */
  constructor(
    private readonly log: DriverLog,
    private readonly mountPoint: Path,
    private readonly answered: () => void = () => undefined,
  ) {}

  /** Makes a call of the driver, and reports its rejection. */
  async watch<T>(op: OperationName, path: Path, call: () => Promise<T>): Promise<T> {
    try {
      const result = await call()
      this.answered()
      return result
    } catch (error) {
      throw this.failure(op, path, error)
    }
  }

  /** Watches a call that opens a stream, as `watch` does, and also the stream, which can fail later. */
  async stream(path: Path, open: () => Promise<Readable>): Promise<Readable> {
    const bytes = await this.watch('read', path, open)
    return bytes.once(errorMonitor, (error) => this.failure('read', path, error))
  }

  /** Watches a listing, as `watch` does. */
  async *pages(path: Path, pages: AsyncIterable<readonly Entry[]>): AsyncGenerator<readonly Entry[]> {
    try {
      yield* pages
      this.answered()
    } catch (error) {
      throw this.failure('list', path, error)
    }
  }

  /** The source whose errors are not failures of this backend. */
  ofSender(source: Source): Source {
    if (source.bytes) return source
    const read: Source['read'] = async (range, options) => {
      try {
        return this.bodyOfSender(await source.read(range, options))
      } catch (error) {
        if (error instanceof Error) this.#ofBodies.add(error)
        throw error
      }
    }
    return { ...source, read }
  }

  /** Marks the errors of a stream as errors of the sender, which are no failures of this backend. */
  bodyOfSender(stream: Readable): Readable {
    return stream.once(errorMonitor, (error: Error) => this.#ofBodies.add(error))
  }

  /**
   * Logs a failure as a warning: at most one a minute for each code, with the number of those in between. The line has
   * the operation, the path in the whole tree, and the name, code and message of the original error. Returns the error
   * that the caller sees: `denied` gets the detail `storage_refused` if the backend refuses the gateway, which is a
   * failure.
   */
  failure(op: OperationName, path: Path, error: unknown): unknown {
    const failure = toGatewayError(error)
    const cause = firstCause(failure)
    if (this.#ofBodies.has(failure) || this.#ofBodies.has(cause)) return error
    recordStorage(failure, this.mountPoint)
    const isRefused = isRefusal(failure, cause)
    if (isRefused || failureCodes.has(failure.code)) this.#log(op, path, failure)
    return isRefused ? refused(failure) : error
  }

  #log(op: OperationName, path: Path, failure: GatewayError): void {
    const now = performance.now()
    const last = this.#lines.get(failure.code)
    if (last && now - last.at < interval) {
      last.suppressed++
      return
    }
    this.#lines.set(failure.code, { at: now, suppressed: 0 })
    const details = { ...failureDetails(failure), suppressed: last?.suppressed }
    this.log.warn(details, failure.at(op, under(this.mountPoint, path)).message)
  }
}

/** Neither policies nor drivers deny with a cause: the backend has refused the gateway. */
function isRefusal({ code, detail }: GatewayError, cause: Error): boolean {
  return code === 'denied' && (detail === 'storage_refused' || !isGatewayError(cause))
}

/** The error with the detail, unless it has one, or is about several files. */
function refused(error: GatewayError): GatewayError {
  if (error.detail !== undefined || error instanceof TreeError) return error
  const { op, path, reason, cause } = error
  return new GatewayError('denied', { op, path, detail: 'storage_refused', reason, cause })
}
