/** Changes of the tree: mkdir, rename, move, copy, remove. */
import { z } from 'zod'
import type { Principal } from '../../../src/accounts/principal.js'
import { GatewayError, isGatewayError, nameTaken, TreeError, undefinedIfMissing } from '../../../src/base/errors.js'
import {
  checkMemberName,
  checkName,
  childOf,
  cleanPath,
  isWithin,
  nameOf,
  newPath,
  parentOf,
  root,
  type Path,
} from '../../../src/base/path.js'
import { Pauses } from '../../../src/base/pauses.js'
import { asVisitor } from '../../../src/shares/visitor-errors.js'
import type { Task } from '../../../src/tasks/task.js'
import type { AccessOptions } from '../../../src/tree/operation-options.js'
import type { VirtualFs } from '../../../src/tree/virtual-fs.js'
import { endpoint, type Call, type Refusal } from '../api/endpoint.js'
import { refused, withResponses } from '../api/errors.js'
import { flag, folderPath, requiredText, stringList } from '../api/fields.js'
import { accessOptions, treeHeaders } from '../api/access-options.js'
import {
  changeRefusals,
  nameExists,
  pathRefusals,
  coreRefusal,
  targetRefusals,
  taskRefusals,
  visitorChangeRefusals,
  visitorRefusals,
} from '../api/refusals.js'
import { isBelowShare } from '../../../src/shares/path-in-share.js'
import { openForVisitor } from '../api/visitors.js'
import { taskData, taskObject } from '../compat/task-object.js'

const transferFields = z.object({
  src_dir: folderPath.meta({ example: '/folder' }),
  dst_dir: folderPath.meta({ example: '/other' }),
  names: stringList.meta({ example: ['file.txt'] }).describe('Names of entries of `src_dir`.'),
  overwrite: flag,
  skip_existing: flag.describe('Skip names that exist in `dst_dir`.'),
  merge: flag.describe('Only for `copy`: merge into existing folders, and skip existing files.'),
})
/** The tasks of the transfer; null if it is complete. */
const transferData = z.object({ message: z.string(), tasks: z.array(taskData) }).nullable()

const refusals: readonly Refusal[] = [...pathRefusals, ...changeRefusals]
const transferDescription =
  'Between two storages, a task is created for each name, and the response lists the tasks. Within one storage, ' +
  'the operation is complete when the response is sent.'
const fileInTheWay: Refusal = { ...coreRefusal('exists', {}, 'the path is that of a file'), code: 500 }
const noNames: Refusal = { code: 400, text: 'Empty file names', error: 'invalid' }
const transferRefusals: readonly Refusal[] = [
  ...refusals,
  ...taskRefusals,
  noNames,
  nameExists,
  coreRefusal('invalid', { detail: 'in_place' }, 'source and target are the same'),
  coreRefusal('invalid', { detail: 'into_itself' }),
  ...targetRefusals,
]

export const changeEndpoints = [
  endpoint({
    method: 'post',
    path: '/api/fs/mkdir',
    tag: 'Files',
    summary: 'Create a folder and its missing parents',
    description: 'Visitors of a share make one below `/@s/ID`, if the share is one to read and upload to.',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({ path: requiredText.meta({ example: '/folder/new' }) }),
    refusals: [
      ...refusals,
      ...visitorRefusals,
      ...visitorChangeRefusals,
      coreRefusal('exists', { detail: 'root_made' }),
      fileInTheWay,
    ],
    visitors: {
      are: ({ fields }) => isBelowShare(fields.path),
      async answer({ context, api, fields, headers }) {
        const asked = newPath(fields.path)
        const { share, at } = await openForVisitor(api, context, asked, headers.password)
        const { signal } = accessOptions(context, undefined)
        await withResponses({ exists: fileInTheWay }, () => asVisitor(() => share.mkdir(at, { signal })))
      },
    },
    async answer({ context, api, fields, headers, principal }) {
      const path = newPath(fields.path)
      if (path === root) throw new GatewayError('exists', { detail: 'root_made' })
      await withResponses({ exists: fileInTheWay }, () =>
        api.gateway.as(principal).mkdir(path, { ...accessOptions(context, headers.password), parents: true }),
      )
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/fs/rename',
    tag: 'Files',
    summary: 'Rename a file or folder',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({
      path: requiredText.meta({ example: '/folder/old.txt' }),
      name: z.string().meta({ example: 'new.txt' }).describe('The new name, not a path.'),
      overwrite: flag,
    }),
    refusals: [...refusals, nameExists],
    async answer({ context, api, fields: { path, name, overwrite }, headers, principal }) {
      const fs = api.gateway.as(principal)
      const from = cleanPath(path)
      if (from === root) throw new GatewayError('denied', { detail: 'mount_renamed' })
      const to = childOf(parentOf(from), checkName(name))
      const access = accessOptions(context, headers.password)
      try {
        await withConflictName(to, () => fs.move(from, to, { ...access, overwrite }))
      } catch (error) {
        // An existing target takes precedence over a missing source.
        const isMissing =
          !overwrite && from !== to && isGatewayError(error, 'not_found') && !(error instanceof TreeError)
        if (isMissing && (await undefinedIfMissing(fs.stat(to, access)))) throw nameTaken(name)
        throw error
      }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/fs/move',
    tag: 'Files',
    summary: 'Move entries of one folder to another',
    access: 'guest',
    headers: treeHeaders,
    description: transferDescription,
    fields: transferFields,
    data: transferData,
    refusals: transferRefusals,
    answer: (call) => transfer(call, 'move'),
  }),

  endpoint({
    method: 'post',
    path: '/api/fs/copy',
    tag: 'Files',
    summary: 'Copy entries of one folder to another',
    access: 'guest',
    headers: treeHeaders,
    description: transferDescription,
    fields: transferFields,
    data: transferData,
    refusals: transferRefusals,
    answer: (call) => transfer(call, 'copy'),
  }),

  endpoint({
    method: 'post',
    path: '/api/fs/remove',
    tag: 'Files',
    summary: 'Delete entries of a folder, recursively',
    description: 'Ignores names that do not exist.',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({
      dir: folderPath.meta({ example: '/folder' }),
      names: stringList.meta({ example: ['file.txt'] }).describe('Names of entries of `dir`.'),
    }),
    refusals: [...refusals, noNames],
    async answer({ context, api, fields, headers, principal }) {
      const fs = api.gateway.as(principal)
      const dir = cleanPath(fields.dir)
      const names = checkNames(fields.names)
      const access = accessOptions(context, headers.password)
      const pauses = new Pauses(access.signal)
      for (const name of names) {
        await pauses.take()
        try {
          await fs.remove(childOf(dir, name), access)
        } catch (error) {
          if (!isGatewayError(error, 'not_found')) throw error
        }
      }
    },
  }),
]

async function transfer(
  {
    context,
    api,
    fields,
    headers,
    principal,
  }: Call<z.output<typeof transferFields>, unknown, z.output<typeof treeHeaders>, Principal>,
  kind: 'move' | 'copy',
): Promise<z.input<typeof transferData>> {
  const fs = api.gateway.as(principal)
  const { overwrite, skip_existing: skipExisting } = fields
  const merge = fields.merge && kind === 'copy'
  const [from, to] = [cleanPath(fields.src_dir), cleanPath(fields.dst_dir)]
  const names = checkNames(fields.names)
  const access = accessOptions(context, headers.password)
  await fs.assertMayChange(kind, from, access)
  await assertTargetFolder(fs, to, access)

  // Check every name before the first change.
  const selected: string[] = []
  const pauses = new Pauses(access.signal)
  for (const name of names) {
    await pauses.take()
    const [source, target] = [childOf(from, name), childOf(to, name)]
    const targetEntry = overwrite ? undefined : await undefinedIfMissing(fs.stat(target, access))
    if (targetEntry !== undefined && !(merge && targetEntry.kind === 'folder')) {
      if (!skipExisting && !merge) throw nameTaken(name)
      continue
    }
    if (source === target) throw new GatewayError('invalid', { detail: 'in_place', subject: kind })
    if (isWithin(source, to)) throw new GatewayError('invalid', { detail: 'into_itself' })
    selected.push(name)
  }
  const tasks: Task[] = []
  for (const name of selected) {
    await pauses.take()
    const [source, target] = [childOf(from, name), childOf(to, name)]
    const options = { overwrite, merge, password: access.password }
    if (await fs.isBetweenStorages(kind, source, target, access)) {
      // Without an existing target the task must not overwrite, not even when it resumes after an interruption.
      const replaces = overwrite && (await undefinedIfMissing(fs.stat(target, access))) !== undefined
      const taskOptions = { ...options, overwrite: replaces }
      tasks.push(await api.gateway.submitTransfer(principal, kind, [source, target], taskOptions))
    } else {
      await withConflictName(target, () => fs[kind](source, target, { ...access, ...options }))
    }
  }
  if (tasks.length === 0) return null
  return { message: `Successfully created ${tasks.length} ${kind} task(s)`, tasks: tasks.map(taskObject) }
}

/** Returns the names, each once. Throws if there are none, or as `checkMemberName`. */
function checkNames(names: readonly string[]): readonly string[] {
  if (names.length === 0) throw refused(noNames)
  names.forEach(checkMemberName)
  return [...new Set(names)]
}

/** Rejects with `not_found` or `not_folder` if `path` is not an existing folder. */
export async function assertTargetFolder(fs: VirtualFs, path: Path, access: AccessOptions): Promise<void> {
  const entry = await undefinedIfMissing(fs.stat(path, access))
  if (entry === undefined) throw new GatewayError('not_found', { detail: 'target_missing' })
  if (entry.kind !== 'folder') throw new GatewayError('not_folder', { detail: 'target_not_folder' })
}

/**
 * Maps `exists` to `file [name] exists`, with the name of the first entry that exists: the target or a member of it.
 */
async function withConflictName<T>(target: Path, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!isGatewayError(error, 'exists')) throw error
    throw nameTaken(nameOf(error instanceof TreeError ? error.failures[0].path : target), error)
  }
}
