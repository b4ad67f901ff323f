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
  newPath,
  parentOf,
  RelativePathError,
  root,
  type Path,
} from '../../../src/path.js'
import type { Principal } from '../../../src/principal.js'
import { transferRequest } from '../../../src/tasks/transfer-tasks.js'
import type { Task } from '../../../src/tasks/task.js'
import type { VirtualFs } from '../../../src/virtual-fs.js'
import { signalOf, type Context } from '../context.js'
import { endpoint, type Call, type Refusal } from '../endpoint.js'
import { WireError } from '../errors.js'
import { flag, text, texts } from '../fields.js'
import { treeHeaders } from '../folder-password.js'
import { changeRefusals, nameExists, pathRefusals, taskRefusals } from '../refusals.js'
import { taskData, taskObject } from '../task-object.js'

const transferFields = z.object({
  src_dir: text.meta({ example: '/folder' }),
  dst_dir: text.meta({ example: '/other' }),
  names: texts.meta({ example: ['file.txt'] }).describe('Of members of `src_dir`.'),
  overwrite: flag,
  skip_existing: flag.describe('Leave out what is there already.'),
  merge: flag.describe('Of `copy`: enter folders that are there already, and leave out files that are.'),
})
/** Null where everything is done; what takes its time goes on as tasks. */
const transferData = z.object({ message: z.string(), tasks: z.array(taskData) }).nullable()

const refusals: readonly Refusal[] = [...pathRefusals, ...changeRefusals]
const between =
  'Between two storages it is a task for each name, and the answer tells of them; within one it is done by then.'
const noNames: Refusal = { code: 400, text: 'Empty file names' }
const transferRefusals: readonly Refusal[] = [
  ...refusals,
  ...taskRefusals,
  noNames,
  nameExists,
  { code: 500, text: '… in place', when: 'source and target are the same' },
  { code: 500, text: 'the destination folder is a subfolder of the source folder' },
  { code: 500, text: 'failed to get dst dir: …', when: '`dst_dir` is no folder' },
]

export const changeEndpoints = [
  endpoint({
    method: 'post',
    path: '/api/fs/mkdir',
    tag: 'Files',
    summary: 'Make a folder, and those above it',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({ path: text.meta({ example: '/folder/new' }) }),
    refusals: [
      ...refusals,
      { code: 500, text: 'the root folder cannot be made' },
      { code: 500, text: 'file exists', when: 'there is a file of this name' },
    ],
    async answer({ context, door, fields, headers, principal }) {
      const path = newPath(fields.path)
      if (path === root) throw new WireError(500, 'the root folder cannot be made')
      try {
        await door.gateway.as(principal).mkdir(path, { ...askOf(context, headers.password), parents: true })
      } catch (error) {
        if (isGatewayError(error, 'exists')) throw new WireError(500, 'file exists')
        throw error
      }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/fs/rename',
    tag: 'Files',
    summary: 'Give a file or a folder another name',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({
      path: text.meta({ example: '/folder/old.txt' }),
      name: text.meta({ example: 'new.txt' }).describe('A single name, no path.'),
      overwrite: flag,
    }),
    refusals: [...refusals, nameExists],
    async answer({ context, door, fields: { path, name, overwrite }, headers, principal }) {
      const fs = door.gateway.as(principal)
      const from = cleanPath(path)
      if (from === root) throw new WireError(500, 'rename root folder is not allowed')
      const to = childOf(parentOf(from), checkName(name))
      const ask = askOf(context, headers.password)
      try {
        await namingConflict(name, () => fs.move(from, to, { ...ask, overwrite }))
      } catch (error) {
        // That the new name is taken comes before that there is nothing to rename.
        const isMissing = !overwrite && from !== to && isGatewayError(error, 'not_found')
        if (isMissing && (await existing(fs, to, ask))) throw nameTaken(name)
        throw error
      }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/fs/move',
    tag: 'Files',
    summary: 'Move members of one folder to another',
    access: 'guest',
    headers: treeHeaders,
    description: between,
    fields: transferFields,
    data: transferData,
    refusals: transferRefusals,
    answer: (call) => transfer(call, 'move'),
  }),

  endpoint({
    method: 'post',
    path: '/api/fs/copy',
    tag: 'Files',
    summary: 'Copy members of one folder to another',
    access: 'guest',
    headers: treeHeaders,
    description: between,
    fields: transferFields,
    data: transferData,
    refusals: transferRefusals,
    answer: (call) => transfer(call, 'copy'),
  }),

  endpoint({
    method: 'post',
    path: '/api/fs/remove',
    tag: 'Files',
    summary: 'Remove members of a folder, with all that is in them',
    description: 'What is not there counts as removed.',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({
      dir: text.meta({ example: '/folder' }),
      names: texts.meta({ example: ['file.txt'] }).describe('Of members of `dir`.'),
    }),
    refusals: [...refusals, noNames],
    async answer({ context, door, fields, headers, principal }) {
      const fs = door.gateway.as(principal)
      const dir = cleanPath(fields.dir)
      const names = singleNames(fields.names)
      const ask = askOf(context, headers.password)
      for (const name of names) {
        try {
          await fs.remove(childOf(dir, name), ask)
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
    door,
    fields,
    headers,
    principal,
  }: Call<z.output<typeof transferFields>, unknown, z.output<typeof treeHeaders>, Principal>,
  kind: 'move' | 'copy',
): Promise<z.input<typeof transferData>> {
  const fs = door.gateway.as(principal)
  const { overwrite, skip_existing: skipExisting } = fields
  const merge = fields.merge && kind === 'copy'
  const [from, to] = [cleanPath(fields.src_dir), cleanPath(fields.dst_dir)]
  const names = singleNames(fields.names)
  const ask = askOf(context, headers.password)
  await fs.assertMayChange(kind, from, ask)
  await assertTargetFolder(fs, to, ask)

  // Every name is checked before anything is done.
  const chosen: string[] = []
  for (const name of names) {
    const there = overwrite ? undefined : await existing(fs, childOf(to, name), ask)
    if (there === undefined) chosen.push(name)
    else if (merge && there.kind === 'folder') chosen.push(name)
    else if (!skipExisting && !merge) throw nameTaken(name)
  }
  const tasks: Task[] = []
  for (const name of chosen) {
    const [source, target] = [childOf(from, name), childOf(to, name)]
    if (source === target) throw new WireError(500, `${kind} in place`)
    if (isWithin(source, to)) {
      throw new WireError(500, 'the destination folder is a subfolder of the source folder')
    }
    const options = { overwrite, merge, password: ask.password }
    if (await fs.isBetweenStorages(kind, source, target, ask)) {
      const { mounts } = door.gateway
      // What nothing stands in the way of replaces nothing, also when it is taken up again half done.
      const replaces = overwrite && (await existing(fs, target, ask)) !== undefined
      const asked = { ...options, overwrite: replaces }
      const request = transferRequest(kind, principal, [source, target], asked, mounts)
      tasks.push(await door.gateway.tasks.add(principal, request))
    } else {
      await namingConflict(name, () => fs[kind](source, target, { ...ask, ...options }))
    }
  }
  if (tasks.length === 0) return null
  return { message: `Successfully created ${tasks.length} ${kind} task(s)`, tasks: tasks.map(taskObject) }
}

/** How the tree is asked: until the client has gone, with the password it brings along. */
export function askOf(context: Context, password: string | undefined): Ask {
  return { signal: signalOf(context.res), password }
}

/** Names of members of a folder: never a way out of it, nor the folder itself. */
function singleNames(names: readonly string[]): readonly string[] {
  if (names.length === 0) throw new WireError(noNames.code, noNames.text)
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
    throw isGatewayError(error, 'exists') ? nameTaken(name) : error
  }
}

function nameTaken(name: string): WireError {
  return new WireError(403, `file [${name}] exists`)
}
