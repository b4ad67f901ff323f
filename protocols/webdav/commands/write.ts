/** PUT, MKCOL and DELETE. */
import { etagOf } from '../../../src/change.js'
import { GatewayError } from '../../../src/errors.js'
import { bodySource } from '../../lib/body.js'
import { Refusal } from '../errors.js'
import { allowedMethods, answer, expectDepth, hasBody, letWait, type Command, type Exchange } from '../exchange.js'
import { answerFailures, memberFailures } from '../multistatus.js'

/** Answers once the bytes are stored. */
export const put: Command = async (exchange) => {
  const { request, response, fs, path, change, slash } = exchange
  if (slash) throw new Refusal(405, 'a folder cannot be put', { headers: { allow: allowedMethods } })
  // RFC 9110 §14.5: a part must never be taken for the whole.
  if (request.headers['content-range'] !== undefined) throw new Refusal(400, 'PUT of a part is not supported')
  const modified = modifiedOf(exchange)
  const size = sizeOf(exchange)
  request.once('end', () => letWait(request)) // a slow storage may still be at work then
  const { entry, created } = await fs.write(path, bodySource(request, { size, modified }), { ...change, modified })
  answer(response, created ? 201 : 204, {
    etag: etagOf(entry),
    ...(modified === undefined ? {} : { 'x-oc-mtime': 'accepted' }),
  })
}

/** X-OC-Mtime: Unix seconds, as ownCloud clients and rclone send them. */
function modifiedOf({ request }: Exchange): Date | undefined {
  const text = request.headers['x-oc-mtime']
  if (text === undefined) return undefined
  if (typeof text !== 'string' || !/^-?\d{1,11}(\.\d{1,9})?$/.test(text)) {
    throw new GatewayError('invalid', { reason: 'malformed X-OC-Mtime header' })
  }
  return new Date(Math.round(Number(text) * 1000))
}

/** What a chunked body announces: Finder and programs of the AList family tell its size in headers of their own. */
function sizeOf({ request }: Exchange): number | undefined {
  const text = request.headers['x-expected-entity-length'] ?? request.headers['x-file-size']
  return typeof text === 'string' && /^\d{1,15}$/.test(text) ? Number(text) : undefined
}

export const mkcol: Command = async ({ request, response, fs, path, change }) => {
  if (hasBody(request)) throw new Refusal(415, 'MKCOL takes no body') // RFC 4918 §9.3
  await fs.mkdir(path, change)
  answer(response, 201)
}

export const remove: Command = async (exchange) => {
  const { request, response, fs, path, change } = exchange
  expectDepth(exchange, ['infinity'], 'infinity') // RFC 4918 §9.6.1
  letWait(request)
  try {
    await fs.remove(path, change)
  } catch (error) {
    const failures = memberFailures(error, path)
    if (failures === undefined) throw error
    answerFailures(exchange, failures)
    return
  }
  answer(response, 204)
}
