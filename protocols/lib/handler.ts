/** The form in which a protocol handles the requests of the HTTP port. */
import type { IncomingMessage, ServerResponse } from 'node:http'

/** A protocol on the HTTP port. It answers every request itself and never throws. */
export type RequestHandler = (request: IncomingMessage, response: ServerResponse) => void
