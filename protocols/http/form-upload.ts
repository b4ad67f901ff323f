/** Streams one file of a multipart form (RFC 7578) without buffering it in memory or on disk. */
import type { IncomingMessage } from 'node:http'
import { pipeline, Transform, type Readable } from 'node:stream'
import { pipeline as piped } from 'node:stream/promises'
import { Busboy } from '@fastify/busboy'
import { GatewayError, toGatewayError } from '../../src/contract/errors.js'
import { isDecoded } from '../../src/contract/utf8.js'
import { bodySource } from '../lib/request-body.js'
import { refused } from './errors.js'

/** Name of the part that holds the file. */
const partName = 'file'
/** Buffer size of the streams, in bytes. */
const bufferSize = 256 * 1024

/**
 * Resolves to the content of the part `file` when its headers have arrived. The stream ends only after the whole
 * form. A truncated or malformed form is an error of the stream (`aborted`, `invalid`), so that a partial file is never
 * stored. The caller must destroy the stream if it does not read to the end. Rejects with code 500 if the form has
 * no such part.
 */
export async function filePart(request: IncomingMessage, signal: AbortSignal): Promise<Readable> {
  const form = newForm(request)
  const body = await bodySource(request).read(undefined, { signal })
  return new Promise((resolve, reject) => {
    let content: Transform | undefined
    const formEnd = piped(body, form).catch((error: unknown) => {
      const failure = toGatewayError(error)
      throw failure.code === 'internal' ? malformed(error) : failure
    })
    form.on('file', (_name, part, fileName: string | undefined) => {
      // Busboy replaces bytes that are not UTF-8.
      if (fileName !== undefined && !isDecoded(fileName)) {
        form.destroy(new GatewayError('invalid', { reason: 'the file name in the form is not UTF-8' }))
        return
      }
      if (content !== undefined) {
        part.resume() // Only the first part is used.
        return
      }
      content = new Transform({
        highWaterMark: bufferSize,
        transform(chunk: Buffer, _encoding, callback) {
          callback(null, chunk)
        },
        flush(callback) {
          formEnd.then(() => {
            callback()
          }, callback)
        },
      })
      content.once('close', () => body.destroy())
      // If the form ends within the part, the part fails before the form does.
      part.once('error', (error) => content?.destroy(malformed(error)))
      pipeline(part, content, () => undefined)
      resolve(content)
    })
    formEnd.then(
      () => {
        if (content === undefined) reject(refused({ code: 500, text: 'http: no such file' }))
      },
      (error: unknown) => {
        const failure = toGatewayError(error)
        content?.destroy(failure)
        reject(failure)
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
      highWaterMark: bufferSize,
      fileHwm: bufferSize,
    })
  } catch (error) {
    throw malformed(error)
  }
}

function malformed(cause: unknown): GatewayError {
  return new GatewayError('invalid', { reason: 'the form is malformed', cause })
}
