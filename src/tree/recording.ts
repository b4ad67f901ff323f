/**
 * The event of each change that a principal makes: what was done, or why it was refused or has failed. Changes that a
 * storage makes in others beneath it have no event of their own. Paths are of the whole tree.
 */
import { outcomeOf, type EventFacts, type EventKind } from '../audit/event.js'
import { toGatewayError, type ErrorCode, type GatewayError } from '../base/errors.js'
import { under, type Path } from '../base/path.js'
import type { TransferEvent } from '../storage/transfer-meter.js'
import type { Access } from './access.js'
import { decidingPart } from './explain.js'
import type { Action, Verdict } from './policy/one-path.js'
import { arrivingAction, leavingActions } from './transfer-checks.js'

/** An event while its operation runs. The operation corrects its facts, and adds others. */
export interface EventDraft {
  kind: EventKind
  path: Path
  target?: Path | undefined
  size?: number | undefined
  entry?: EventFacts['entry']
  storage?: Path | undefined
  /** The operation has found that there is nothing to change. It is not recorded if it succeeds. */
  changesNothing?: boolean
  /** The action at `path` that is asked for, if it is not that of the kind. */
  action?: Action
}

/** The action that each change needs, for who wants to know what has refused it. */
const actions: Partial<Record<EventKind, Action>> = {
  'file.stored': 'write',
  'file.replaced': 'write',
  'folder.made': 'mkdir',
  'link.made': 'write',
  moved: 'move',
  copied: 'copy',
  removed: 'remove',
  'attributes.set': 'attributes',
  locked: 'lock',
}

/** A draft of an event at the principal's own paths. */
export function draftOf({ principal }: Access, kind: EventKind, path: Path, target?: Path): EventDraft {
  const { base } = principal
  return { kind, path: under(base, path), target: target && under(base, target) }
}

/** Runs a change, and records its event before it resolves or rejects. */
export async function recorded<Result>(
  access: Access,
  draft: EventDraft,
  work: () => Promise<Result>,
): Promise<Result> {
  let result: Result
  try {
    result = await work()
  } catch (error) {
    const recording = recordFailure(access, draft, toGatewayError(error))
    if (recording) await recording
    throw error
  }
  const recording = recordDone(access, draft)
  if (recording) await recording
  return result
}

/** Runs the checks of a change that is made later. Only a rejection is recorded, as that of the change. */
export async function refusalRecorded<Result>(
  access: Access,
  draft: EventDraft,
  work: () => Promise<Result>,
): Promise<Result> {
  return recorded(access, draft, async () => {
    const result = await work()
    draft.changesNothing = true
    return result
  })
}

/** Records a change that was made. */
export function recordDone(access: Access, draft: EventDraft): Promise<void> | undefined {
  if (draft.changesNothing === true) return undefined
  return access.dependencies.audit.record(factsOf(access, draft))
}

/** Records a change that was not made, unless that was recorded for this error before. */
export function recordFailure(access: Access, draft: EventDraft, error: GatewayError): Promise<void> | undefined {
  const { audit } = access.dependencies
  // An error for visitors has the recorded one as its cause.
  if (audit.hasRecorded(error.cause)) return undefined
  const outcome = outcomeOf(error)
  const decidedBy =
    outcome.result === 'refused' && !audit.hasRecorded(error) ? decidedByOf(access, draft, error) : undefined
  return audit.recordError(error, { ...factsOf(access, draft), ...outcome, decidedBy })
}

/** Records a read of a file, when it has ended. */
export function recordRead(access: Access, path: Path, { bytes, outcome, seconds, storage }: TransferEvent): void {
  const result = outcome === 'completed' ? 'done' : 'failed'
  void access.dependencies.audit.record({
    kind: 'read',
    actor: access.principal.actor,
    result,
    path,
    size: bytes,
    entry: 'file',
    storage: storage.mountPath,
    error: outcome === 'completed' ? undefined : outcome,
    duration: Math.round(seconds * 1000),
  })
}

function factsOf({ principal }: Access, draft: EventDraft): EventFacts {
  return {
    kind: draft.kind,
    actor: principal.actor,
    result: 'done',
    path: draft.path,
    target: draft.target,
    size: draft.size,
    entry: draft.entry,
    storage: draft.storage,
  }
}

/** Errors by which a decision refuses what the principal may know of. */
const toldRefusals: ReadonlySet<ErrorCode> = new Set<Verdict & ErrorCode>(['denied', 'hidden', 'password_required'])

/** Returns the rule or grant that has decided on the refusal of a change, in words for admins. */
function decidedByOf(
  { decisions, dependencies }: Access,
  { kind, action, path, target }: EventDraft,
  { code }: GatewayError,
): string | undefined {
  const own = action ?? actions[kind]
  if (own === undefined || !toldRefusals.has(code)) return undefined
  const isMove = kind === 'moved' && target !== undefined
  const asked = (isMove ? leavingActions(path, target) : [own]).map((each) => ({ each, at: path }))
  if (target !== undefined) asked.push({ each: isMove ? arrivingAction(path, target) : 'receive', at: target })
  for (const { each, at } of asked) {
    const step = decisions.refusedBy(each, at, code)
    if (step !== undefined) return decidingPart(step, dependencies.nameOfSubject)
  }
  return undefined
}
