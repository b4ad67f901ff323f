/** Streams the files of a multipart form (RFC 7578) without buffering them in memory or on disk. */
import type { IncomingMessage } from 'node:http'
import { pipeline, Transform, type Readable } from 'node:stream'
import { pipeline as piped } from 'node:stream/promises'
import { Busboy } from '@fastify/busboy'
import { GatewayError, toGatewayError } from '../../../src/base/errors.js'
import { isDecoded } from '../../../src/base/utf8.js'
import { bodySource } from '../../lib/request-body.js'
import type { Refusal } from '../api/endpoint.js'
import { refused } from '../api/errors.js'
import { malformedForm } from '../api/refusals.js'

/** Name of the part that holds the file. */
const partName = 'file'
export const noFilePart: Refusal = {
  code: 500,
  text: 'http: no such file',
  error: 'invalid',
  when: `the form has no part \`${partName}\``,
}
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
      throw failureOf(error)
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
        if (content === undefined) reject(refused(noFilePart))
      },
      (error: unknown) => {
        const failure = toGatewayError(error)
        content?.destroy(failure)
        reject(failure)
      },
    )
  })
}

/**
 * Calls `save` with the name and the content of every part `file`, in their order. A part is read after the one before
 * it. Resolves when all are saved and the form has ended. Rejects as the stream of `filePart`, and with the errors of
 * `save`, when nothing is being saved any more.
 */
export async function eachFilePart(
  request: IncomingMessage,
  signal: AbortSignal,
  save: (name: string, content: Readable) => Promise<void>,
): Promise<void> {
  const form = newForm(request)
  const body = await bodySource(request).read(undefined, { signal })
  const parts: Readable[] = []
  const saving: Promise<void>[] = []
  form.on('file', (_name, part, fileName: string | undefined) => {
    // It may be refused before something reads it.
    part.on('error', () => undefined)
    const saved = save(fileName ?? '', part)
    saved.catch((error: unknown) => form.destroy(toGatewayError(error)))
    parts.push(part)
    saving.push(saved)
  })
  try {
    await piped(body, form)
    await Promise.all(saving)
  } catch (error) {
    const failure = failureOf(error)
    // Destroyed without an error, a part does not end its pipeline.
    for (const part of parts) part.destroy(failure)
    await Promise.allSettled(saving)
    throw failure
  }
}

/** The parser has no errors of its own type. */
function failureOf(error: unknown): GatewayError {
  const failure = toGatewayError(error)
  return failure.code === 'internal' ? malformed(error) : failure
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
  return new GatewayError('invalid', { reason: malformedForm.text, cause })
}
