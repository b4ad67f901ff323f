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
/** Maximum parts of a form. The parser ignores further ones. */
const maxParts = 1000
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
 * Calls `save` with the name and the content of every part `file`, one after the other, in their order. Resolves when
 * all are saved and the form has ended. Rejects as the stream of `filePart`, with the first error of `save`, after
 * which nothing more is saved, and with `too_large` for a form of more than 1,000 parts.
 */
export async function eachFilePart(
  request: IncomingMessage,
  signal: AbortSignal,
  save: (name: string, content: Readable) => Promise<void>,
): Promise<void> {
  const form = newForm(request)
  const body = await bodySource(request).read(undefined, { signal })
  const parts: Readable[] = []
  let failure: GatewayError | undefined
  const fail = (error: unknown) => {
    failure ??= toGatewayError(error)
    form.destroy(failure)
  }
  /** Whether the latest part is saved, and the one before it. */
  let saved = Promise.resolve()
  let savedBefore = saved
  form.on('file', (_name, part, fileName: string | undefined) => {
    // It may be refused before something reads it.
    part.on('error', () => undefined)
    parts.push(part)
    savedBefore = saved
    saved = savedBefore.then(async () => {
      if (failure !== undefined) throw failure
      await save(fileName ?? '', part)
    })
    saved.catch(fail)
  })
  form.on('partsLimit', () => {
    fail(new GatewayError('too_large', { reason: `a form has ${maxParts} parts at most` }))
  })
  // The parser would hold all small parts that arrive while one is being saved.
  const inTurn = new Transform({
    transform(chunk: Buffer, _encoding, callback) {
      savedBefore.then(() => {
        callback(null, chunk)
      }, callback)
    },
  })
  try {
    await piped(body, inTurn, form)
    await saved
  } catch (error) {
    failure ??= failureOf(error)
    // Destroyed without an error, a part does not end its pipeline.
    for (const part of parts) part.destroy(failure)
    await saved.catch(() => undefined)
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
      limits: { fieldSize: 64 * 1024, fields: 100, parts: maxParts },
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
