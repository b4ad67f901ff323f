/** PUT, MKCOL and DELETE. */
import { etagOf } from '../../../src/change.js'
import { bodySource } from '../../lib/body.js'
import { verifiedSource } from '../../lib/verified-source.js'
import { Refusal } from '../errors.js'
import { allowedMethods, answer, expectDepth, hasBody, letWait, type Command } from '../exchange.js'
import { answerFailures, memberFailures } from '../multistatus.js'
import { uploadFacts } from '../upload-headers.js'

/** Answers once the bytes are stored. */
export const put: Command = async (exchange) => {
  const { request, response, fs, path, change, slash } = exchange
  if (slash) throw new Refusal(405, 'a folder cannot be put', { headers: { allow: allowedMethods } })
  const facts = uploadFacts(request.headers)
  const { modified } = facts
  request.once('end', () => letWait(request)) // a slow storage may still be at work then
  const source = verifiedSource(bodySource(request, facts))
  const { entry, created } = await fs.write(path, source, { ...change, modified })
  answer(response, created ? 201 : 204, {
    etag: etagOf(entry),
    ...(modified === undefined ? {} : { 'x-oc-mtime': 'accepted' }),
  })
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
