/** Administration of the search index. */
import { z } from 'zod'
import { cleanPath } from '../../../src/path.js'
import { progressObject } from '../../../src/search/progress.js'
import { endpoint, type Refusal } from '../endpoint.js'
import { integer, texts } from '../fields.js'
import { pathRefusals } from '../refusals.js'
import { moment } from '../schemas.js'
import { assertSearch, searchOff } from './search.js'

const progressData = z
  .object({
    obj_count: z.int().describe('Names that the run has seen; after it, those in the index.'),
    is_done: z.boolean().describe('Nothing runs.'),
    last_done_time: moment.nullable().describe('When a build or an update last came to its end.'),
    error: z.string().describe('What could not be read, or `stopped`; empty for nothing.'),
  })
  .meta({ id: 'IndexProgress' })

const unopened: Refusal = { code: 500, text: '…', when: 'the index cannot be opened; the text is its reason' }
const running: Refusal = { code: 400, text: 'index is running' }
const notRunning: Refusal = { code: 400, text: 'index is not running' }

const common = { tag: 'Search index', access: 'admin' } as const

export const adminIndexEndpoints = [
  endpoint({
    ...common,
    method: 'post',
    path: '/api/admin/index/build',
    summary: 'Forget the index and read the whole tree anew, in the background',
    description:
      'As deep as `max_index_depth` says, without `ignore_paths` and without storages that are kept out of the index.',
    refusals: [searchOff, running, unopened],
    async answer({ door }) {
      assertSearch(door)
      await door.gateway.search.build()
    },
  }),

  endpoint({
    ...common,
    method: 'post',
    path: '/api/admin/index/update',
    summary: 'Compare parts of the tree with the index, in the background',
    description: 'What is new, gone or changed is taken up; everything else goes on being found meanwhile.',
    fields: z.object({
      paths: texts.meta({ example: ['/'] }).describe('In the whole tree.'),
      max_depth: integer(-1).describe('Levels of folders; less than 0: all.'),
    }),
    refusals: [
      searchOff,
      running,
      unopened,
      ...pathRefusals.filter(({ code, text }) => code < 500 && !text.includes('password')),
    ],
    async answer({ door, fields: { paths, max_depth: depth } }) {
      assertSearch(door)
      await door.gateway.search.update(paths.map(cleanPath), depth < 0 ? Number.POSITIVE_INFINITY : depth)
    },
  }),

  endpoint({
    ...common,
    method: 'post',
    path: '/api/admin/index/stop',
    summary: 'End the build or update; what it has read stays',
    refusals: [searchOff, notRunning, unopened],
    async answer({ door }) {
      assertSearch(door)
      await door.gateway.search.stop()
    },
  }),

  endpoint({
    ...common,
    method: 'post',
    path: '/api/admin/index/clear',
    summary: 'Forget the index',
    refusals: [searchOff, running, unopened],
    async answer({ door }) {
      assertSearch(door)
      await door.gateway.search.clear()
    },
  }),

  endpoint({
    ...common,
    method: 'get',
    path: '/api/admin/index/progress',
    summary: 'How far the build or update is',
    data: progressData,
    refusals: [searchOff],
    answer({ door }) {
      assertSearch(door)
      return progressObject(door.gateway.search.progress())
    },
  }),
]
