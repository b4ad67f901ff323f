/** Changes of many things in one request: renaming by list or pattern, flattening, clearing out. */
import { z } from 'zod'
import { isGatewayError } from '../../../src/errors.js'
import { cleanPath } from '../../../src/path.js'
import { compileRenaming } from '../../../src/renaming.js'
import { transferRequest } from '../../../src/tasks/transfer-tasks.js'
import { gatherFiles, removeEmptyFolders, renameEach, renameMembers } from '../../../src/tree-changes.js'
import { endpoint, type Refusal } from '../endpoint.js'
import { WireError } from '../errors.js'
import { text } from '../fields.js'
import { treeHeaders } from '../folder-password.js'
import { changeRefusals, nameExists, pathRefusals, taskRefusals } from '../refusals.js'
import { askOf, assertTargetFolder } from './change.js'

/** A folder that must be named: work on a whole tree does not begin at the root because a field was left out. */
const namedFolder = text.refine((path) => path !== '', 'must not be empty').meta({ example: '/folder' })

const refusals: readonly Refusal[] = [...pathRefusals, ...changeRefusals]

export const bulkChangeEndpoints = [
  endpoint({
    method: 'post',
    path: '/api/fs/batch_rename',
    tag: 'Files',
    summary: 'Rename members of a folder, one after the other',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({
      src_dir: text.meta({ example: '/folder' }),
      rename_objects: z
        .array(z.object({ src_name: text, new_name: text }))
        .nullish()
        .transform((objects) => objects ?? [])
        .meta({ example: [{ src_name: 'old.txt', new_name: 'new.txt' }] })
        .describe('Those with an empty side are passed over.'),
    }),
    refusals: [...refusals, nameExists],
    async answer({ context, door, fields, headers, principal }) {
      const renamings = fields.rename_objects
        .map(({ src_name: from, new_name: to }) => ({ from, to }))
        .filter(({ from, to }) => from !== '' && to !== '')
      await renameMembers(
        door.gateway.as(principal),
        cleanPath(fields.src_dir),
        renamings,
        askOf(context, headers.password),
      )
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/fs/regex_rename',
    tag: 'Files',
    summary: 'Rename those members of a folder whose names match a pattern',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({
      src_dir: text.meta({ example: '/folder' }),
      src_name_regex: text.meta({ example: '^IMG_(.*)' }).describe('RE2. Every match in a name is replaced.'),
      new_name_regex: text
        .meta({ example: 'photo $1' })
        .describe('`$1` and `${name}` stand for groups, `$$` for a dollar.'),
    }),
    refusals: [
      ...refusals,
      nameExists,
      { code: 500, text: '… is illegal: …', when: 'the pattern is none' },
      { code: 500, text: 'patterns and replacements have … characters at most' },
      { code: 400, text: '… takes too long on a text of this length', when: 'the pattern takes too long on a name' },
    ],
    async answer({ context, door, fields, headers, principal }) {
      const { src_name_regex: pattern, new_name_regex: replacement } = fields
      if (pattern === '') throw new WireError(400, 'src_name_regex: must not be empty')
      const folder = cleanPath(fields.src_dir)
      const renaming = compiled(pattern, replacement)
      await renameEach(door.gateway.as(principal), folder, renaming, askOf(context, headers.password))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/fs/recursive_move',
    tag: 'Files',
    summary: 'Move all files below a folder right into another one',
    description: 'The `message` says how many were moved. Between two storages each of them is a task.',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({
      src_dir: namedFolder,
      dst_dir: namedFolder.meta({ example: '/other' }),
      // Whatever else a client says, or nothing, must not cost a file.
      conflict_policy: text
        .transform((policy) => (policy === 'skip' || policy === 'overwrite' ? policy : 'cancel'))
        .describe('`skip`, `overwrite`; anything else: nothing is moved where two names are the same.'),
    }),
    refusals: [
      ...refusals,
      ...taskRefusals,
      nameExists,
      { code: 500, text: 'failed to get dst dir: …', when: '`dst_dir` is no folder' },
    ],
    async answer({ context, door, fields, headers, principal }) {
      const fs = door.gateway.as(principal)
      const [from, to] = [cleanPath(fields.src_dir), cleanPath(fields.dst_dir)]
      const ask = askOf(context, headers.password)
      await fs.assertMayChange('move', from, ask)
      await assertTargetFolder(fs, to, ask)
      const { mounts, tasks } = door.gateway
      const count = await gatherFiles(fs, from, to, fields.conflict_policy, ask, async (source, target, overwrite) => {
        if (!(await fs.isBetweenStorages('move', source, target, ask))) {
          return fs.move(source, target, { ...ask, overwrite })
        }
        const options = { overwrite, merge: false, password: ask.password }
        return tasks.add(principal, transferRequest('move', principal, [source, target], options, mounts))
      })
      context.state.message = `Successfully moved ${count} ${count === 1 ? 'file' : 'files'}`
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/fs/remove_empty_directory',
    tag: 'Files',
    summary: 'Remove the empty folders below a folder',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({ src_dir: namedFolder }),
    refusals,
    async answer({ context, door, fields, headers, principal }) {
      await removeEmptyFolders(door.gateway.as(principal), cleanPath(fields.src_dir), askOf(context, headers.password))
    },
  }),
]

function compiled(pattern: string, replacement: string): ReturnType<typeof compileRenaming> {
  try {
    return compileRenaming(pattern, replacement)
  } catch (error) {
    if (isGatewayError(error, 'invalid')) throw new WireError(500, error.reason)
    throw error
  }
}
