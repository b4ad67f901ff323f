/** The answer of `explain`: a decision by its steps, in words for admins and as names with values. */
import type { Cause, EvidenceKind, ExplainedStep, NoteName } from '../base/decision-steps.js'
import type { ErrorCode, ErrorDetail } from '../base/errors.js'
import type { Path } from '../base/path.js'
import type { Right } from '../base/rights.js'

/** The evidence of one step, in words for admins. */
export interface ToldStep {
  readonly step: ExplainedStep
  /** The kind of what the step looked at. */
  readonly kind: EvidenceKind
  /** The id of the grant or folder rule; null if the step looked at neither. */
  readonly id: number | null
  /** The user or group that has the grant: `user:3` or `group:2`. */
  readonly subject: string | null
  /** The path of the grant, the folder rule or the base folder; else the one that was asked. */
  readonly path: Path
  /** What the step found. The fields below are the values of `text`. */
  readonly cause: Cause
  /** The right that the step is about, which may be another one than was asked for. */
  readonly right: Right
  /** At most `maxNotes`. Several groups may have one that says the same. */
  readonly grants: NamedGrant[]
  /** The permissions that are needed: a sum of `permissionBits`. */
  readonly permissions: number
  /** The names of the groups by which the user has them. */
  readonly groups: string[]
  readonly text: string
}

export interface NamedGrant {
  readonly path: Path
  /** The name of the user or group that has it; null: it is the other. */
  readonly user: string | null
  readonly group: string | null
}

/** A note with its values. */
export interface NamedNote {
  readonly name: NoteName
  readonly rights: Right[]
  readonly grants: NamedGrant[]
  /**
   * The place where a folder is refused (`folder_refused`), the base folder (`outside_base`), the paths of the grants
   * (`spellings`), or the mount point of the storage and the path there (`elsewhere`).
   */
  readonly paths: Path[]
  /** From which the user may come. */
  readonly networks: string[]
  readonly text: string
}

export interface Explained {
  readonly allowed: boolean
  /** The code of the error that the user gets; of an account that cannot be used, the detail of that. */
  readonly error: ErrorCode | ErrorDetail | null
  readonly decidedBy: ToldStep
  readonly steps: readonly (ToldStep & { readonly refused: boolean })[]
  /** Whether the user is an admin, to whom no grant applies. */
  readonly admin: boolean
  /** Facts that do not decide here, in words: at most `maxNotes` of each kind. */
  readonly notes: readonly string[]
  /** The notes with their names and values. */
  readonly facts: readonly NamedNote[]
}

/** Maximum notes of each kind, and grants of one step. */
export const maxNotes = 20
