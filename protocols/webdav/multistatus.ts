/** 207 Multi-Status (RFC 4918 §13): streamed with backpressure. */
import { STATUS_CODES, type ServerResponse } from 'node:http'
import { GatewayError, TreeError, type MemberFailure } from '../../src/base/errors.js'
import { isWithin, type Path } from '../../src/base/path.js'
import { LockedError } from '../../src/locks/webdav-locks.js'
import { toErrorResponse } from './errors.js'
import { href, xmlType, type WebdavRequest } from './webdav-request.js'
import { wrap, type XmlName } from './xml.js'

const head =
  '<?xml version="1.0" encoding="utf-8"?>\n' +
  '<D:multistatus xmlns:D="DAV:" xmlns:O="http://owncloud.org/ns" xmlns:M="urn:schemas-microsoft-com:">'
const tail = '</D:multistatus>\n'

/** Number of bytes that are buffered before a write. */
const batchSize = 64 * 1024
/**
 * Number of characters that wait as a string. The parts of a string that is being built are objects of the heap, which
 * the garbage collector copies while the response waits for its next turn.
 */
const textSize = 16 * 1024
/** The most bytes that UTF-8 needs for a character of a string. */
const bytesPerCharacter = 3
const none = Buffer.alloc(0)

export class Multistatus {
  readonly #response: ServerResponse
  #text = head
  #encoded = none
  #encodedSize = 0

  constructor(response: ServerResponse) {
    this.#response = response
  }

  /** Adds complete `response` elements. Returns true if the caller must call `flush` before the next `add`. */
  add(text: string): boolean {
    this.#text += text
    if (this.#text.length >= textSize) this.#encode()
    return this.#encodedSize >= batchSize
  }

  #encode(): void {
    const needed = this.#encodedSize + this.#text.length * bytesPerCharacter
    if (needed > this.#encoded.length) {
      // Room for a batch at once, and for more only if one element needs it.
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, batchSize + textSize * bytesPerCharacter * 2))
      this.#encoded.copy(larger, 0, 0, this.#encodedSize)
      this.#encoded = larger
    }
    this.#encodedSize += this.#encoded.write(this.#text, this.#encodedSize)
    this.#text = ''
  }

  #take(): Buffer {
    if (this.#encodedSize === 0) {
      const short = Buffer.from(this.#text)
      this.#text = ''
      return short
    }
    this.#encode()
    const body = this.#encoded.subarray(0, this.#encodedSize)
    this.#encoded = none
    this.#encodedSize = 0
    return body
  }

  /**
   * Writes what is buffered. Resolves when the response can accept more. Rejects with `aborted` if the client
   * disconnects.
   */
  async flush(): Promise<void> {
    const response = this.#response
    if (isClosed(response)) throw new GatewayError('aborted')
    if (!response.headersSent) response.writeHead(207, { 'content-type': xmlType })
    if (!response.write(this.#take())) await drained(response)
    if (isClosed(response)) throw new GatewayError('aborted')
  }

  /** Ends the response. A response that was never flushed is sent with Content-Length. */
  end(): void {
    this.#text += tail
    const body = this.#take()
    if (!this.#response.headersSent) {
      this.#response.writeHead(207, { 'content-type': xmlType, 'content-length': String(body.length) })
    }
    this.#response.end(body)
  }
}

/** Resolves when the response can accept more, or is closed. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      response.off('drain', done).off('close', done)
      resolve()
    }
    response.on('drain', done).on('close', done)
  })
}

function isClosed(response: ServerResponse): boolean {
  return response.destroyed
}

export function statusLine(status: number): string {
  return `<D:status>HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}</D:status>`
}

/**
 * The failures of an error that concerns members of `tree`, and not the whole request; otherwise undefined. A lock on a
 * member is reported for that member (RFC 4918 §9.6.1).
 */
export function memberFailures(error: unknown, tree: Path): readonly MemberFailure[] | undefined {
  if (error instanceof TreeError) return error.failures
  const isMember = error instanceof LockedError && error.lock.path !== tree && isWithin(tree, error.lock.path)
  return isMember ? [{ path: error.lock.path, error }] : undefined
}

/** Responds with 207 and the failed members. Members that are not listed succeeded. Rejects as `Multistatus.flush`. */
export async function sendFailures(webdavRequest: WebdavRequest, failures: readonly MemberFailure[]): Promise<void> {
  const multistatus = new Multistatus(webdavRequest.response)
  for (const { path, error } of failures) {
    const lock = error instanceof LockedError ? `<D:href>${href(webdavRequest, error.lock.path, false)}</D:href>` : ''
    const { status, condition } = toErrorResponse(error)
    const detail = condition === undefined ? '' : `<D:error><D:${condition}>${lock}</D:${condition}></D:error>`
    const isFull = multistatus.add(
      `<D:response><D:href>${href(webdavRequest, path, false)}</D:href>${statusLine(status)}${detail}</D:response>`,
    )
    if (isFull) await multistatus.flush()
  }
  multistatus.end()
}

/** Renders the response element of one resource, with its properties grouped by status. */
export function propertyResponse(
  target: string,
  groups: readonly { readonly status: number; readonly names: readonly XmlName[]; readonly error?: string }[],
): string {
  const propstats = groups
    .filter(({ names }) => names.length > 0)
    .map(({ status, names, error }) => {
      const elements = names.map((name) => wrap(name, '')).join('')
      const condition = error === undefined ? '' : `<D:error><D:${error}/></D:error>`
      return `<D:propstat><D:prop>${elements}</D:prop>${statusLine(status)}${condition}</D:propstat>`
    })
  return `<D:response><D:href>${target}</D:href>${propstats.join('')}</D:response>`
}
