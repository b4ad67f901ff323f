/** Reading the tree: list, get, dirs. */
import { z } from 'zod'
import type { UrlClient, Usage } from '../../../src/contract/capabilities.js'
import type { Entry } from '../../../src/contract/entry.js'
import { isGatewayError } from '../../../src/base/errors.js'
import { childOf, cleanPath, encodePath, nameOf, parentOf, root, under, type Path } from '../../../src/base/path.js'
import { asVisitor } from '../../../src/shares/visitor-errors.js'
import type { FolderListOptions } from '../../../src/tree/folder-contents.js'
import type { AccessOptions } from '../../../src/tree/operation-options.js'
import { etagOf } from '../../../src/tree/preconditions.js'
import type { FolderView, SeenEntry, SerializedParts, VirtualFs } from '../../../src/tree/virtual-fs.js'
import { urlClientOf } from '../../lib/client.js'
import { signalOf, type Exchange, type HttpApi } from '../api/http-api.js'
import { endpoint } from '../api/endpoint.js'
import { withResponses } from '../api/errors.js'
import { choice, flag, paging, text } from '../api/fields.js'
import { accessOptions, treeHeaders } from '../api/access-options.js'
import { ofVisitors, openForVisitor, type VisitorPath } from '../api/visitors.js'
import {
  mountDetails,
  absoluteUrl,
  cacheKeyOf,
  folderForm,
  fileData,
  areUrlsSigned,
  fileObjectConverter,
  shareUrl,
  sharedObjectConverter,
  wireTime,
  type FileObject,
  type SharedForm,
} from '../compat/object.js'
import { right } from '../api/grant-fields.js'
import { shareMode } from '../compat/share-object.js'
import { sliceOf } from '../api/paging.js'
import { accessDenied, pathRefusals, coreRefusal, visitorRefusals } from '../api/refusals.js'
import { timestamp } from '../api/schemas.js'
import { StreamedArray, type StreamedArrayOptions } from '../api/streamed-array.js'

const path = text.meta({ example: '/folder' }).describe('Relative to the base folder of the user. Default: the root.')
const treePath = path.describe(
  'Relative to the base folder of the user, or `/@s/ID` and paths below it for what a share has. Default: the root.',
)
const password = text.describe('The password of the folder. Default: the header `Password`.')
const codeOrPassword = text.describe(
  'The password of the folder, or the code of the share. Default: the header `Password`.',
)
const visitorsToo =
  'What a share has is for everybody: no token is needed, and a token is ignored. The first request sets a cookie, ' +
  'which later requests of the visit send.'

/** Attributes of a folder in the responses of list and get. */
const folderFields = {
  readme: z.string(),
  header: z.string(),
  provider: z.string().describe('The driver of the storage. `unknown` for a folder above mount points.'),
}
const listData = z.object({
  content: z.array(fileData),
  total: z.int().describe('The number of entries on all pages.'),
  ...folderFields,
  write: z.boolean().describe('Whether the user may write in the folder.'),
  write_content_bypass: z.boolean().describe('Whether a folder rule allows everyone to write.'),
  rights: z
    .array(right)
    .describe(
      'Those of `write`, `rename`, `move`, `copy`, `remove` and `share` that the user has for the entries here that ' +
        'have no grants of their own. An extension of this gateway.',
    ),
})
const detailData = fileData.extend({
  raw_url: z.string().describe('The download URL; empty for a folder, and for a file that the user may not read.'),
  etag: z.string().describe('The entity tag, for `If-Match` of `put`; empty for a folder.'),
  ...folderFields,
  share_mode: shareMode
    .optional()
    .describe('What visitors may do. Only of what a share has. An extension of this gateway.'),
  share_sorted: z
    .boolean()
    .optional()
    .describe(
      'Whether the share has an order, in which `list` sorts without `sort_by`. Only of what a share has. An extension ' +
        'of this gateway.',
    ),
  related: z
    .array(fileData)
    .nullable()
    .describe(
      'Siblings whose names start with the name without its extension, such as the subtitles of a film. In a very large folder some may be missing.',
    ),
})

/** Maximum number of related siblings, and of entries of the folder among which they are searched. */
const relatedLimit = 100
const relatedAmong = 10_000

export const browseEndpoints = [
  endpoint({
    method: 'any',
    path: '/api/fs/list',
    tag: 'Files',
    summary: 'List a folder',
    description: visitorsToo,
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({
      path: treePath,
      password: codeOrPassword,
      refresh: flag.describe('Bypass the cached listing. Ignored for what a share has.'),
      sort_by: choice('name', 'size', 'modified').describe(
        'The order of the entries; folders come first. `name`: in any case, and digits as numbers. Default: the order ' +
          'of the share, or of the storage.',
      ),
      sort_direction: choice('asc', 'desc').describe('The direction of `sort_by`. Default: `asc`.'),
      contains: text.describe('Only entries whose names contain this text, in any case.'),
      ...paging,
    }),
    data: listData,
    refusals: [
      ...pathRefusals,
      ...visitorRefusals,
      coreRefusal('denied', { detail: 'refresh_denied' }, '`refresh` is set, and the user may not write in the folder'),
    ],
    visitors: {
      ...ofVisitors,
      async answer({ context, api, fields, headers }) {
        const visited = await openForVisitor(api, context, fields.path, fields.password || headers.password)
        const { share, at } = visited
        const { offset, limit } = sliceOf(fields)
        const { contains } = fields
        const options = { signal: signalOf(context.res), order: orderOf(fields), contains, offset, limit }
        const { entries, total, thumbnails, rights } = await asVisitor(() => share.list(at, options))
        const form = formOf(api, context, visited, thumbnails)
        const objectOf = sharedObjectConverter(api, form, ({ name }) => childOf(at, name))
        return {
          content: new StreamedArray(entries.length, (from, to) => entries.slice(from, to).map(objectOf)),
          total,
          ...notesOf(share),
          write: rights.includes('write'),
          write_content_bypass: false,
          rights: [...rights],
        }
      },
    },
    async answer({ context, api, fields, headers, principal }) {
      const fs = api.gateway.as(principal)
      const { baseUrl } = api.clientOf(context.req)
      const folderPath = cleanPath(fields.path)
      const { offset, limit } = sliceOf(fields)
      const { entries, total, folder, rights, cached } = await withResponses(browseResponses, () =>
        fs.list(folderPath, {
          signal: signalOf(context.res),
          password: fields.password || headers.password,
          refresh: fields.refresh,
          order: orderOf(fields),
          contains: fields.contains,
          offset,
          limit,
        }),
      )
      const form = folderForm(api, under(principal.base, folderPath), folder, baseUrl)
      const plainObjectOf = fileObjectConverter(api, form)
      const objectOf = await withMountDetails(api, fs, folderPath, entries, plainObjectOf)
      // Mount details are not cached, because they change often.
      const cacheOf = () => {
        const key = objectOf === plainObjectOf ? cacheKeyOf(api, form) : undefined
        return key === undefined ? undefined : cached?.serialized(key)
      }
      return {
        content: listed(entries, objectOf, cached?.entries ?? entries, cacheOf),
        total,
        readme: folder.readme,
        header: folder.header,
        write: folder.write,
        write_content_bypass: folder.writeByRule,
        rights: [...rights],
        provider: folder.provider,
      }
    },
  }),

  endpoint({
    method: 'any',
    path: '/api/fs/get',
    tag: 'Files',
    summary: 'Get a file or folder, with its download URL',
    description: visitorsToo,
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({ path: treePath, password: codeOrPassword }),
    data: detailData,
    refusals: [...pathRefusals, ...visitorRefusals],
    visitors: {
      ...ofVisitors,
      async answer({ context, api, fields, headers }) {
        const visited = await openForVisitor(api, context, fields.path, fields.password || headers.password)
        const { share, id, at, code } = visited
        const { entry, thumbnails } = await asVisitor(() => share.view(at, { signal: signalOf(context.res) }))
        const form = formOf(api, context, visited, thumbnails)
        const object = sharedObjectConverter(api, form, () => at)(entry)
        const isReadable = !object.is_dir && entry.unreadable !== true
        return Object.assign(object, {
          etag: object.is_dir ? '' : etagOf(entry),
          raw_url: isReadable ? shareUrl(form.baseUrl, id, at, { pwd: code }) : '',
          ...notesOf(share),
          share_mode: share.share.mode,
          share_sorted: share.order !== undefined,
          related: [],
        })
      },
    },
    async answer({ context, api, fields, headers, principal }) {
      const fs = api.gateway.as(principal)
      const client = api.clientOf(context.req)
      const { baseUrl } = client
      const entryPath = cleanPath(fields.path)
      const options = accessOptions(context, fields.password || headers.password)
      const urlOptions = { ...options, client: urlClientOf(context.req, client) }
      const { entry, folder } = await withResponses(browseResponses, () => fs.view(entryPath, options))
      const name = entryPath === root ? 'root' : nameOf(entryPath)
      const object = fileObjectConverter(
        api,
        folderForm(api, under(principal.base, parentOf(entryPath)), folder, baseUrl),
      )({ ...entry, name })
      const usage = object.is_dir ? (await mountUsages(api, fs, [entryPath])).get(entryPath) : undefined
      // Adding properties to a spread object is many times slower.
      return Object.assign(object, usage && { mount_details: mountDetails(usage) }, {
        etag: object.is_dir ? '' : etagOf(entry),
        raw_url:
          object.is_dir || entry.unreadable === true
            ? ''
            : await rawUrl(api, baseUrl, fs, entryPath, folder, object.sign, urlOptions),
        readme: folder.readme,
        header: folder.header,
        provider: folder.provider,
        related: entryPath === root ? null : await related(api, baseUrl, fs, entryPath, options),
      })
    },
  }),

  endpoint({
    method: 'any',
    path: '/api/fs/dirs',
    tag: 'Files',
    summary: 'List the folders in a folder',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({
      path,
      password,
      force_root: flag.describe('Whether `path` is relative to the root of the whole tree. Only for admins.'),
    }),
    data: z.array(z.object({ name: z.string(), modified: timestamp }).meta({ id: 'Folder' })),
    refusals: [
      ...pathRefusals,
      coreRefusal('denied', { detail: 'admins_only' }, '`force_root` is set, and the user is not an admin'),
    ],
    async answer({ context, api, fields, headers, principal }) {
      const fs = fields.force_root ? api.gateway.asAdmin(principal) : api.gateway.as(principal)
      const options = accessOptions(context, fields.password || headers.password)
      const { entries } = await withResponses(browseResponses, () =>
        fs.list(cleanPath(fields.path), { ...options, foldersOnly: true }),
      )
      const shown = ({ name, modified }: Entry) => ({ name, modified: wireTime(modified) })
      return new StreamedArray(entries.length, (from, to) => entries.slice(from, to).map(shown))
    },
  }),
]

/** How files of a share are requested. */
function formOf(
  api: HttpApi,
  { req }: Exchange,
  { id, code }: VisitorPath,
  thumbnails: FolderView['thumbnails'],
): SharedForm {
  return { baseUrl: api.clientOf(req).baseUrl, id, code, thumbnails }
}

/** What a share says in place of the folder rules. The driver of its storage is not told. */
function notesOf({ share: { readme, header } }: VisitorPath['share']) {
  return { readme, header, provider: 'unknown' }
}

/** The order that a request asks for; undefined if it leaves that to the storage. */
function orderOf({
  sort_by: by,
  sort_direction: direction,
}: {
  readonly sort_by: '' | 'name' | 'size' | 'modified'
  readonly sort_direction: '' | 'asc' | 'desc'
}): FolderListOptions['order'] {
  return by === '' ? undefined : { by, direction, folders: 'front', ignoreCase: true }
}

/** The usage of the storages mounted at the paths. Empty if a setting hides it. */
async function mountUsages(api: HttpApi, fs: VirtualFs, paths: readonly Path[]): Promise<ReadonlyMap<Path, Usage>> {
  const hidden = api.gateway.settings.bool('hide_storage_details')
  return hidden ? new Map<Path, Usage>() : fs.mountUsages(paths)
}

/** Wraps `objectOf` to add `mount_details` to mount points. Returns `objectOf` if there are none. */
async function withMountDetails(
  api: HttpApi,
  fs: VirtualFs,
  folder: Path,
  entries: readonly SeenEntry[],
  objectOf: (entry: SeenEntry) => FileObject,
): Promise<(entry: SeenEntry) => FileObject> {
  const folders = entries.filter(({ kind }) => kind === 'folder')
  const paths = folders.map(({ name }) => childOf(folder, name))
  const usages = await mountUsages(api, fs, paths)
  if (usages.size === 0) return objectOf
  return (entry) => {
    const usage = entry.kind === 'folder' ? usages.get(childOf(folder, entry.name)) : undefined
    return usage ? { ...objectOf(entry), mount_details: mountDetails(usage) } : objectOf(entry)
  }
}

/** The objects of the entries, which are all or some of those of a listing whose JSON may be cached. */
function listed(
  entries: readonly SeenEntry[],
  objectOf: (entry: SeenEntry) => FileObject,
  all: readonly Entry[],
  cacheOf: () => SerializedParts | undefined,
): StreamedArray<FileObject> {
  const objects = (of: readonly SeenEntry[], options: StreamedArrayOptions<FileObject>) =>
    new StreamedArray(of.length, (from, to) => of.slice(from, to).map(objectOf), options)
  const whole = objects(all, { cacheOf })
  // Of a small part of the listing the objects are made in less time.
  if (entries === all || entries.length < all.length / 2) return entries === all ? whole : objects(entries, {})
  const placesOf = () => {
    let place = 0
    return (index: number) => {
      const entry = entries[index]
      while (place < all.length && all[place]?.name !== entry?.name) place++
      return all[place] === entry ? place : undefined
    }
  }
  return objects(entries, { excerpt: { whole, placesOf } })
}

/** The download URL of a file: of the backend, of the storage's `down_proxy_url`, or of this server. */
async function rawUrl(
  api: HttpApi,
  baseUrl: string,
  fs: VirtualFs,
  path: Path,
  view: FolderView,
  sign: string,
  options: AccessOptions & { readonly client: UrlClient },
): Promise<string> {
  const { signal, password, client } = options
  const decision = await withResponses(storageResponses, () =>
    fs.downloadRoute(path, { signal, password, client, route: 'file details' }),
  )
  if (decision.kind !== 'stream') return absoluteUrl(baseUrl, decision.url)
  const query = areUrlsSigned(api.gateway, view) ? `?sign=${sign}` : ''
  return `${baseUrl}/p${encodePath(under(fs.principal.base, path))}${query}`
}

/** Siblings whose names start with the name at `path` without its extension; null if there are none. */
async function related(
  api: HttpApi,
  baseUrl: string,
  fs: VirtualFs,
  path: Path,
  options: AccessOptions,
): Promise<FileObject[] | null> {
  const name = nameOf(path)
  const stem = name.replace(/(?<=.)\.[^.]*$/s, '')
  const parent = parentOf(path)
  try {
    const { signal, password } = options
    const request = { signal, password, startsWith: stem, except: name, limit: relatedLimit, atMost: relatedAmong }
    const { entries, folder } = await fs.list(parent, request)
    return entries.length === 0
      ? null
      : entries.map(fileObjectConverter(api, folderForm(api, under(fs.principal.base, parent), folder, baseUrl)))
  } catch (error) {
    // The user may be allowed to see the object but not to list its folder.
    if (isGatewayError(error) && error.code !== 'internal') return null
    throw error
  }
}

/** On 403 clients prompt for a folder password, which changes nothing about what the backend refuses. */
const storageResponses = { storage_refused: { code: 500, status: 502 } } as const
/** `denied` gets the message on which clients prompt for a folder password. */
const browseResponses = { ...storageResponses, denied: accessDenied, refresh_denied: { code: 403 } } as const
