/** Maps the answers of a gateway of this family to `GatewayError`s. Its clients tell errors apart by code and text. */
import { GatewayError, type ErrorCode } from '../../src/base/errors.js'
import type { ApiAnswer, AnswerMeaning } from '../lib/json-api/api-client.js'
import { field, numberOf, textOf } from '../lib/json-api/lenient.js'

export const serverName = 'OpenList server'

/** The cause of every error that an answer has led to. */
export class OpenlistAnswer extends Error {
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(`code ${code}: ${message.slice(0, 500)}`)
  }
}

const codes: Readonly<Record<number, readonly [ErrorCode, string?]>> = {
  400: ['invalid', `the ${serverName} rejects this request or this name`],
  401: ['denied', `the ${serverName} does not accept the credentials of this storage`],
  402: ['denied', `the ${serverName} asks for a one-time code: use a token instead of a password`],
  403: ['denied', `access denied by the ${serverName}`],
  404: ['not_found'],
  405: ['unsupported', `the ${serverName} does not support that here`],
  412: ['precondition_failed'],
  413: ['too_large', `larger than the ${serverName} accepts`],
  423: ['locked', `locked on the ${serverName}`],
  503: ['busy'],
  504: ['timeout'],
  507: ['no_space'],
  508: ['invalid', `the ${serverName} reports a loop: it may be this gateway itself, whose folders Alias can show`],
}

/** What the text of an error with code 500 or 403 begins or ends with. */
const texts: readonly (readonly [RegExp, ErrorCode])[] = [
  [/parent dir: object not found$/, 'parent_missing'],
  [/object not found$/, 'not_found'],
  [/^failed get storage: storage not found/, 'not_found'],
  [/not a folder$/, 'not_folder'],
  [/not a file$/, 'is_folder'],
  [/(?:file|object) (?:already )?exists$|^file \[.*\] exists$/s, 'exists'],
  [/the folder is not empty$/, 'not_empty'],
  [/not (?:implement|support)$|not supported$/, 'unsupported'],
  [/permission denied$/, 'denied'],
]

/** Seconds without requests after a code 429 that has no `Retry-After`: too many failed sign-ins lock the address. */
const defaultPause = 60

/** Judges an answer to a call. `caller`: who sent it. When signed in, code 401 means that the session has ended. */
export function meaningOf({ data, headers }: ApiAnswer, caller: 'guest' | 'signing in' | 'signed in'): AnswerMeaning {
  const code = numberOf(field(data, 'code'))
  if (code === undefined) {
    return new GatewayError('unavailable', { reason: `the ${serverName} sent an answer of another API` })
  }
  if (code === 200) return 'ok'
  // Not 403, which is the code for what the account may not do: each such call would sign in once more.
  if (code === 401 && caller === 'signed in') return 'expired'
  if (code === 429) return headers['retry-after'] === undefined ? { slowDownFor: defaultPause } : 'slow down'
  const message = textOf(field(data, 'message'))
  if (code === 401 && caller === 'guest') {
    const reason = `the ${serverName} admits no guests: a user name and a password, or a token, are needed`
    return new GatewayError('denied', { reason, cause: new OpenlistAnswer(code, message) })
  }
  return errorOf(code, message)
}

function errorOf(code: number, message: string): GatewayError {
  const cause = new OpenlistAnswer(code, message)
  const byText = code === 500 || code === 403 ? texts.find(([pattern]) => pattern.test(message))?.[1] : undefined
  if (byText !== undefined) return new GatewayError(byText, { cause })
  const [error, reason] = codes[code] ?? (['unavailable', `the ${serverName} has failed`] as const)
  return new GatewayError(error, { reason, cause })
}

/** The error for an invalid answer. `what` completes the sentence "the OpenList server …". */
export function protocolViolation(what: string): GatewayError {
  return new GatewayError('unavailable', { reason: `the ${serverName} ${what}` })
}

/** Whether the gateway has done nothing because it refused the request. */
export function isRefusal(error: unknown, ...wanted: readonly number[]): boolean {
  const answer = error instanceof Error ? error.cause : undefined
  return answer instanceof OpenlistAnswer && wanted.includes(answer.code)
}
