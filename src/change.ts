/** What a caller may bring along with an operation on the tree: conditions, lock tokens, attributes. */
import type { Entry } from './driver.js'
import { GatewayError } from './errors.js'
import type { Path } from './path.js'

export interface Ask {
  readonly signal?: AbortSignal | undefined
  /** Answer to a folder rule that asks for one. */
  readonly password?: string | undefined
}

/** One condition of an `If` header: a lock token or an entity tag (with its quotes), maybe negated. */
export interface IfCondition {
  readonly not: boolean
  readonly kind: 'token' | 'etag'
  readonly value: string
}
/** One parenthesised list: every condition must hold. */
export type IfList = readonly IfCondition[]
/** Lists about one resource, of which one must hold. Without a path: the resource of the request. */
export interface IfResource {
  readonly path?: Path | undefined
  readonly lists: readonly IfList[]
}

/** RFC 9110 and RFC 4918 §10.4 conditions, parsed by the door and judged here. */
export interface Conditions {
  /** One of these must hold. */
  readonly if?: readonly IfResource[] | undefined
  /** Entity tags with their quotes, or `*`: some current state. */
  readonly ifMatch?: '*' | readonly string[] | undefined
  readonly ifNoneMatch?: '*' | readonly string[] | undefined
  readonly ifUnmodifiedSince?: Date | undefined
}

export interface Change extends Ask, Conditions {
  /** `exists` if the name is taken. */
  readonly createOnly?: boolean | undefined
  /** Lock tokens that the caller presents. */
  readonly lockTokens?: readonly string[] | undefined
  readonly modified?: Date | undefined
  readonly mode?: number | undefined
}

/** What a change of one name answers: what stands there now, and whether nothing did before. */
export interface Changed {
  readonly entry: Entry
  readonly created: boolean
}

/** What went wrong with one member of a tree that was removed, copied or moved. */
export interface Failure {
  readonly path: Path
  /** Of what was copied or moved: its source. */
  readonly from?: Path | undefined
  readonly error: GatewayError
}

/** Some members of a tree stayed as they were; everything that could be done was done. */
export class TreeError extends GatewayError {
  constructor(readonly failures: readonly [Failure, ...Failure[]]) {
    const [first] = failures
    super(first.error.code, {
      reason: failures.length === 1 ? first.error.reason : `${first.error.reason} (and ${failures.length - 1} more)`,
      cause: first.error,
    })
  }

  override at(): this {
    return this
  }

  /** The same failures, with paths and errors as somebody else sees them. */
  seenFrom(view: (path: Path) => Path, told: (error: GatewayError) => GatewayError = (error) => error): TreeError {
    const [first, ...others] = this.failures
    const seen = ({ path, from, error }: Failure): Failure => ({
      path: view(path),
      from: from && view(from),
      error: told(error),
    })
    return new TreeError([seen(first), ...others.map(seen)])
  }
}

/**
 * The strong entity tag of a file or folder, with its quotes: made from the revision where the backend
 * has one, else from size and time to the millisecond. A revision may hold anything; what RFC 9110 §8.8.3 has no place for is escaped.
 */
export function etagOf(entry: Entry): string {
  return `"${stateOf(entry).replace(/[^!#-~]/g, (character) => `%${character.charCodeAt(0).toString(16)}`)}"`
}

/** What an entity tag is made from. */
export function stateOf({ revision, modified, size }: Entry): string {
  return revision ?? `${modified.getTime().toString(16)}-${size.toString(16)}`
}

/** Milliseconds: servers tell times to the minute, by clocks that are not ours. */
const settledAfter = 120_000

/** Whether another content would be another state for sure: not where only the time tells, and is missing or so new that it may be told again. */
export function tellsChanges({ revision, modified }: Entry): boolean {
  const time = modified.getTime()
  return revision !== undefined || (time !== 0 && Date.now() - time > settledAfter)
}
