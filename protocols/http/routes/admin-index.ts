/** Administration of the search index. */
import { z } from 'zod'
import { cleanPath } from '../../../src/base/path.js'
import { progressObject } from '../../../src/search/progress.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { integer, stringList } from '../api/fields.js'
import { pathRefusals, coreRefusal } from '../api/refusals.js'
import { timestamp } from '../api/schemas.js'
import { assertSearchEnabled, searchDisabled } from './search.js'

const progressData = z
  .object({
    obj_count: z
      .int()
      .describe('The number of names read by the running build or update; otherwise the number of names in the index.'),
    is_done: z.boolean().describe('Whether no build or update is running.'),
    last_done_time: timestamp.nullable().describe('The time at which a build or update last finished.'),
    error: z.string().describe('The error of the last run, or `stopped`. Empty if there was none.'),
  })
  .meta({ id: 'IndexProgress' })

const openFailed: Refusal = {
  code: 500,
  text: '…',
  error: 'unavailable',
  when: 'the index cannot be opened; the message is the reason',
}
const running = coreRefusal('invalid', { detail: 'index_running' })
const notRunning = coreRefusal('invalid', { detail: 'index_idle' })

const common = { tag: 'Search index', access: 'admin' } as const

export const adminIndexEndpoints = [
  endpoint({
    ...common,
    method: 'post',
    path: '/api/admin/index/build',
    event: 'admin.other',
    summary: 'Rebuild the index from the whole tree, in the background',
    description: 'Up to the depth `max_index_depth`. Excludes `ignore_paths` and storages with `disable_index`.',
    refusals: [searchDisabled, running, openFailed],
    async answer({ api }) {
      assertSearchEnabled(api)
      await api.gateway.search.build()
    },
  }),

  endpoint({
    ...common,
    method: 'post',
    path: '/api/admin/index/update',
    event: 'admin.other',
    summary: 'Update the index for parts of the tree, in the background',
    description: 'Adds new entries, removes deleted ones and updates changed ones. Searches work during the update.',
    fields: z.object({
      paths: stringList.meta({ example: ['/'] }).describe('Paths in the whole tree.'),
      max_depth: integer(-1).describe('Maximum depth of folders; negative: no limit.'),
    }),
    refusals: [
      searchDisabled,
      running,
      openFailed,
      ...pathRefusals.filter(({ code, text }) => code < 500 && !text.includes('password')),
    ],
    async answer({ api, fields: { paths, max_depth: depth } }) {
      assertSearchEnabled(api)
      await api.gateway.search.update(paths.map(cleanPath), depth < 0 ? Number.POSITIVE_INFINITY : depth)
    },
  }),

  endpoint({
    ...common,
    method: 'post',
    path: '/api/admin/index/stop',
    event: 'admin.other',
    summary: 'Stop the build or update; the entries it has read stay in the index',
    refusals: [searchDisabled, notRunning, openFailed],
    async answer({ api }) {
      assertSearchEnabled(api)
      await api.gateway.search.stop()
    },
  }),

  endpoint({
    ...common,
    method: 'post',
    path: '/api/admin/index/clear',
    event: 'admin.other',
    summary: 'Delete all entries of the index',
    refusals: [searchDisabled, running, openFailed],
    async answer({ api }) {
      assertSearchEnabled(api)
      await api.gateway.search.clear()
    },
  }),

  endpoint({
    ...common,
    method: 'get',
    path: '/api/admin/index/progress',
    summary: 'Get the progress of the build or update',
    data: progressData,
    refusals: [searchDisabled],
    answer({ api }) {
      assertSearchEnabled(api)
      return progressObject(api.gateway.search.progress())
    },
  }),
]
