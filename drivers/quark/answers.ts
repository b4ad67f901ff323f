/** What answers of Quark and UC mean, and the errors for those that refuse a call. */
import { GatewayError, type ErrorCode } from '../../src/contract/errors.js'
import type { ApiAnswer, Verdict } from '../lib/api/api-client.js'
import { field, numberOf, textOf } from '../lib/api/lenient.js'

/** The cause of every error that an answer has led to. */
class QuarkRefusal extends Error {
  constructor(status: number, code: number, message: string) {
    super(`status ${status}, code ${code}: ${message.slice(0, 500)}`)
  }
}

/** Errors by what the text of an answer contains. The service does not publish its codes. */
const texts: readonly (readonly [RegExp, ErrorCode])[] = [
  [/同名冲突/, 'exists'],
  [/not (?:found|exist)|不存在/i, 'not_found'],
  [/capacity|空间不足|容量/i, 'no_space'],
]

/** Errors by the status of an answer. */
const statuses: Readonly<Record<number, ErrorCode>> = {
  400: 'invalid',
  403: 'denied',
  404: 'not_found',
  413: 'too_large',
}

/** `server` names the server in error reasons. */
export function judge({ status: httpStatus, data }: ApiAnswer, server: string): Verdict {
  const code = numberOf(field(data, 'code'))
  if (code === undefined) {
    return new GatewayError('unavailable', { reason: `the ${server} sent an answer of another API` })
  }
  const status = Math.max(httpStatus, numberOf(field(data, 'status')) ?? 0)
  if (status < 400 && code === 0) return 'ok'
  const message = textOf(field(data, 'message'))
  if (status === 401 || /require login/i.test(message)) return 'expired'
  if (status === 429) return 'slow down'
  const error = texts.find(([pattern]) => pattern.test(message))?.[1] ?? statuses[status] ?? 'unavailable'
  const cause = new QuarkRefusal(status, code, message)
  const isKnown = error === 'exists' || error === 'not_found' || error === 'no_space'
  return new GatewayError(error, {
    cause,
    ...(!isKnown && { reason: `the ${server} refuses this (status ${status}, code ${code})` }),
  })
}
