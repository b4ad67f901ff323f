/** Looking at the tree: list, get, dirs. */
import { z } from 'zod'
import type { Ask } from '../../../src/change.js'
import { isGatewayError } from '../../../src/errors.js'
import { cleanPath, nameOf, parentOf, root, under, type Path } from '../../../src/path.js'
import type { FolderView, VirtualFs } from '../../../src/virtual-fs.js'
import type { Context, Door } from '../context.js'
import { endpoint } from '../endpoint.js'
import { closedText, WireError } from '../errors.js'
import { flag, paging, text } from '../fields.js'
import { treeHeaders } from '../folder-password.js'
import { encodePath, fileData, isSigned, objectsIn, wireTime, type FileObject } from '../object.js'
import { sliceOf } from '../paging.js'
import { pathRefusals } from '../refusals.js'
import { moment } from '../schemas.js'
import { askOf } from './change.js'

const path = text.meta({ example: '/folder' }).describe('Below the base path of the user; left out: the root.')
const password = text.describe('Of a folder that has one. Left out: the header `Password`.')

/** What is told of a folder beside what is in it. */
const notes = {
  readme: z.string(),
  header: z.string(),
  provider: z.string().describe('The driver of the storage, or `unknown` for a folder between mounts.'),
}
const listData = z.object({
  content: z.array(fileData),
  total: z.int().describe('Of all pages.'),
  ...notes,
  write: z.boolean().describe('The user may change something here.'),
  write_content_bypass: z.boolean().describe('A folder rule lets everybody write here.'),
})
const detailData = fileData.extend({
  raw_url: z.string().describe('Where the bytes are to be had; empty for a folder.'),
  ...notes,
  related: z.array(fileData).nullable().describe('Siblings whose names start alike, subtitles of a film for instance.'),
})

/** Subtitles and lyrics of one film are few; a folder full of like names is not shown twice. */
const relatedLimit = 100

export const browseEndpoints = [
  endpoint({
    method: 'any',
    path: '/api/fs/list',
    tag: 'Files',
    summary: 'What is in a folder',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({
      path,
      password,
      refresh: flag.describe('Ask the storage, whatever was kept of it.'),
      ...paging,
    }),
    data: listData,
    refusals: [
      ...pathRefusals,
      { code: 403, text: 'Refresh without permission', when: '`refresh` is set, and the user may not write here' },
    ],
    async answer({ context, door, fields, headers, principal }) {
      const fs = door.gateway.as(principal)
      const at = cleanPath(fields.path)
      const { entries, total, folder } = await browsing(() =>
        fs.list(at, {
          ...askOf(context, fields.password || headers.password),
          refresh: fields.refresh,
          ...sliceOf(fields),
        }),
      )
      return {
        content: entries.map(objectsIn(door, fs, at, folder)),
        total,
        readme: folder.readme,
        header: folder.header,
        write: folder.write,
        write_content_bypass: folder.writeByRule,
        provider: folder.provider,
      }
    },
  }),

  endpoint({
    method: 'any',
    path: '/api/fs/get',
    tag: 'Files',
    summary: 'One file or folder, with the link to its bytes',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({ path, password }),
    data: detailData,
    refusals: pathRefusals,
    async answer({ context, door, fields, headers, principal }) {
      const fs = door.gateway.as(principal)
      const at = cleanPath(fields.path)
      const ask = askOf(context, fields.password || headers.password)
      const { entry, folder } = await browsing(() => fs.view(at, ask))
      const name = at === root ? 'root' : nameOf(at)
      const object = objectsIn(door, fs, parentOf(at), folder)({ ...entry, name })
      return {
        ...object,
        raw_url: object.is_dir ? '' : await rawUrl(door, context, fs, at, folder, object.sign, ask),
        readme: folder.readme,
        header: folder.header,
        provider: folder.provider,
        related: at === root ? null : await related(door, fs, at, ask),
      }
    },
  }),

  endpoint({
    method: 'any',
    path: '/api/fs/dirs',
    tag: 'Files',
    summary: 'The folders in a folder',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({
      path,
      password,
      force_root: flag.describe('`path` counts from the root of the whole tree; for admins.'),
    }),
    data: z.array(z.object({ name: z.string(), modified: moment })),
    refusals: [
      ...pathRefusals,
      { code: 403, text: 'Permission denied', when: '`force_root` is set, and the user is no admin' },
    ],
    async answer({ context, door, fields, headers, principal }) {
      const { force_root: forceRoot } = fields
      if (forceRoot && principal.role !== 'admin') throw new WireError(403, 'Permission denied')
      const fs = door.gateway.as(forceRoot ? { ...principal, base: root } : principal)
      const ask = askOf(context, fields.password || headers.password)
      const { entries } = await browsing(() => fs.list(cleanPath(fields.path), { ...ask, foldersOnly: true }))
      return entries.map(({ name, modified }) => ({ name, modified: wireTime(modified) }))
    },
  }),
]

/** Where the bytes of a file are to be had: from the backend, else from us. */
async function rawUrl(
  door: Door,
  context: Context,
  fs: VirtualFs,
  path: Path,
  view: FolderView,
  sign: string,
  ask: Ask,
): Promise<string> {
  const { baseUrl } = door.clientOf(context.req)
  const link = await fs.link(path, ask)
  if (link !== undefined) return link.url.startsWith('/') ? baseUrl + link.url : link.url
  const query = isSigned(door.gateway, view) ? `?sign=${sign}` : ''
  return `${baseUrl}/p${encodePath(under(fs.principal.base, path))}${query}`
}

/** Siblings whose names start with that of the object without its extension; null for none. */
async function related(door: Door, fs: VirtualFs, path: Path, ask: Ask): Promise<FileObject[] | null> {
  const name = nameOf(path)
  const stem = name.replace(/(?<=.)\.[^.]*$/s, '')
  const parent = parentOf(path)
  try {
    const { entries, folder } = await fs.list(parent, { ...ask, startsWith: stem, limit: relatedLimit })
    const akin = entries.filter((entry) => entry.name !== name)
    return akin.length === 0 ? null : akin.map(objectsIn(door, fs, parent, folder))
  } catch (error) {
    // Who may see the object need not be able to list its folder.
    if (isGatewayError(error) && error.code !== 'internal') return null
    throw error
  }
}

/** Whoever is kept out while browsing is told the one text that makes clients ask for a folder's password. */
async function browsing<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (isGatewayError(error, 'denied') && error.reason !== 'Refresh without permission') {
      throw new WireError(403, closedText)
    }
    throw error
  }
}
