/** Records requests that change something besides the tree in the audit. */
import type { Principal } from '../../../src/accounts/principal.js'
import { outcomeOf, type EventKind, type EventResult } from '../../../src/audit/event.js'
import { isGatewayError, toGatewayError } from '../../../src/base/errors.js'
import type { ProtocolGateway } from '../../../src/gateway/protocol-gateway.js'
import type { Call } from './endpoint.js'
import { ApiError, toErrorResponse } from './errors.js'
import type { HttpApi } from './http-api.js'

type Asked = Partial<Pick<Call, 'params' | 'query' | 'fields'>>

/** Names of fields and parameters that say what a request is about, the best first. None of them is a secret. */
const subjects = [
  'username',
  'name',
  'mount_path',
  'title',
  'path',
  'network',
  'key',
  'id',
  'ids',
  'user_id',
  'program',
]

type NameOf = (gateway: ProtocolGateway, id: number) => string | undefined | Promise<string | undefined>

/** The names of what requests name by an id, which says nothing once it is deleted. */
const names: Partial<Record<EventKind, NameOf>> = {
  'admin.user': ({ accounts }, id) => accounts.users.get(id)?.username,
  'admin.group': ({ accounts }, id) => accounts.groups.get(id)?.name,
  'admin.key': ({ accounts }, id) => accounts.keys.get(id)?.title,
  'admin.app-password': ({ accounts }, id) => accounts.appPasswords.get(id)?.name,
  'admin.storage': ({ storages }, id) => storages.get(id)?.mountPath,
  'admin.rule': ({ rules }, id) => rules.list().find((rule) => rule.id === id)?.path,
  'admin.webhook': async ({ webhooks }, id) => (await webhooks.list()).find((hook) => hook.id === id)?.name,
}

/**
 * Runs a request, and records its event before it is answered. The subject is the name that it had before, with the new
 * one after an arrow; of what is made, its name, or its id if the response has one that the request has not. Of shares,
 * it has their pseudonyms.
 * `nameNow`: the name of what the request is about. By default it is found by the kind and the id of the request.
 */
export async function recorded<Result>(
  { gateway }: Pick<HttpApi, 'gateway'>,
  kind: EventKind,
  { actor }: Principal,
  request: Asked,
  work: () => Result | Promise<Result>,
  nameNow: () => Promise<string | undefined> = async () => nameById(gateway, kind, request),
): Promise<Result> {
  const isShare = kind.startsWith('share.')
  const pseudonymOf = (id: string | undefined) => id && gateway.shares.pseudonymOf(id)
  // A name that cannot be looked up must not prevent the request, or its record.
  const name = () => nameNow().catch(() => undefined)
  const before = isShare ? pseudonymOf(subjectOf(request)) : await name()
  const facts = { kind, actor, subject: before ?? subjectOf(request), fields: fieldsOf(request) }
  let result: Result
  try {
    result = await work()
  } catch (error) {
    await gateway.audit.record({ ...facts, result: resultOf(error), error: toErrorResponse(error).error })
    throw error
  }
  const after = isShare ? pseudonymOf(madeId(result)) : await name()
  const isRenamed = before !== undefined && after !== undefined && after !== before
  const subject = isRenamed ? `${before} → ${after}` : (before ?? after ?? facts.subject ?? madeId(result))
  await gateway.audit.record({ ...facts, subject, result: 'done' })
  return result
}

/** The name of the row whose id is in the request. */
function nameById(gateway: ProtocolGateway, kind: EventKind, { fields, query }: Asked): ReturnType<NameOf> {
  const ids = [fields, query].filter(isRecord).map((part) => part.id)
  const id = ids.find((each): each is number => typeof each === 'number')
  return id === undefined ? undefined : names[kind]?.(gateway, id)
}

function madeId(result: unknown): string | undefined {
  return isRecord(result) && typeof result.id === 'string' ? result.id : undefined
}

function resultOf(error: unknown): EventResult {
  const cause = error instanceof ApiError ? error.cause : error
  // An error that an endpoint throws by itself has no cause.
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
