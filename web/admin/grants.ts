/** Grants as forms show and change them: rights at a folder, by a few presets or one by one. */
import { Right } from '../api/schema.ts'
import type { Group } from './accounts.ts'

/** A grant as the API has it. */
type Grant = Group['grants'][number]

export interface EditedGrant {
  /** Identifies it in the form. */
  readonly key: number
  readonly path: string
  readonly allow: readonly Right[]
  readonly deny: readonly Right[]
}

/** All rights, in the order in which they are shown. */
export const rights = Object.values(Right)

const look = [Right.see, Right.read]
const add = [...look, Right.write]
const change = [...add, Right.rename, Right.move, Right.copy, Right.remove]

/** What can be chosen at once: the rights that each allows and denies. It leaves the others open. */
export const presets = {
  look: { allow: look, deny: [] },
  add: { allow: add, deny: [] },
  change: { allow: change, deny: [] },
  everything: { allow: rights, deny: [] },
  nothing: { allow: [], deny: [Right.see] },
} as const satisfies Record<string, Pick<EditedGrant, 'allow' | 'deny'>>

export type Preset = keyof typeof presets

/** The preset that allows and denies the same; undefined for a mix that is none. */
export function presetOf(grant: Pick<EditedGrant, 'allow' | 'deny'>): Preset | undefined {
  const names = Object.keys(presets) as Preset[]
  return names.find((name) => rights.every((right) => choiceOf(grant, right) === choiceOf(presets[name], right)))
}

/** What a grant says of a right. */
export type Choice = 'allow' | 'deny' | 'unmentioned'

export function choiceOf({ allow, deny }: Pick<EditedGrant, 'allow' | 'deny'>, right: Right): Choice {
  if (deny.includes(right)) return 'deny'
  // Whoever is allowed anything sees too.
  return allow.includes(right) || (right === Right.see && allow.length > 0) ? 'allow' : 'unmentioned'
}

/** The grant with another choice for the right, and without what cannot be together with it. */
export function withChoice(grant: EditedGrant, right: Right, choice: Choice): EditedGrant {
  const without = (list: readonly Right[]) => list.filter((each) => each !== right)
  const allow = without(grant.allow)
  const deny = without(grant.deny)
  switch (choice) {
    case 'allow':
      return { ...grant, allow: inOrder([...allow, right, Right.see]), deny: deny.filter((each) => each !== Right.see) }
    case 'deny':
      return { ...grant, allow: right === Right.see ? [] : allow, deny: inOrder([...deny, right]) }
    case 'unmentioned':
      return { ...grant, allow, deny }
  }
}

/** Each once, in their order. */
function inOrder(list: readonly Right[]): readonly Right[] {
  return rights.filter((right) => list.includes(right))
}

let lastKey = 0

/** A grant of a folder that is not yet chosen. */
export function newGrant(): EditedGrant {
  return { key: ++lastKey, path: '', ...presets.look }
}

/** Copies that a form can change. */
export function editedGrants(grants: readonly Grant[]): readonly EditedGrant[] {
  return grants.map(({ path, allow, deny }) => ({ key: ++lastKey, path, allow, deny }))
}

/** The grants as requests have them. */
export function sentGrants(grants: readonly EditedGrant[]) {
  return grants.map(({ path, allow, deny }) => ({ path, allow: [...allow], deny: [...deny] }))
}

/** Whether a grant at `path` has an effect for a user with this base folder: at it, above it, or below it. */
export function reaches(base: string, path: string): boolean {
  const [one, other] = [cleaned(base), cleaned(path)]
  return one.startsWith(other) || other.startsWith(one)
}

/** The path with one slash after each name. */
function cleaned(path: string): string {
  return `/${path
    .split(/[/\\]/)
    .filter((name) => name !== '' && name !== '.')
    .join('/')}/`.replace('//', '/')
}
