/** One file in a multipart form (RFC 7578), streamed: nothing of it is kept in memory or on disk here. */
import { Busboy } from '@fastify/busboy'
import type { IncomingMessage } from 'node:http'
import { pipeline, Transform, type Readable } from 'node:stream'
import { pipeline as piped } from 'node:stream/promises'
import { GatewayError, toGatewayError } from '../../src/errors.js'
import { bodySource } from '../lib/body.js'
import { WireError } from './errors.js'

/** Name of the part that holds the file. */
const partName = 'file'
const chunkRoom = 256 * 1024

/**
 * The content of the part `file`, once its head has arrived. The stream ends only when the whole form has: one that is
 * cut short or malformed is an error of the stream (`aborted`, `invalid`), so that half a file is never stored. Whoever
 * does not read it to its end destroys it. Rejects with the wire's words where the form has no such part.
 */
export async function filePart(request: IncomingMessage, signal: AbortSignal): Promise<Readable> {
  const form = newForm(request)
  const body = await bodySource(request).read(undefined, { signal })
  return new Promise((resolve, reject) => {
    let content: Transform | undefined
    const whole = piped(body, form).catch((error: unknown) => {
      const known = toGatewayError(error)
      throw known.code === 'internal' ? malformed(error) : known
    })
    form.on('file', (_name, part) => {
      if (content !== undefined) {
        part.resume() // Only the first one counts.
        return
      }
      content = new Transform({
        highWaterMark: chunkRoom,
        transform(chunk: Buffer, _encoding, callback) {
          callback(null, chunk)
        },
        flush(callback) {
          whole.then(() => {
            callback()
          }, callback)
        },
      })
      content.once('close', () => body.destroy())
      // Of a form that ends within the part, the part hears before the form does.
      part.once('error', (error) => content?.destroy(malformed(error)))
      pipeline(part, content, () => undefined)
      resolve(content)
    })
    whole.then(
      () => {
        if (content === undefined) reject(new WireError(500, 'http: no such file'))
      },
      (error: unknown) => {
        const known = toGatewayError(error)
        content?.destroy(known)
        reject(known)
      },
    )
  })
}

function newForm(request: IncomingMessage) {
  try {
    return new Busboy({
      headers: { ...request.headers, 'content-type': request.headers['content-type'] ?? '' },
      isPartAFile: (name) => name === partName,
      limits: { fieldSize: 64 * 1024, fields: 100, parts: 1000 },
      highWaterMark: chunkRoom,
      fileHwm: chunkRoom,
    })
  } catch (error) {
    throw malformed(error)
  }
}

function malformed(cause: unknown): GatewayError {
  return new GatewayError('invalid', { reason: 'the form is malformed', cause })
}
