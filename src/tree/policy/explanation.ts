/**
 * Why a decision on one path is as it is: the steps of `judge`, each with what it looked at. For admins; no decision
 * depends on it.
 */
import type { Permission, Principal } from '../../accounts/principal.js'
import { isWithin, type Path } from '../../base/path.js'
import type { Rule } from '../folder-rules.js'
import type { GrantedPath } from '../grant-trie.js'
import type { Grant, Right } from '../grants.js'
import { grants, isSeen } from './names.js'
import {
  askedRights,
  decidingRule,
  isLook,
  refusesRemoval,
  requirements,
  steps,
  type Action,
  type Ruling,
  type Step,
  type StepName,
  type Verdict,
} from './one-path.js'

/** What steps look at, and of which kind that is. */
const kinds = {
  credential: 'credential',
  signed: 'credential',
  readOnly: 'credential',
  protocol: 'protocol',
  share: 'credential',
  base: 'base',
  /** No grant mentions `see`, so that the path is seen. */
  noGrant: 'grant',
  notSeen: 'grant',
  /** It leads to a grant, and is seen without its content. */
  way: 'grant',
  hidden: 'hidden',
  readUsers: 'rule',
  password: 'rule',
  grant: 'grant',
  /** No grant mentions the right, without which the user has none. */
  grantedOnly: 'grant',
  /** A grant allows it here, and the right is needed from above. */
  folderOfGrant: 'grant',
  ruleWithWrite: 'rule',
  permission: 'permission',
  writeUsers: 'rule',
} as const
export type Cause = keyof typeof kinds
export type StepKind = (typeof kinds)[Cause]

/** What a step looked at. */
interface Evidence {
  readonly cause: Cause
  /** The right that the step is about, which may be another one than was asked for. */
  readonly right: Right
  /** The deciding grants: several groups may have one that says the same. */
  readonly grants: readonly Grant[]
  /** The folder rule that applies. */
  readonly rule: Rule | undefined
  /** Those that are needed. */
  readonly permissions: readonly Permission[]
}

export interface ExplainedStep extends Evidence {
  readonly kind: StepKind
  /** Whether this step by itself refuses. */
  readonly refused: boolean
}

export interface Explanation {
  readonly verdict: Verdict
  /** The first step that refuses; if none does, that of the right, or of the signature. */
  readonly decidedBy: ExplainedStep
  /** All that concern the principal: also those that were not asked because one before them refuses. */
  readonly steps: readonly ExplainedStep[]
}

/** What is asked. */
interface Question {
  readonly principal: Principal
  readonly action: Action
  readonly path: Path
  readonly rules: Ruling
}

type AskedStep = Omit<Step, 'name'> & { readonly name: StepName | 'base' }

/** Paths of operations are always in the base folder of who asks, so that `judge` need not ask. */
const byBase: AskedStep = {
  name: 'base',
  verdict: ({ base }, _action, path) => (isWithin(base, path) ? undefined : 'not_found'),
}

const all: readonly AskedStep[] = steps.flatMap((step) => (step.name === 'sight' ? [byBase, step] : [step]))

/** The decision of `judge`, without a folder password, on a path which need not be in the principal's base folder. */
export function explain(principal: Principal, action: Action, path: Path, rules: Ruling): Explanation {
  const question = { principal, action, path, rules }
  const asked = all
    .filter(({ name }) => concerns(name, principal))
    .map((step) => {
      const verdict = step.verdict(principal, action, path, rules, undefined)
      const refused = verdict !== undefined && verdict !== 'allow'
      const evidence = { right: askedRights[action], grants: [], rule: undefined, permissions: [] }
      const found = looks[step.name](question, refused)
      const told: ExplainedStep = { ...evidence, ...found, kind: kinds[found.cause], refused }
      return { name: step.name, verdict, told }
    })
  const deciding =
    asked.find(({ verdict }) => verdict !== undefined) ?? asked.find(({ name }) => name === 'right') ?? asked[0]
  if (deciding === undefined) throw new Error('a decision has steps')
  return { verdict: deciding.verdict ?? 'allow', decidedBy: deciding.told, steps: asked.map(({ told }) => told) }
}

/** Whether the step can refuse anything to the principal. A signature decides by itself. */
function concerns(name: AskedStep['name'], { onlyPath, readOnly, share }: Principal): boolean {
  if (onlyPath !== undefined) return name === 'session' || name === 'signature'
  if (name === 'share') return share !== undefined
  return name === 'app password' ? readOnly : name !== 'signature'
}

type Found = Partial<Evidence> & Pick<Evidence, 'cause'>

/** What each step looks at. */
const looks: Readonly<Record<AskedStep['name'], (question: Question, refused: boolean) => Found>> = {
  session: () => ({ cause: 'credential' }),
  signature: () => ({ cause: 'signed' }),
  'app password': () => ({ cause: 'readOnly' }),
  protocol: ({ principal, action }) => ({ cause: 'protocol', permissions: permissionsOfProtocol(principal, action) }),
  share: () => ({ cause: 'share' }),
  base: () => ({ cause: 'base' }),
  sight: lookAtSight,
  'hidden names': ({ rules }) => ({ cause: 'hidden', rule: rules.folder }),
  readers: ({ action, rules }) => ({ cause: 'readUsers', rule: decidingRule(action, rules) }),
  password: ({ action, rules }) => ({ cause: 'password', rule: decidingRule(action, rules) }),
  right: lookAtRight,
  writers: ({ action, rules }) => ({ cause: 'writeUsers', rule: decidingRule(action, rules) }),
}

function permissionsOfProtocol({ protocol: { permissions } }: Principal, action: Action): readonly Permission[] {
  if (permissions === undefined) return []
  return isLook(action) || action === 'share' ? [permissions.read] : [permissions.read, permissions.manage]
}

function lookAtSight({ rules: { granted } }: Question, refused: boolean): Found {
  if (granted === undefined) return { cause: 'noGrant', right: 'see' }
  const deciding = granted.decidingGrants('see')
  if (refused) return { cause: 'notSeen', right: 'see', grants: deciding }
  if (!grants('see', granted)) return { cause: 'way', right: 'see', grants: opening(granted) }
  return { cause: deciding.length > 0 ? 'grant' : 'noGrant', right: 'see', grants: deciding }
}

/** A grant below the path that allows `see`. */
function opening(granted: GrantedPath): readonly Grant[] {
  for (const below of granted.below()) if (grants('see', below)) return below.decidingGrants('see')
  return []
}

function lookAtRight(question: Question, refused: boolean): Found {
  const { principal, action, path, rules } = question
  const { granted } = rules
  if (granted !== undefined) {
    if (!grants('see', granted)) {
      const cause = isSeen(principal, path, granted) ? 'way' : 'notSeen'
      const isPassed = cause === 'way' && !refused
      return { cause, right: 'see', grants: isPassed ? opening(granted) : granted.decidingGrants('see') }
    }
    const right = action === 'move' && refusesRemoval(principal, granted) ? 'remove' : askedRights[action]
    const deciding = granted.decidingGrants(right)
    if (deciding.length > 0) {
      const isFolderOfGrant = refused && granted.says(right) === true
      return { cause: isFolderOfGrant ? 'folderOfGrant' : 'grant', right, grants: deciding }
    }
    if (granted.grantedOnly) return { cause: 'grantedOnly', right }
  }
  const permission = permissionOf(action)
  if (permission === undefined) return { cause: 'permission' }
  const isByRule = permission === 'write' && !refused && !principal.hasPermission('write')
  return isByRule
    ? { cause: 'ruleWithWrite', rule: decidingRule(action, rules), permissions: [permission] }
    : { cause: 'permission', permissions: [permission] }
}

function permissionOf(action: Action): Permission | undefined {
  const required = isLook(action) ? 'nothing' : requirements[action]
  if (required === 'nothing') return undefined
  return required === 'content' ? 'write' : required
}
