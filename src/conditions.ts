/** Whether the conditions of a request hold for what stands there now (RFC 9110 §13.1, RFC 4918 §10.4). */
import { etagOf, type Conditions, type IfCondition } from './change.js'
import type { Entry } from './driver.js'
import { GatewayError } from './errors.js'
import type { Path } from './path.js'

/** What an `If` header may ask of one resource. */
export interface ResourceState {
  readonly entry: Entry | undefined
  /** Tokens of the locks that cover it. */
  readonly tokens: readonly string[]
}

/** Whether any condition asks for the state of the resource itself. */
export function asksForState(conditions: Conditions): boolean {
  const { ifMatch, ifNoneMatch, ifUnmodifiedSince } = conditions
  return (
    conditions.if !== undefined || ifMatch !== undefined || ifNoneMatch !== undefined || ifUnmodifiedSince !== undefined
  )
}

/**
 * Rejects with `precondition_failed` where a condition does not hold. `stateOf` tells of another resource that an `If`
 * header names; without a path it tells of the request's own.
 */
export async function assertConditions(
  conditions: Conditions,
  entry: Entry | undefined,
  stateOf: (path: Path | undefined) => Promise<ResourceState>,
): Promise<void> {
  const { ifMatch, ifNoneMatch, ifUnmodifiedSince } = conditions
  const etag = entry && etagOf(entry)
  if (ifMatch !== undefined && (etag === undefined || (ifMatch !== '*' && !ifMatch.includes(etag)))) fails('If-Match')
  if (ifMatch === undefined && ifUnmodifiedSince !== undefined && entry) {
    // HTTP dates know whole seconds.
    if (Math.floor(entry.modified.getTime() / 1000) * 1000 > ifUnmodifiedSince.getTime()) fails('If-Unmodified-Since')
  }
  if (
    ifNoneMatch !== undefined &&
    etag !== undefined &&
    (ifNoneMatch === '*' || ifNoneMatch.some((each) => weakly(each) === etag))
  ) {
    fails('If-None-Match')
  }
  if (conditions.if === undefined) return
  for (const resource of conditions.if) {
    const state = await stateOf(resource.path)
    if (resource.lists.some((list) => list.every((condition) => holds(condition, state)))) return
  }
  fails('If')
}

function holds(condition: IfCondition, state: ResourceState): boolean {
  const found =
    condition.kind === 'token'
      ? state.tokens.includes(condition.value)
      : state.entry !== undefined && etagOf(state.entry) === condition.value
  return found !== condition.not
}

/** If-None-Match compares weakly: a weak tag counts as its strong twin. */
function weakly(etag: string): string {
  return etag.startsWith('W/') ? etag.slice(2) : etag
}

function fails(header: string): never {
  throw new GatewayError('precondition_failed', { reason: `${header} does not hold` })
}
