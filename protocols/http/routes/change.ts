/** Changing the tree: mkdir, rename, move, copy, remove. */
import { z } from 'zod'
import type { Ask } from '../../../src/change.js'
import type { Entry } from '../../../src/driver.js'
import { GatewayError, isGatewayError } from '../../../src/errors.js'
import {
  checkName,
  childOf,
  cleanPath,
  isWithin,
  parentOf,
  RelativePathError,
  root,
  type Path,
} from '../../../src/path.js'
import type { VirtualFs } from '../../../src/virtual-fs.js'
import { treeOf } from '../authenticate.js'
import { signalOf, type Context, type Door, type Routes } from '../context.js'
import { success } from '../envelope.js'
import { WireError } from '../errors.js'
import { flag, parseFields, readFields, text, texts } from '../fields.js'
import { folderPassword } from '../folder-password.js'

const mkdirFields = z.object({ path: text })
const renameFields = z.object({ path: text, name: text, overwrite: flag })
const removeFields = z.object({ dir: text, names: texts })
const transferFields = z.object({
  src_dir: text,
  dst_dir: text,
  names: texts,
  overwrite: flag,
  skip_existing: flag,
  merge: flag,
})

export function changeRoutes(routes: Routes, door: Door): void {
  routes.post('/api/fs/mkdir', readFields(), async (ctx) => {
    const fs = await treeOf(door, ctx.req)
    const path = cleanPath(parseFields(ctx, mkdirFields).path)
    if (path === root) throw new WireError(500, 'the root folder cannot be made')
    try {
      await fs.mkdir(path, { ...askOf(ctx), parents: true })
    } catch (error) {
      if (isGatewayError(error, 'exists')) throw new WireError(500, 'file exists')
      throw error
    }
    ctx.body = success()
  })

  routes.post('/api/fs/rename', readFields(), async (ctx) => {
    const fs = await treeOf(door, ctx.req)
    const { path: asked, name, overwrite } = parseFields(ctx, renameFields)
    const from = cleanPath(asked)
    if (from === root) throw new WireError(500, 'rename root folder is not allowed')
    const to = childOf(parentOf(from), checkName(name))
    await namingConflict(name, () => fs.move(from, to, { ...askOf(ctx), overwrite }))
    ctx.body = success()
  })

  routes.post('/api/fs/move', readFields(), (ctx) => transfer(ctx, 'move'))
  routes.post('/api/fs/copy', readFields(), (ctx) => transfer(ctx, 'copy'))

  async function transfer(ctx: Context, kind: 'move' | 'copy'): Promise<void> {
    const fs = await treeOf(door, ctx.req)
    const fields = parseFields(ctx, transferFields)
    const { overwrite, skip_existing: skipExisting } = fields
    const merge = fields.merge && kind === 'copy'
    const [from, to] = [cleanPath(fields.src_dir), cleanPath(fields.dst_dir)]
    const names = singleNames(fields.names)
    const ask = askOf(ctx)
    await assertTargetFolder(fs, to, ask)

    // Every name is checked before anything is done.
    const chosen: string[] = []
    for (const name of names) {
      const there = overwrite ? undefined : await existing(fs, childOf(to, name), ask)
      if (there === undefined) chosen.push(name)
      else if (merge && there.kind === 'folder') chosen.push(name)
      else if (!skipExisting && !merge) throw new WireError(403, `file [${name}] exists`)
    }
    for (const name of chosen) {
      const [source, target] = [childOf(from, name), childOf(to, name)]
      if (source === target) throw new WireError(500, `${kind} in place`)
      if (isWithin(source, to)) {
        throw new WireError(500, 'the destination folder is a subfolder of the source folder')
      }
      const job = { ...ask, overwrite, merge }
      await namingConflict(name, () => (kind === 'move' ? fs.move(source, target, job) : fs.copy(source, target, job)))
    }
    ctx.body = success()
  }

  routes.post('/api/fs/remove', readFields(), async (ctx) => {
    const fs = await treeOf(door, ctx.req)
    const { dir: asked, names: askedNames } = parseFields(ctx, removeFields)
    const dir = cleanPath(asked)
    const names = singleNames(askedNames)
    const ask = askOf(ctx)
    for (const name of names) {
      try {
        await fs.remove(childOf(dir, name), ask)
      } catch (error) {
        if (!isGatewayError(error, 'not_found')) throw error
      }
    }
    ctx.body = success()
  })
}

export function askOf(ctx: Context): Ask {
  return { signal: signalOf(ctx.res), password: folderPassword(ctx.req) }
}

/** Names of members of a folder: never a way out of it, nor the folder itself. */
function singleNames(names: readonly string[]): readonly string[] {
  if (names.length === 0) throw new WireError(400, 'Empty file names')
  for (const name of names) {
    if (name === '' || name === '.' || name === '..' || /[/\\]/.test(name)) throw new RelativePathError()
    if (name.includes('\0')) throw new GatewayError('invalid', { reason: 'a name cannot hold a NUL character' })
  }
  return names
}

export async function assertTargetFolder(fs: VirtualFs, path: Path, ask: Ask): Promise<void> {
  const entry = await existing(fs, path, ask)
  if (entry === undefined) throw new WireError(500, 'failed to get dst dir: failed to get obj: object not found')
  if (entry.kind !== 'folder') throw new WireError(500, 'failed to get dst dir: not a folder')
}

async function existing(fs: VirtualFs, path: Path, ask: Ask): Promise<Entry | undefined> {
  try {
    return await fs.stat(path, ask)
  } catch (error) {
    if (isGatewayError(error, 'not_found')) return undefined
    throw error
  }
}

async function namingConflict<T>(name: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (isGatewayError(error, 'exists')) throw new WireError(403, `file [${name}] exists`)
    throw error
  }
}
