/** Driver type `Alias`: several paths of the tree, merged into one. */
import { childOf, root } from '../../src/base/path.js'
import type { DriverType, OptionsOf } from '../../src/contract/driver-type.js'
import { namedPaths } from './options.js'

const writing = ['disabled', 'first', 'deterministic', 'deterministic_or_all', 'all', 'all_strict'] as const

export const aliasFields = {
  paths: {
    type: 'text',
    required: true,
    basic: true,
    treePath: true,
    help: 'One path or name:path on each line. Paths with the same name are merged; earlier ones take precedence.',
  },
  read_conflict_policy: {
    type: 'select',
    options: ['first', 'random', 'all'],
    default: 'first',
    help: 'Which copy of a file is read: the first, or any of the same size.',
  },
  write_conflict_policy: {
    type: 'select',
    options: writing,
    default: 'disabled',
    basic: true,
    help: 'Where folders are created, and entries are renamed and removed.',
  },
  put_conflict_policy: {
    type: 'select',
    options: [...writing, 'random', 'quota', 'quota_strict'],
    default: 'disabled',
    basic: true,
    help: 'Where files are written.',
  },
  file_consistency_check: {
    type: 'bool',
    default: false,
    help: 'Treat files as copies of each other only if their hashes are equal too.',
  },
  details_pass_through: {
    type: 'bool',
    default: false,
    help: 'Report the usage of the underlying storage; only with a single path.',
  },
} as const

export type AliasOptions = OptionsOf<typeof aliasFields>

export const aliasType: DriverType<typeof aliasFields> = {
  name: 'Alias',
  fields: aliasFields,
  facts: { directUrls: 'preferred', uncached: true, composite: true },
  // The URLs of the storages below may be.
  traits: { urlsBoundTo: ['userAgent', 'address'] },
  shows(options) {
    const named = namedPaths(options.paths)
    return [...named].flatMap(([name, paths]) => {
      const at = named.size === 1 ? root : childOf(root, name)
      return paths.map((path) => ({ path, at }))
    })
  },
  async open(options, env) {
    const { openAlias } = await import('./alias.js')
    return openAlias(options, env)
  },
}
