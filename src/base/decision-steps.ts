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
