/** Looking at the tree: list, get, dirs. */
import { z } from 'zod'
import type { Ask } from '../../../src/change.js'
import { isGatewayError } from '../../../src/errors.js'
import { cleanPath, nameOf, parentOf, root, under, type Path } from '../../../src/path.js'
import type { FolderView, VirtualFs } from '../../../src/virtual-fs.js'
import { principalOf, treeOf } from '../authenticate.js'
import { signalOf, type Context, type Door, type Routes } from '../context.js'
import { success } from '../envelope.js'
import { closedText, WireError } from '../errors.js'
import { flag, paging, parseFields, readFields, text } from '../fields.js'
import { folderPassword } from '../folder-password.js'
import { encodePath, isSigned, objectsIn, wireTime, type FileObject } from '../object.js'
import { sliceOf } from '../paging.js'

const listFields = z.object({ path: text, password: text, refresh: flag, ...paging })
const getFields = z.object({ path: text, password: text })
const dirsFields = z.object({ path: text, password: text, force_root: flag })

/** Subtitles and lyrics of one film are few; a folder full of like names is not shown twice. */
const relatedLimit = 100

export function browseRoutes(routes: Routes, door: Door): void {
  routes.all('/api/fs/list', readFields(), async (ctx) => {
    const fs = await treeOf(door, ctx.req)
    const { path: asked, password, refresh, ...page } = parseFields(ctx, listFields)
    const path = cleanPath(asked)
    const { entries, total, folder } = await browsing(() =>
      fs.list(path, { ...askOf(ctx, password), refresh, ...sliceOf(page) }),
    )
    ctx.body = success({
      content: entries.map(objectsIn(door, fs, path, folder)),
      total,
      readme: folder.readme,
      header: folder.header,
      write: folder.write,
      write_content_bypass: folder.writeByRule,
      provider: folder.provider,
    })
  })

  routes.all('/api/fs/get', readFields(), async (ctx) => {
    const fs = await treeOf(door, ctx.req)
    const { path: asked, password } = parseFields(ctx, getFields)
    const path = cleanPath(asked)
    const ask = askOf(ctx, password)
    const { entry, folder } = await browsing(() => fs.view(path, ask))
    const name = path === root ? 'root' : nameOf(path)
    const object = objectsIn(door, fs, parentOf(path), folder)({ ...entry, name })
    ctx.body = success({
      ...object,
      raw_url: object.is_dir ? '' : await rawUrl(ctx, fs, path, folder, object.sign, ask),
      readme: folder.readme,
      header: folder.header,
      provider: folder.provider,
      related: path === root ? null : await related(fs, path, ask),
    })
  })

  routes.all('/api/fs/dirs', readFields(), async (ctx) => {
    const principal = await principalOf(door, ctx.req)
    const { path, password, force_root: forceRoot } = parseFields(ctx, dirsFields)
    if (forceRoot && principal.role !== 'admin') throw new WireError(403, 'Permission denied')
    const fs = door.gateway.as(forceRoot ? { ...principal, base: root } : principal)
    const { entries } = await browsing(() => fs.list(cleanPath(path), { ...askOf(ctx, password), foldersOnly: true }))
    ctx.body = success(entries.map(({ name, modified }) => ({ name, modified: wireTime(modified) })))
  })

  /** Where the bytes of a file are to be had: from the backend, else from us. */
  async function rawUrl(ctx: Context, fs: VirtualFs, path: Path, view: FolderView, sign: string, ask: Ask) {
    const { baseUrl } = door.clientOf(ctx.req)
    const link = await fs.link(path, ask)
    if (link !== undefined) return link.url.startsWith('/') ? baseUrl + link.url : link.url
    const query = isSigned(door.gateway, view) ? `?sign=${sign}` : ''
    return `${baseUrl}/p${encodePath(under(fs.principal.base, path))}${query}`
  }

  /** Siblings whose names start with that of the object without its extension; null for none. */
  async function related(fs: VirtualFs, path: Path, ask: Ask): Promise<FileObject[] | null> {
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
}

function askOf(ctx: Context, password: string): Ask {
  return { signal: signalOf(ctx.res), password: password === '' ? folderPassword(ctx.req) : password }
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
