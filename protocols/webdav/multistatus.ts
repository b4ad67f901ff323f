/** 207 Multi-Status (RFC 4918 §13): written in pieces, no faster than the client takes them. */
import { STATUS_CODES, type ServerResponse } from 'node:http'
import { once } from 'node:events'
import { TreeError, type Failure } from '../../src/change.js'
import { GatewayError } from '../../src/errors.js'
import { LockedError } from '../../src/locks.js'
import { isWithin, type Path } from '../../src/path.js'
import { answers } from './errors.js'
import { href, xmlType, type Exchange } from './exchange.js'
import { wrap, type XmlName } from './xml.js'

const head =
  '<?xml version="1.0" encoding="utf-8"?>\n' +
  '<D:multistatus xmlns:D="DAV:" xmlns:O="http://owncloud.org/ns" xmlns:M="urn:schemas-microsoft-com:">'
const tail = '</D:multistatus>\n'

/** Characters that are gathered into one write. */
const batch = 64 * 1024

export class Multistatus {
  readonly #response: ServerResponse
  #pending = head

  constructor(response: ServerResponse) {
    this.#response = response
  }

  /** Adds complete `response` elements. True: call `flush` before more is added. */
  add(text: string): boolean {
    this.#pending += text
    return this.#pending.length >= batch
  }

  /** Sends what was gathered. Resolves when more is welcome; rejects with `aborted` when the client is gone. */
  async flush(): Promise<void> {
    const response = this.#response
    if (isGone(response)) throw new GatewayError('aborted')
    if (!response.headersSent) response.writeHead(207, { 'content-type': xmlType })
    const text = this.#pending
    this.#pending = ''
    if (response.write(text)) return
    const ended = new AbortController()
    try {
      await Promise.race([
        once(response, 'drain', { signal: ended.signal }),
        once(response, 'close', { signal: ended.signal }),
      ])
    } finally {
      ended.abort()
    }
    if (isGone(response)) throw new GatewayError('aborted')
  }

  end(): void {
    const text = this.#pending + tail
    if (this.#response.headersSent) {
      this.#response.end(text)
      return
    }
    const body = Buffer.from(text)
    this.#response.writeHead(207, { 'content-type': xmlType, 'content-length': String(body.length) }).end(body)
  }
}

function isGone(response: ServerResponse): boolean {
  return response.destroyed
}

export function statusLine(status: number): string {
  return `<D:status>HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}</D:status>`
}

/**
 * What an error tells of members of `tree` rather than of the request as a whole; undefined where it does not. A lock on a
 * member is told of that member (RFC 4918 §9.6.1).
 */
export function memberFailures(error: unknown, tree: Path): readonly Failure[] | undefined {
  if (error instanceof TreeError) return error.failures
  const isMember = error instanceof LockedError && error.lock.path !== tree && isWithin(tree, error.lock.path)
  return isMember ? [{ path: error.lock.path, error }] : undefined
}

/** Answers with what went wrong with some members of a tree. What is not told went well. */
export function answerFailures(exchange: Exchange, failures: readonly Failure[]): void {
  const multistatus = new Multistatus(exchange.response)
  for (const { path, error } of failures) {
    const lock = error instanceof LockedError ? `<D:href>${href(exchange, error.lock.path, false)}</D:href>` : ''
    const { status, condition } = answers[error.code]
    const detail = condition === undefined ? '' : `<D:error><D:${condition}>${lock}</D:${condition}></D:error>`
    multistatus.add(
      `<D:response><D:href>${href(exchange, path, false)}</D:href>${statusLine(status)}${detail}</D:response>`,
    )
  }
  multistatus.end()
}

/** One resource's answer about its properties, grouped by status. */
export function propertyResponse(
  target: string,
  groups: readonly { readonly status: number; readonly names: readonly XmlName[]; readonly error?: string }[],
): string {
  const told = groups
    .filter(({ names }) => names.length > 0)
    .map(({ status, names, error }) => {
      const elements = names.map((name) => wrap(name, '')).join('')
      const condition = error === undefined ? '' : `<D:error><D:${error}/></D:error>`
      return `<D:propstat><D:prop>${elements}</D:prop>${statusLine(status)}${condition}</D:propstat>`
    })
  return `<D:response><D:href>${target}</D:href>${told.join('')}</D:response>`
}
