/** COPY and MOVE (RFC 4918 §9.8, §9.9). */
import type { Changed } from '../../../src/change.js'
import { GatewayError, isGatewayError } from '../../../src/errors.js'
import { isWithin } from '../../../src/path.js'
import { Refusal } from '../errors.js'
import { answer, expectDepth, letWait, type Command, type Exchange } from '../exchange.js'
import { answerFailures, memberFailures } from '../multistatus.js'

export const copy: Command = async (exchange) => {
  const depth = expectDepth(exchange, [0, 'infinity'], 'infinity')
  await transfer(exchange, (to, ask) => exchange.fs.copy(exchange.path, to, { ...ask, deep: depth === 'infinity' }))
}

export const move: Command = async (exchange) => {
  // Only infinity has a meaning for a folder, and any depth is the same for a file.
  expectDepth(exchange, ['infinity', 0], 'infinity')
  const depth = exchange.headers.depth
  if (depth === 0 && (await exchange.fs.stat(exchange.path, exchange.ask)).kind === 'folder') {
    throw new Refusal(400, 'a folder moves with all that is in it')
  }
  await transfer(exchange, (to, ask) => exchange.fs.move(exchange.path, to, ask))
}

type Step = (to: Exchange['path'], ask: Exchange['change'] & { readonly overwrite: boolean }) => Promise<Changed>

async function transfer(exchange: Exchange, step: Step): Promise<void> {
  const { request, response, path, headers, change } = exchange
  const to = headers.destination
  if (to === undefined) throw new GatewayError('invalid', { reason: 'the Destination header is missing' })
  // A folder into itself would never end; over a folder above it, the target's removal would take the source along.
  if (isWithin(path, to) || isWithin(to, path)) {
    throw new Refusal(403, 'source and destination are the same, or one holds the other')
  }
  letWait(request)
  let changed: Changed
  try {
    changed = await step(to, { ...change, overwrite: headers.overwrite })
  } catch (error) {
    const failures = memberFailures(error, path) ?? memberFailures(error, to)
    if (failures !== undefined) {
      answerFailures(exchange, failures)
      return
    }
    if (isGatewayError(error, 'exists')) throw new Refusal(412, error.message) // Overwrite: F
    throw error
  }
  answer(response, changed.created ? 201 : 204)
}
