/** Search for names in the tree. */
import { z } from 'zod'
import { GatewayError } from '../../../src/base/errors.js'
import { cleanPath, under } from '../../../src/base/path.js'
import type { SearchOptions } from '../../../src/tree/search-results.js'
import type { HttpApi } from '../api/http-api.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { refused, withResponses } from '../api/errors.js'
import { integer, text } from '../api/fields.js'
import { fileType, fileTypeNumbers } from '../compat/file-types.js'
import { treeHeaders } from '../api/access-options.js'
import { lockedPasswords, malformedPath, coreRefusal, relativePath } from '../api/refusals.js'
import { pageData } from '../api/schemas.js'
import { accessOptions } from '../api/access-options.js'

export const searchDisabled = coreRefusal('unavailable', { detail: 'search_off' }, '`search_index` is `none`')

/** Throws 404 if search is disabled in the settings. */
export function assertSearchEnabled({ gateway }: HttpApi): void {
  if (!gateway.search.isOn) throw new GatewayError('unavailable', { detail: 'search_off' })
}

const foundData = z
  .object({
    parent: z.string().describe('The path of the folder in the whole tree, including the base folder of the user.'),
    name: z.string(),
    is_dir: z.boolean(),
    size: z.int().describe('Bytes; 0 for a folder.'),
    type: fileType,
  })
  .meta({ id: 'Found' })

const pageTooSmall: Refusal = { code: 400, text: `page can't < 1`, error: 'invalid' }
const perPageTooSmall: Refusal = { code: 400, text: `per_page can't < 1`, error: 'invalid' }
const relativeParent: Refusal = { ...relativePath, code: 400, when: '`parent` contains `..`' }

export const searchEndpoints = [
  endpoint({
    method: 'any',
    path: '/api/fs/search',
    tag: 'Files',
    summary: 'Search for names below a folder',
    description:
      'Returns the entries of the index that the user may see, ordered by name. If there are more than 10,000, ' +
      '`total` may be too low.',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({
      parent: text.meta({ example: '/' }).describe('Relative to the base folder of the user. Default: the root.'),
      keywords: text
        .meta({ example: 'report 2024' })
        .describe('Words that the name must contain, in any order. Case-insensitive.'),
      scope: integer(0).describe('0: all, 1: folders, any other value: files.'),
      page: integer(1).describe('Counted from 1.'),
      per_page: integer(100).describe('Items per page, at least 1. Values above 10,000 are treated as 10,000.'),
      password: text.describe('The password of folders. Default: the header `Password`.'),
    }),
    data: pageData(foundData),
    refusals: [
      searchDisabled,
      pageTooSmall,
      perPageTooSmall,
      relativeParent,
      ...malformedPath,
      { code: 400, text: 'more than … words', error: 'invalid' },
      { code: 400, text: 'more than … characters', error: 'invalid', when: '`keywords` is too long' },
      lockedPasswords,
      { code: 503, text: 'the database is busy', error: 'busy', when: 'there are too many concurrent searches' },
      { code: 500, text: '…', error: 'unavailable', when: 'the index cannot be opened; the message is the reason' },
    ],
    async answer({ context, api, fields, headers, principal }) {
      assertSearchEnabled(api)
      const { keywords, scope, page, per_page: perPage } = fields
      if (page < 1) throw refused(pageTooSmall)
      if (perPage < 1) throw refused(perPageTooSmall)
      // Other endpoints respond with 403.
      const folder = await withResponses({ relative_path: relativeParent }, () => cleanPath(fields.parent))
      const { names, total } = await api.gateway.as(principal).search(folder, {
        ...accessOptions(context, fields.password || headers.password),
        keywords,
        kind: kindOf(scope),
        offset: Math.min((page - 1) * perPage, Number.MAX_SAFE_INTEGER),
        limit: perPage,
      })
      const typeOf = api.fileTypes.classifier()
      const content = names.map(({ parent, name, kind, size }) => ({
        parent: under(principal.base, parent),
        name,
        is_dir: kind !== 'file',
        size,
        type: kind === 'file' ? typeOf(name) : fileTypeNumbers.folder,
      }))
      return { content, total }
    },
  }),
]

function kindOf(scope: number): SearchOptions['kind'] {
  if (scope === 0) return 'any'
  return scope === 1 ? 'folders' : 'files'
}
