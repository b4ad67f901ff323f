/** Changes of many things in one request: renaming by list or pattern, flattening, clearing out. */
import { z } from 'zod'
import { isGatewayError } from '../../../src/errors.js'
import { cleanPath } from '../../../src/path.js'
import { compileRenaming } from '../../../src/renaming.js'
import { gatherFiles, removeEmptyFolders, renameEach, renameMembers } from '../../../src/tree-changes.js'
import { treeOf } from '../authenticate.js'
import type { Door, Routes } from '../context.js'
import { success } from '../envelope.js'
import { WireError } from '../errors.js'
import { parseFields, readFields, text } from '../fields.js'
import { askOf, assertTargetFolder } from './change.js'

const batchFields = z.object({
  src_dir: text,
  rename_objects: z
    .array(z.object({ src_name: text, new_name: text }))
    .nullish()
    .transform((objects) => objects ?? []),
})
/** A folder that must be named: work on a whole tree does not begin at the root because a field was left out. */
const folder = text.refine((path) => path !== '', 'must not be empty')
const regexFields = z.object({ src_dir: text, src_name_regex: text, new_name_regex: text })
const gatherFields = z.object({
  src_dir: folder,
  dst_dir: folder,
  // Whatever else a client says, or nothing, must not cost a file.
  conflict_policy: text.transform((policy) => (policy === 'skip' || policy === 'overwrite' ? policy : 'cancel')),
})
const clearFields = z.object({ src_dir: folder })

export function bulkChangeRoutes(routes: Routes, door: Door): void {
  routes.post('/api/fs/batch_rename', readFields(), async (ctx) => {
    const fs = await treeOf(door, ctx.req)
    const { src_dir: folder, rename_objects: objects } = parseFields(ctx, batchFields)
    const renamings = objects
      .map(({ src_name: from, new_name: to }) => ({ from, to }))
      .filter(({ from, to }) => from !== '' && to !== '')
    await renameMembers(fs, cleanPath(folder), renamings, askOf(ctx))
    ctx.body = success()
  })

  routes.post('/api/fs/regex_rename', readFields(), async (ctx) => {
    const fs = await treeOf(door, ctx.req)
    const { src_dir: folder, src_name_regex: pattern, new_name_regex: replacement } = parseFields(ctx, regexFields)
    if (pattern === '') throw new WireError(400, 'src_name_regex: must not be empty')
    await renameEach(fs, cleanPath(folder), compiled(pattern, replacement), askOf(ctx))
    ctx.body = success()
  })

  routes.post('/api/fs/recursive_move', readFields(), async (ctx) => {
    const fs = await treeOf(door, ctx.req)
    const { src_dir: source, dst_dir: target, conflict_policy: policy } = parseFields(ctx, gatherFields)
    const [from, to] = [cleanPath(source), cleanPath(target)]
    const ask = askOf(ctx)
    await fs.assertMayChange('move', from, ask)
    await assertTargetFolder(fs, to, ask)
    const count = await gatherFiles(fs, from, to, policy, ask)
    ctx.body = success(null, `Successfully moved ${count} ${count === 1 ? 'file' : 'files'}`)
  })

  routes.post('/api/fs/remove_empty_directory', readFields(), async (ctx) => {
    const fs = await treeOf(door, ctx.req)
    await removeEmptyFolders(fs, cleanPath(parseFields(ctx, clearFields).src_dir), askOf(ctx))
    ctx.body = success()
  })
}

function compiled(pattern: string, replacement: string): ReturnType<typeof compileRenaming> {
  try {
    return compileRenaming(pattern, replacement)
  } catch (error) {
    if (isGatewayError(error, 'invalid')) throw new WireError(500, error.reason)
    throw error
  }
}
