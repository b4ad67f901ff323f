/**
 * Why a decision on one path is as it is: the steps of `judge`, each with what it looked at. For admins; no decision
 * depends on it.
 */
import type { Permission, Principal } from '../../accounts/principal.js'
import { causes, explainedSteps, type Cause, type EvidenceKind, type ExplainedStep } from '../../base/decision-steps.js'
import { isWithin, type Path } from '../../base/path.js'
import type { Right } from '../../base/rights.js'
import type { Rule } from '../folder-rules.js'
import type { GrantedPath } from '../grant-trie.js'
import type { Grant } from '../grants.js'
import { isGranted, isSeen } from './names.js'
import {
  askedRights,
  decidingRule,
  isInspection,
  refusesRemoval,
  requirements,
  steps,
  type Action,
  type Ruling,
  type Step,
  type Verdict,
} from './one-path.js'

/** The evidence that a step looked at. */
interface Evidence {
  readonly cause: Cause
  /** The right that the step is about, which may be another one than was asked for. */
  readonly right: Right
  /** The deciding grants: several groups may have one that says the same. */
  readonly grants: readonly Grant[]
  /** The folder rule that applies. */
  readonly rule: Rule | undefined
  /** The permissions that are needed. */
  readonly permissions: readonly Permission[]
}

export interface JudgedStep extends Evidence {
  readonly step: ExplainedStep
  readonly kind: EvidenceKind
  /** Whether this step by itself refuses. */
  readonly refused: boolean
}

export interface VerdictExplanation {
  readonly verdict: Verdict
  /** The first step that refuses; if none does, that of the right. */
  readonly decidedBy: JudgedStep
  /** All steps, also those that were not asked because one before them refuses. */
  readonly steps: readonly JudgedStep[]
}

/** The question that an explanation answers. */
interface Question {
  readonly principal: Principal
  readonly action: Action
  readonly path: Path
  readonly rules: Ruling
}

type AskedStep = Omit<Step, 'name'> & { readonly name: ExplainedStep }

/** Paths of operations are always in the base folder of who asks, so that `judge` need not ask. */
const byBase: AskedStep = {
  name: 'base',
  verdict: ({ base }, _action, path) => (isWithin(base, path) ? undefined : 'not_found'),
}

/** A user who is asked about by name has no signature, app password or share: their steps are not asked. */
function isExplained(step: Step | AskedStep): step is AskedStep {
  return Object.hasOwn(explainedSteps, step.name)
}

const all: readonly AskedStep[] = steps
  .flatMap((step) => (step.name === 'sight' ? [byBase, step] : [step]))
  .filter(isExplained)

/**
 * The decision of `judge`, without a folder password, on a path which need not be in the principal's base folder.
 * `principal`: of an account, without a signature, an app password or a share.
 */
export function explainVerdict(principal: Principal, action: Action, path: Path, rules: Ruling): VerdictExplanation {
  const question = { principal, action, path, rules }
  const asked = all.map((step) => {
    const verdict = step.verdict(principal, action, path, rules, undefined)
    const refused = verdict !== undefined && verdict !== 'allow'
    const evidence = { right: askedRights[action], grants: [], rule: undefined, permissions: [] }
    const found = evidenceOf[step.name](question, refused)
    const judged: JudgedStep = { ...evidence, ...found, step: step.name, kind: causes[found.cause], refused }
    return { name: step.name, verdict, judged }
  })
  const deciding =
    asked.find(({ verdict }) => verdict !== undefined) ?? asked.find(({ name }) => name === 'right') ?? asked[0]
  if (deciding === undefined) throw new Error('a decision has steps')
  return { verdict: deciding.verdict ?? 'allow', decidedBy: deciding.judged, steps: asked.map(({ judged }) => judged) }
}

type Found = Partial<Evidence> & Pick<Evidence, 'cause'>

/** Returns the evidence of each step. */
const evidenceOf: Readonly<Record<ExplainedStep, (question: Question, refused: boolean) => Found>> = {
  session: () => ({ cause: 'credential' }),
  protocol: ({ principal, action }) => ({ cause: 'protocol', permissions: permissionsOfProtocol(principal, action) }),
  base: () => ({ cause: 'base' }),
  sight: evidenceOfSight,
  'hidden names': ({ rules }) => ({ cause: 'hidden', rule: rules.atParent }),
  readers: ({ action, rules }) => ({ cause: 'read_users', rule: decidingRule(action, rules) }),
  password: ({ action, rules }) => ({ cause: 'password', rule: decidingRule(action, rules) }),
  right: evidenceOfRight,
  writers: ({ action, rules }) => ({ cause: 'write_users', rule: decidingRule(action, rules) }),
}

function permissionsOfProtocol({ protocol: { permissions } }: Principal, action: Action): readonly Permission[] {
  if (permissions === undefined) return []
  return isInspection(action) || action === 'share' ? [permissions.read] : [permissions.read, permissions.manage]
}

function evidenceOfSight({ rules: { granted } }: Question, refused: boolean): Found {
  if (granted === undefined) return { cause: 'no_grant', right: 'see' }
  const deciding = granted.decidingGrants('see')
  if (refused) return { cause: 'not_seen', right: 'see', grants: deciding }
  if (!isGranted('see', granted)) return { cause: 'way', right: 'see', grants: opening(granted) }
  return { cause: deciding.length > 0 ? 'grant' : 'no_grant', right: 'see', grants: deciding }
}

/** A grant below the path that allows `see`. */
function opening(granted: GrantedPath): readonly Grant[] {
  for (const below of granted.below()) if (isGranted('see', below)) return below.decidingGrants('see')
  return []
}

function evidenceOfRight(question: Question, refused: boolean): Found {
  const { principal, action, path, rules } = question
  const { granted } = rules
  if (granted !== undefined) {
    if (!isGranted('see', granted)) {
      const cause = isSeen(principal, path, granted) ? 'way' : 'not_seen'
      const isPassed = cause === 'way' && !refused
      return { cause, right: 'see', grants: isPassed ? opening(granted) : granted.decidingGrants('see') }
    }
    const right = action === 'move' && refusesRemoval(principal, granted) ? 'remove' : askedRights[action]
    const deciding = granted.decidingGrants(right)
    if (deciding.length > 0) {
      const isFolderOfGrant = refused && granted.says(right) === true
      return { cause: isFolderOfGrant ? 'folder_of_grant' : 'grant', right, grants: deciding }
    }
    if (granted.grantedOnly) return { cause: 'granted_only', right }
  }
  const permission = permissionOf(action)
  if (permission === undefined) return { cause: 'permission' }
  const isByRule = permission === 'write' && !refused && !principal.hasPermission('write')
  return isByRule
    ? { cause: 'rule_with_write', rule: decidingRule(action, rules), permissions: [permission] }
    : { cause: 'permission', permissions: [permission] }
}

function permissionOf(action: Action): Permission | undefined {
  const required = isInspection(action) ? 'nothing' : requirements[action]
  if (required === 'nothing') return undefined
  return required === 'content' ? 'write' : required
}
