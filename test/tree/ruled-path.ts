/** The folder rules and grants of paths, as tables of tests write them. */
import { asPath as p, foldCase, parentOf, type Path } from '../../src/base/path.js'
import type { Right } from '../../src/base/rights.js'
import { hidePatterns, type Rule } from '../../src/tree/folder-rules.js'
import { GrantTrie } from '../../src/tree/grant-trie.js'
import type { Grant } from '../../src/tree/grants.js'
import type { RuledPath } from '../../src/tree/policy/one-path.js'
import { grantRow, ruleRow } from '../database/store-rows.js'

/** A grant as `+see,read -write`: rights it allows and denies. A path that begins with `group:` is a group's. */
export type GrantTable = Readonly<Record<string, string>>

function grantsOf(table: GrantTable): Grant[] {
  return Object.entries(table).map(([key, text], index) => {
    const isGroup = key.startsWith('group:')
    const words = text.split(' ')
    const rightsOf = (sign: string) =>
      words
        .filter((word) => word.startsWith(sign))
        .flatMap((word) => word.slice(1).split(','))
        .map((word) => word as Right)
    const group = key.slice('group:'.length)
    const [groupId, path] = isGroup ? [Number(group[0]), group.slice(1)] : [undefined, key]
    const subject = { userId: isGroup ? undefined : 1, groupId }
    return { ...grantRow({ ...subject, path: p(path), allow: rightsOf('+'), deny: rightsOf('-') }), id: index + 1 }
  })
}

export interface Asked {
  readonly grants?: GrantTable
  readonly only?: boolean
  readonly folds?: boolean
  readonly rules?: Readonly<Record<string, Partial<Rule>>>
}

export function ruled({ grants = {}, only = false, folds = false, rules = {} }: Asked, path: Path): RuledPath {
  const trie = new GrantTrie(grantsOf(grants), (at) => (folds ? foldCase(at) : undefined), only)
  return { path, atPath: nearest(rules, path), atParent: nearest(rules, parentOf(path)), granted: trie.at(path) }
}

function nearest(rules: NonNullable<Asked['rules']>, path: Path): Rule | undefined {
  for (let at = path; ; at = parentOf(at)) {
    const fields = rules[at]
    if (fields) {
      const row = { ...ruleRow({ ...fields, path: at }), id: 1 }
      const patterns = hidePatterns(row.hide)
      return { ...row, hides: (name) => patterns.some((pattern) => pattern.test(name)), hideCost: 0 }
    }
    if (at === '/') return undefined
  }
}
