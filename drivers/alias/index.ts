/** Storages that show several paths of the tree as one. */
import type { DriverType, OptionsOf } from '../../src/driver.js'

const writing = ['disabled', 'first', 'deterministic', 'deterministic_or_all', 'all', 'all_strict'] as const

export const aliasFields = {
  paths: {
    type: 'text',
    required: true,
    help: 'One path for each line, or name:path. Those of one name are merged, the earlier ones first.',
  },
  read_conflict_policy: {
    type: 'select',
    options: ['first', 'random', 'all'],
    default: 'first',
    help: 'Which copy of a file is read: the first, or any one of the same size.',
  },
  write_conflict_policy: {
    type: 'select',
    options: writing,
    default: 'disabled',
    help: 'Where folders are made, and things renamed and removed.',
  },
  put_conflict_policy: {
    type: 'select',
    options: [...writing, 'random', 'quota', 'quota_strict'],
    default: 'disabled',
    help: 'Where files are written.',
  },
  file_consistency_check: {
    type: 'bool',
    default: false,
    help: 'Files are copies of each other only where their hashes are the same too.',
  },
  details_pass_through: {
    type: 'bool',
    default: false,
    help: 'Tell how full the storage below is; only with a single path.',
  },
} as const

export type AliasOptions = OptionsOf<typeof aliasFields>

export const aliasType: DriverType<typeof aliasFields> = {
  name: 'Alias',
  fields: aliasFields,
  config: { local_sort: true, no_cache: true, default_root: '/', proxy_range: true },
  async open(options, env) {
    const { openAlias } = await import('./alias.js')
    return openAlias(options, env)
  },
}
