/** The steps of a decision on one path, as the API and the command line name them. */

/** What each step asks, in the order of the steps. */
export const explainedSteps = {
  session: 'whether the account can be used',
  protocol: 'whether it may use the protocol',
  base: 'whether the path is in its base folder',
  sight: 'whether the grants let it see the path',
  'hidden names': 'whether a folder rule hides the name',
  readers: 'whether a folder rule names others as its readers',
  password: 'whether a folder rule requires a password',
  right: 'whether a grant, or otherwise a permission, gives the right',
  writers: 'whether a folder rule names others as its writers',
} as const satisfies Readonly<Record<string, string>>
export type ExplainedStep = keyof typeof explainedSteps

/** What steps look at. `hidden`: the names that a folder rule hides; `rule`: anything else that a folder rule says. */
export const evidenceKinds = ['credential', 'protocol', 'base', 'hidden', 'grant', 'rule', 'permission'] as const
export type EvidenceKind = (typeof evidenceKinds)[number]

/** The findings of the steps, each with the kind of evidence that the step looks at. */
export const causes = {
  credential: 'credential',
  protocol: 'protocol',
  base: 'base',
  /** No grant mentions `see`, so that the path is seen. */
  no_grant: 'grant',
  not_seen: 'grant',
  /** The path leads to a grant, and is seen without its content. */
  way: 'grant',
  hidden: 'hidden',
  read_users: 'rule',
  password: 'rule',
  grant: 'grant',
  /** No grant mentions the right, without which the user has none. */
  granted_only: 'grant',
  /** A grant allows it here, and the right is needed from above. */
  folder_of_grant: 'grant',
  rule_with_write: 'rule',
  permission: 'permission',
  write_users: 'rule',
} as const satisfies Readonly<Record<string, EvidenceKind>>
export type Cause = keyof typeof causes

/** What else there is to know about a decision. */
export const noteNames = [
  'networks',
  'folder_refused',
  'folder_seen',
  'outside_base',
  'spellings',
  'elsewhere',
] as const
export type NoteName = (typeof noteNames)[number]
