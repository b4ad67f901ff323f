/** The history of one file or folder, also at its earlier places, as far as the principal may see those places. */
import { selfAndAncestors, under, within, type Path } from '../base/path.js'
import type { EventKind } from '../base/event-kinds.js'
import type { AuditCursor, AuditEvent } from '../database/audit-rows.js'
import type { Access } from './access.js'
import type { AccessOptions } from './operation-options.js'

/** The position after which the next page begins. */
export interface HistoryCursor extends AuditCursor {
  /** The other paths of the principal at which the file or folder was then. */
  readonly paths: readonly Path[]
  /** Whether it was made since, so that earlier events at its path are those of another one. */
  readonly isMade: boolean
}

export interface HistoryOptions extends AccessOptions {
  readonly limit: number
  /** Whether reads are listed too, if they are recorded. */
  readonly withReads: boolean
  /** The end of the page before. */
  readonly before?: HistoryCursor | undefined
}

/** An event with paths of the principal: undefined for one that it does not see. */
export interface HistoryEvent extends AuditEvent {
  readonly path: Path | undefined
  readonly target: Path | undefined
}

export interface History {
  /** Newest first. */
  readonly events: readonly HistoryEvent[]
  /** Undefined at the end. */
  readonly next?: HistoryCursor | undefined
}

const makings: readonly EventKind[] = ['file.stored', 'folder.made', 'link.made', 'copied']
const changes: readonly EventKind[] = [...makings, 'file.replaced', 'moved', 'removed', 'attributes.set']

/** Maximum number of paths that are followed at once: programs that store by renaming a temporary file have many. */
export const maxFollowed = 8
/** Folders above a path whose moves are looked for. */
const maxFolders = 100

/**
 * Returns the events at the path. Before a move to the path, the events at the earlier place follow, back to the event
 * that made the entry, or to a place that the principal does not see. Rejects as `stat` does: the entry must exist now.
 */
export async function history(
  access: Access,
  path: Path,
  { limit, before, withReads, ...options }: HistoryOptions,
): Promise<History> {
  const asked = { ...options, ofSymlink: true }
  const { at, principal } = await access.resolveAndAuthorizeEntry(path, asked)
  await access.tree.entry(at, asked)
  const { audit } = access.dependencies.store
  /** Returns the principal's own path of a place; undefined if the principal does not see it. */
  const own = (place: Path | undefined): Path | undefined =>
    place === undefined || access.decisions.refusalOf('see', place, options, principal)
      ? undefined
      : within(principal.base, place)
  const kinds = withReads ? [...changes, 'read' as const] : changes
  let others = (before?.paths ?? [])
    .slice(0, maxFollowed)
    .map((each) => under(principal.base, each))
    .filter((each) => own(each) !== undefined)
  let isMade = before?.isMade === true
  let end: AuditCursor | undefined = before
  const events: HistoryEvent[] = []
  while (events.length < limit) {
    const rest = limit - events.length
    const pages = await Promise.all(
      [at, ...others].map((each) => audit.list({ at: each, kinds, result: 'done' }, rest, end)),
    )
    const followed = isMade ? others : [at, ...others]
    const folders = new Set(followed.flatMap((each) => [...selfAndAncestors(each)].slice(1, maxFolders)))
    const moves = await audit.movesTo([...folders], rest, end)
    const [until] = pages.flatMap(({ next }) => next ?? []).sort(newestFirst)
    const found = [...pages.flatMap((page) => page.events), ...moves].sort(newestFirst)
    const known = found.filter((event, index) => {
      return event.id !== found[index - 1]?.id && (until === undefined || newestFirst(event, until) <= 0)
    })
    let hasTurned = false
    for (const event of known.slice(0, rest)) {
      events.push({ ...event, path: own(event.path), target: own(event.target) })
      end = event
      const made = makings.includes(event.kind) ? (event.target ?? event.path) : undefined
      const earlier = followed.flatMap((each) => pathBefore(event, each) ?? []).filter((each) => own(each))
      hasTurned = made !== undefined || earlier.length > 0
      isMade ||= made === at
      others = [...new Set([...earlier, ...others])]
        .filter((each) => each !== made && each !== at)
        .slice(0, maxFollowed)
      if (hasTurned) break
    }
    if (hasTurned || known.length >= rest) continue
    if (until === undefined) return { events }
    end = until
  }
  const paths = others.flatMap((each) => own(each) ?? [])
  return { events, next: end && { time: end.time, id: end.id, paths, isMade } }
}

function newestFirst(one: AuditCursor, other: AuditCursor): number {
  return other.time - one.time || (one.id === other.id ? 0 : one.id < other.id ? 1 : -1)
}

/**
 * Returns the path, before the event, of the entry that is at `at` after it; undefined if the event did not move it
 * there.
 */
function pathBefore({ kind, path, target }: AuditEvent, at: Path): Path | undefined {
  const inside = kind === 'moved' && target !== undefined ? within(target, at) : undefined
  return inside === undefined || path === undefined ? undefined : under(path, inside)
}
