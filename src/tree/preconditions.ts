/** Preconditions of operations on the tree, and their evaluation (RFC 9110 §13, RFC 4918 §10.4). */
import { contentVersion, type Entry } from '../contract/entry.js'
import { GatewayError } from '../base/errors.js'
import type { Path } from '../base/path.js'

/** One condition of an `If` header: a lock token or an entity tag with its quotes, optionally negated. */
export interface IfCondition {
  readonly not: boolean
  readonly kind: 'token' | 'etag'
  readonly value: string
}
/** One parenthesized list: true if every condition is true. */
export type IfList = readonly IfCondition[]
/** The lists for one resource: true if any list is true. Without a path: the resource of the request. */
export interface IfResource {
  readonly path?: Path | undefined
  readonly lists: readonly IfList[]
}

/** Conditions of RFC 9110 §13 and RFC 4918 §10.4, parsed by the protocol. */
export interface Preconditions {
  /** Conditions of which at least one must be true. */
  readonly if?: readonly IfResource[] | undefined
  /** Entity tags with their quotes, or `*` for any existing resource. */
  readonly ifMatch?: '*' | readonly string[] | undefined
  readonly ifNoneMatch?: '*' | readonly string[] | undefined
  readonly ifUnmodifiedSince?: Date | undefined
}

/**
 * The strong entity tag of a file or folder, with its quotes. It is derived from the revision if the backend has one,
 * else from the size and the modification time in milliseconds. Characters that RFC 9110 §8.8.3 does not allow are
 * escaped.
 */
export function etagOf(entry: Entry): string {
  const version = contentVersion(entry)
  // Testing first is faster than replacing nothing.
  if (!/[^!#-~]/.test(version)) return `"${version}"`
  return `"${version.replace(/[^!#-~]/g, (character) => `%${character.charCodeAt(0).toString(16)}`)}"`
}

/** The state of one resource that an `If` header is evaluated against. */
export interface ResourceState {
  readonly entry: Entry | undefined
  /** Tokens of the locks that cover the resource. */
  readonly tokens: ReadonlySet<string>
}

/** Whether there is any condition. */
export function hasPreconditions(conditions: Preconditions): boolean {
  const { ifMatch, ifNoneMatch, ifUnmodifiedSince } = conditions
  return (
    conditions.if !== undefined || ifMatch !== undefined || ifNoneMatch !== undefined || ifUnmodifiedSince !== undefined
  )
}

/**
 * Rejects with `precondition_failed` if a condition is false. `stateOf` returns the state of a resource that an `If`
 * header names; without a path, that of the request's own resource.
 */
export async function assertPreconditions(
  conditions: Preconditions,
  entry: Entry | undefined,
  stateOf: (path: Path | undefined) => Promise<ResourceState>,
): Promise<void> {
  const { ifMatch, ifNoneMatch, ifUnmodifiedSince } = conditions
  const etag = entry && etagOf(entry)
  if (ifMatch !== undefined && (etag === undefined || (ifMatch !== '*' && !ifMatch.includes(etag)))) fails('If-Match')
  if (ifMatch === undefined && ifUnmodifiedSince !== undefined && entry) {
    // HTTP dates have a resolution of one second.
    if (Math.floor(entry.modified.getTime() / 1000) * 1000 > ifUnmodifiedSince.getTime()) fails('If-Unmodified-Since')
  }
  if (
    ifNoneMatch !== undefined &&
    etag !== undefined &&
    (ifNoneMatch === '*' || ifNoneMatch.some((each) => strongForm(each) === etag))
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
  const matches =
    condition.kind === 'token'
      ? state.tokens.has(condition.value)
      : state.entry !== undefined && etagOf(state.entry) === condition.value
  return matches !== condition.not
}

/** The tag without `W/`, for the weak comparison of If-None-Match (RFC 9110 §8.8.3.2). */
function strongForm(etag: string): string {
  return etag.startsWith('W/') ? etag.slice(2) : etag
}

function fails(header: string): never {
  throw new GatewayError('precondition_failed', { reason: `${header} does not hold` })
}
