/** The fields of an event that an error determines. */
import { TreeError, type ErrorCode, type GatewayError } from '../base/errors.js'
import type { EventResult } from '../base/event-kinds.js'

export type { EventKind, EventResult } from '../base/event-kinds.js'
export type { Actor, AuditEvent, EventFacts } from '../database/audit-rows.js'

/** Codes of errors that say nothing about what was asked for: the gateway or a storage could not do it. */
const failures: ReadonlySet<ErrorCode> = new Set([
  'no_space',
  'busy',
  'unavailable',
  'timeout',
  'aborted',
  'internal',
] as const)

/** The result of what ended with this error, and the name of the error. What was done in part has failed. */
export function outcomeOf(error: GatewayError): { readonly result: EventResult; readonly error: string } {
  const isFailure = failures.has(error.code) || error instanceof TreeError
  return { result: isFailure ? 'failed' : 'refused', error: error.detail ?? error.code }
}
