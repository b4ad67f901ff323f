/** Finding names in the tree. */
import { z } from 'zod'
import { cleanPath, RelativePathError, under, type Path } from '../../../src/path.js'
import type { SearchAsk } from '../../../src/search/finding.js'
import type { Door } from '../context.js'
import { endpoint, type Refusal } from '../endpoint.js'
import { WireError } from '../errors.js'
import { integer, text } from '../fields.js'
import { folderType } from '../file-types.js'
import { treeHeaders } from '../folder-password.js'
import { pageData } from '../schemas.js'
import { askOf } from './change.js'

export const searchOff: Refusal = { code: 404, text: 'search not available', when: '`search_index` is `none`' }

/** Rejects where the setting says that there is no search. */
export function assertSearch({ gateway }: Door): void {
  if (!gateway.search.isOn) throw new WireError(searchOff.code, searchOff.text)
}

const foundData = z
  .object({
    parent: z.string().describe('In the whole tree: with the base path of the user.'),
    name: z.string(),
    is_dir: z.boolean(),
    size: z.int().describe('Bytes; 0 for a folder.'),
    type: z.literal([0, 1, 2, 3, 4, 5]).describe('0: unknown, 1: folder, 2: video, 3: audio, 4: text, 5: image.'),
  })
  .meta({ id: 'Found' })

const pageTooSmall: Refusal = { code: 400, text: `page can't < 1` }
const perPageTooSmall: Refusal = { code: 400, text: `per_page can't < 1` }
const climbing: Refusal = { code: 400, text: 'using relative path is not allowed', when: '`parent` holds `..`' }

export const searchEndpoints = [
  endpoint({
    method: 'any',
    path: '/api/fs/search',
    tag: 'Files',
    summary: 'Find names at any depth below a folder',
    description:
      'What the user could walk to and see there, ordered by name; read from the index. Of more than 10,000 names `total` ' +
      'may be less than there are.',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({
      parent: text.meta({ example: '/' }).describe('Below the base path of the user; left out: the root.'),
      keywords: text
        .meta({ example: 'report 2024' })
        .describe('Words, each of which stands somewhere in the name, whatever their order and case.'),
      scope: integer(0).describe('0: all, 1: folders, anything else: files.'),
      page: integer(0).meta({ example: 1 }).describe('Counted from 1; required.'),
      per_page: integer(0)
        .meta({ example: 100 })
        .describe('At least 1; required. More than 10,000 are no more than that.'),
      password: text.describe('Of folders that have one. Left out: the header `Password`.'),
    }),
    data: pageData(foundData),
    refusals: [
      searchOff,
      pageTooSmall,
      perPageTooSmall,
      climbing,
      { code: 400, text: 'a path cannot hold a NUL character' },
      { code: 400, text: 'the path is too long' },
      { code: 400, text: 'more than … words' },
      { code: 400, text: 'more than … characters', when: '`keywords` is too long' },
      { code: 503, text: 'the database is busy', when: 'too many searches are made at once' },
      { code: 500, text: '…', when: 'the index cannot be opened; the text is its reason' },
    ],
    async answer({ context, door, fields, headers, principal }) {
      assertSearch(door)
      const { keywords, scope, page, per_page: perPage } = fields
      if (page < 1) throw new WireError(pageTooSmall.code, pageTooSmall.text)
      if (perPage < 1) throw new WireError(perPageTooSmall.code, perPageTooSmall.text)
      const { names, total } = await door.gateway.as(principal).search(folderOf(fields.parent), {
        ...askOf(context, fields.password || headers.password),
        keywords,
        kind: kindOf(scope),
        offset: Math.min((page - 1) * perPage, Number.MAX_SAFE_INTEGER),
        limit: perPage,
      })
      const typeOf = door.fileTypes.reader()
      const content = names.map(({ parent, name, kind, size }) => ({
        parent: under(principal.base, parent),
        name,
        is_dir: kind !== 'file',
        size,
        type: kind === 'file' ? typeOf(name) : folderType,
      }))
      return { content, total }
    },
  }),
]

/** A path that climbs is no matter of rights here. */
function folderOf(path: string): Path {
  try {
    return cleanPath(path)
  } catch (error) {
    if (error instanceof RelativePathError) throw new WireError(climbing.code, climbing.text)
    throw error
  }
}

function kindOf(scope: number): SearchAsk['kind'] {
  if (scope === 0) return 'any'
  return scope === 1 ? 'folders' : 'files'
}
