/** Records requests that change something besides the tree in the audit. */
import type { Principal } from '../../../src/accounts/principal.js'
import { outcomeOf, type EventKind, type EventResult } from '../../../src/audit/event.js'
import { isGatewayError, toGatewayError } from '../../../src/base/errors.js'
import type { Call } from './endpoint.js'
import { ApiError, toErrorResponse } from './errors.js'
import type { HttpApi } from './http-api.js'

type Asked = Partial<Pick<Call, 'params' | 'query' | 'fields'>>

/** Names of fields and parameters that say what a request is about, the best first. None of them is a secret. */
const subjects = ['username', 'name', 'mount_path', 'title', 'path', 'network', 'key', 'id', 'ids', 'user_id']

/** Runs a request, and records its event before it is answered. */
export async function recorded<Result>(
  { gateway }: Pick<HttpApi, 'gateway'>,
  kind: EventKind,
  { actor }: Principal,
  request: Asked,
  work: () => Result | Promise<Result>,
): Promise<Result> {
  const facts = { kind, actor, subject: subjectOf(request), fields: fieldsOf(request) }
  let result: Result
  try {
    result = await work()
  } catch (error) {
    await gateway.audit.record({ ...facts, result: resultOf(error), error: toErrorResponse(error).error })
    throw error
  }
  await gateway.audit.record({ ...facts, result: 'done' })
  return result
}

function resultOf(error: unknown): EventResult {
  const cause = error instanceof ApiError ? error.cause : error
  // What an endpoint refuses by itself has no cause.
  if (error instanceof ApiError && !isGatewayError(cause)) return 'refused'
  return outcomeOf(toGatewayError(cause)).result
}

function subjectOf(request: Asked): string | undefined {
  const parts = [request.fields, request.query, request.params].filter(isRecord)
  for (const name of subjects) {
    for (const part of parts) {
      const value = part[name]
      if (typeof value === 'number' || (typeof value === 'string' && value !== '')) return String(value)
      if (Array.isArray(value)) return value.map(String).join(', ')
    }
  }
  return undefined
}

/** The names of the fields that were sent; of a list of settings, their keys. */
function fieldsOf({ fields }: Asked): readonly string[] | undefined {
  if (Array.isArray(fields)) return fields.flatMap(keyOf)
  if (!isRecord(fields)) return undefined
  return Object.entries(fields).flatMap(([name, value]) => {
    if (value === undefined) return []
    const keys = Array.isArray(value) ? value.flatMap(keyOf) : []
    return keys.length > 0 ? keys : [name]
  })
}

function keyOf(row: unknown): readonly string[] {
  return isRecord(row) && typeof row.key === 'string' ? [row.key] : []
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}
