/** What clients did: each operation with its begin, its end and what its answer states. */

export type Protocol = 'http' | 'webdav' | 'sftp'

/**
 * What an answer states. `done`: the operation has taken effect. `missing`: the entry (the source of a move or copy)
 * did not exist. `exists`: the target existed. `refused`: there was no effect, for another reason. `open`: it may have
 * taken effect, may do so later, or never.
 */
export type Outcome = 'done' | 'missing' | 'exists' | 'refused' | 'open'

interface Step {
  readonly path: string
}

/** Contents are given by their ids. */
export type Action = Step &
  (
    | { readonly kind: 'write'; readonly content: string }
    /** Only if the path does not exist. */
    | { readonly kind: 'create'; readonly content: string }
    /** Only if the path has the content `expected`. Without `content`, it is removed. */
    | { readonly kind: 'replace'; readonly expected: string; readonly content?: string }
    /** `lenient`: succeeds if the path does not exist, too. */
    | { readonly kind: 'remove'; readonly lenient?: boolean }
    | { readonly kind: 'move' | 'copy'; readonly to: string; readonly overwrite: boolean }
    | { readonly kind: 'read' }
    /** `seconds`: after which the lock ends by itself. */
    | { readonly kind: 'lock'; readonly seconds: number }
    | { readonly kind: 'unlock'; readonly token: string }
  )

export interface Answer {
  readonly outcome: Outcome
  /** What a read has found. */
  readonly found?: string
  /** The token of a granted lock. */
  readonly token?: string
  /** The answer as it was received. */
  readonly text?: string
}

/** `begin` and `end`: milliseconds since the start of the run. `end` is the time of the answer. */
export type Operation = Action &
  Answer & {
    readonly client: string
    readonly protocol: Protocol
    readonly begin: number
    readonly end: number
    /** The token of a lock, with which the request was sent. */
    readonly presented?: string
  }

export function describe(operation: Operation): string {
  const { begin, end, client, protocol, kind, path, outcome, text } = operation
  const details = Object.entries({
    to: 'to' in operation ? `${operation.to}${operation.overwrite ? ' (overwrite)' : ''}` : undefined,
    content: 'content' in operation ? operation.content : undefined,
    expected: 'expected' in operation ? operation.expected : undefined,
    found: operation.found,
    token: operation.token ?? ('token' in operation ? operation.token : undefined),
  }).flatMap(([name, value]) => (value === undefined ? [] : [`${name} ${value}`]))
  const times = `${begin.toFixed(0)}-${end.toFixed(0)}`
  return [times, client, protocol, kind, path, ...details, `-> ${outcome}`, text ?? ''].join(' ').trimEnd()
}
