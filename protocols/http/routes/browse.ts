/** Looking at the tree: list, get, dirs. */
import { z } from 'zod'
import type { Ask } from '../../../src/change.js'
import type { Entry, Usage } from '../../../src/driver.js'
import { isGatewayError } from '../../../src/errors.js'
import { childOf, cleanPath, encodePath, nameOf, parentOf, root, under, type Path } from '../../../src/path.js'
import type { FolderView, VirtualFs } from '../../../src/virtual-fs.js'
import type { Door } from '../context.js'
import { endpoint } from '../endpoint.js'
import { closedText, WireError } from '../errors.js'
import { flag, paging, text } from '../fields.js'
import { treeHeaders } from '../folder-password.js'
import { LongList } from '../long-list.js'
import { mountDetails } from '../mount-details.js'
import { absoluteUrl, circumstancesOf, fileData, isSigned, objectsIn, wireTime, type FileObject } from '../object.js'
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
      const { baseUrl } = door.clientOf(context.req)
      const at = cleanPath(fields.path)
      const { entries, total, folder } = await browsing(() =>
        fs.list(at, {
          ...askOf(context, fields.password || headers.password),
          refresh: fields.refresh,
          ...sliceOf(fields),
        }),
      )
      const plain = objectsIn(door, fs, at, folder, baseUrl)
      const objectOf = await withMountDetails(door, fs, at, entries, plain)
      // How full a storage is changes all the time.
      const circumstances = objectOf === plain ? circumstancesOf(door, folder, baseUrl) : undefined
      const kept =
        circumstances === undefined
          ? undefined
          : door.writtenLists.of(under(principal.base, at), circumstances, entries)
      return {
        content: new LongList(entries.length, (from, to) => entries.slice(from, to).map(objectOf), kept),
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
      const { baseUrl } = door.clientOf(context.req)
      const at = cleanPath(fields.path)
      const ask = askOf(context, fields.password || headers.password)
      const { entry, folder } = await browsing(() => fs.view(at, ask))
      const name = at === root ? 'root' : nameOf(at)
      const object = objectsIn(door, fs, parentOf(at), folder, baseUrl)({ ...entry, name })
      const usage = object.is_dir ? (await mountUsages(door, fs, [at])).get(at) : undefined
      return {
        ...object,
        ...(usage && { mount_details: mountDetails(usage) }),
        raw_url: object.is_dir ? '' : await rawUrl(door, baseUrl, fs, at, folder, object.sign, ask),
        readme: folder.readme,
        header: folder.header,
        provider: folder.provider,
        related: at === root ? null : await related(door, baseUrl, fs, at, ask),
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

/** How full the storages are that are mounted there; guests are not told. */
async function mountUsages(door: Door, fs: VirtualFs, paths: readonly Path[]): Promise<ReadonlyMap<Path, Usage>> {
  const hidden = fs.principal.role === 'guest' || door.gateway.settings.bool('hide_storage_details')
  return hidden ? new Map<Path, Usage>() : fs.mountUsages(paths)
}

/** `objectOf`, which tells of folders that are mounts how full their storages are. */
async function withMountDetails(
  door: Door,
  fs: VirtualFs,
  folder: Path,
  entries: readonly Entry[],
  objectOf: (entry: Entry) => FileObject,
): Promise<(entry: Entry) => FileObject> {
  const folders = entries.filter(({ kind }) => kind === 'folder')
  const paths = folders.map(({ name }) => childOf(folder, name))
  const usages = await mountUsages(door, fs, paths)
  if (usages.size === 0) return objectOf
  return (entry) => {
    const usage = entry.kind === 'folder' ? usages.get(childOf(folder, entry.name)) : undefined
    return usage ? { ...objectOf(entry), mount_details: mountDetails(usage) } : objectOf(entry)
  }
}

/** Where the bytes of a file are to be had: from the backend, from the storage's own proxy, or from us. */
async function rawUrl(
  door: Door,
  baseUrl: string,
  fs: VirtualFs,
  path: Path,
  view: FolderView,
  sign: string,
  ask: Ask,
): Promise<string> {
  const delivery = await fs.delivery(path, { ...ask, route: 'raw_url' })
  if (delivery.kind !== 'stream') return absoluteUrl(baseUrl, delivery.url)
  const query = isSigned(door.gateway, view) ? `?sign=${sign}` : ''
  return `${baseUrl}/p${encodePath(under(fs.principal.base, path))}${query}`
}

/** Siblings whose names start with that of the object without its extension; null for none. */
async function related(door: Door, baseUrl: string, fs: VirtualFs, path: Path, ask: Ask): Promise<FileObject[] | null> {
  const name = nameOf(path)
  const stem = name.replace(/(?<=.)\.[^.]*$/s, '')
  const parent = parentOf(path)
  try {
    const { entries, folder } = await fs.list(parent, { ...ask, startsWith: stem, limit: relatedLimit })
    const akin = entries.filter((entry) => entry.name !== name)
    return akin.length === 0 ? null : akin.map(objectsIn(door, fs, parent, folder, baseUrl))
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
