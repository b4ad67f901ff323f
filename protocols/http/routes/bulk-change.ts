/** Bulk changes: batch rename, regex rename, recursive move, removal of empty folders. */
import { z } from 'zod'
import { cleanPath, type Path } from '../../../src/base/path.js'
import {
  gatherFiles,
  removeEmptyFolders,
  renameEach,
  renameMembers,
  compileRenaming,
} from '../../../src/tree/bulk-operations.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { withResponses } from '../api/errors.js'
import { folderPath, requiredText, text } from '../api/fields.js'
import { treeHeaders } from '../api/access-options.js'
import { changeRefusals, nameExists, pathRefusals, targetRefusals, taskRefusals } from '../api/refusals.js'
import { assertTargetFolder } from './change.js'
import { accessOptions } from '../api/access-options.js'

/** A folder path that is not empty, because these operations change everything below it. */
const requiredFolder = requiredText.meta({ example: '/folder' })

const refusals: readonly Refusal[] = [...pathRefusals, ...changeRefusals]
const tooMany: Refusal = {
  code: 413,
  text: 'too many files for one request',
  error: 'too_large',
  when: 'there are more than 200,000',
}

export const bulkChangeEndpoints = [
  endpoint({
    method: 'post',
    path: '/api/fs/batch_rename',
    tag: 'Files',
    summary: 'Rename entries of a folder, in order',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({
      src_dir: folderPath.meta({ example: '/folder' }),
      rename_objects: z
        .array(z.object({ src_name: text, new_name: text }).meta({ id: 'Renaming' }))
        .nullish()
        .transform((objects) => objects ?? [])
        .meta({ example: [{ src_name: 'old.txt', new_name: 'new.txt' }] })
        .describe('Items with an empty name are ignored.'),
    }),
    refusals: [...refusals, nameExists],
    async answer({ context, api, fields, headers, principal }) {
      const renamings = fields.rename_objects
        .map(({ src_name: from, new_name: to }) => ({ from, to }))
        .filter(({ from, to }) => from !== '' && to !== '')
      await renameMembers(
        api.gateway.as(principal),
        cleanPath(fields.src_dir),
        renamings,
        accessOptions(context, headers.password),
      )
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/fs/regex_rename',
    tag: 'Files',
    summary: 'Rename entries of a folder that match a pattern',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({
      src_dir: folderPath.meta({ example: '/folder' }),
      src_name_regex: requiredText
        .meta({ example: '^IMG_(.*)' })
        .describe('A regular expression in RE2 syntax. Every match in a name is replaced.'),
      new_name_regex: text
        .meta({ example: 'photo $1' })
        .describe('`$1` and `${name}` insert groups, `$$` inserts a dollar sign.'),
    }),
    refusals: [
      ...refusals,
      nameExists,
      tooMany,
      { code: 500, text: '… is illegal: …', error: 'invalid', when: 'the pattern is invalid' },
      { code: 500, text: '… is illegal: …', error: 'costly_pattern', when: 'the pattern exceeds a limit' },
      { code: 500, text: 'patterns and replacements have … characters at most', error: 'invalid' },
      {
        code: 400,
        text: '… takes too long on a text of this length',
        error: 'costly_pattern',
        when: 'matching the pattern against a name takes too long',
      },
    ],
    async answer({ context, api, fields, headers, principal }) {
      const { src_name_regex: pattern, new_name_regex: replacement } = fields
      const folder = cleanPath(fields.src_dir)
      const [fs, options] = [api.gateway.as(principal), accessOptions(context, headers.password)]
      // Compiling a pattern takes milliseconds.
      await fs.assertMayChange('rename', folder, options)
      const renaming = await withResponses({ invalid: { code: 500 } }, () => compileRenaming(pattern, replacement))
      const rename = () => renameEach(fs, folder, renaming, options)
      await api.bulkChanges.run(principal.holder, rename, options.signal)
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/fs/recursive_move',
    tag: 'Files',
    summary: 'Move all files below a folder directly into another one',
    description:
      'The `message` contains the number of moved files. Between two storages, a task is created for each file.',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({
      src_dir: requiredFolder,
      dst_dir: requiredFolder.meta({ example: '/other' }),
      // Absent and unknown values must not overwrite files.
      conflict_policy: text
        .transform((policy) => (policy === 'skip' || policy === 'overwrite' ? policy : 'cancel'))
        .describe('`skip` or `overwrite`. Any other value: if a name exists already, nothing is moved.'),
    }),
    refusals: [...refusals, ...taskRefusals, nameExists, tooMany, ...targetRefusals],
    async answer({ context, api, fields, headers, principal }) {
      const fs = api.gateway.as(principal)
      const [from, to] = [cleanPath(fields.src_dir), cleanPath(fields.dst_dir)]
      const access = accessOptions(context, headers.password)
      await fs.assertMayChange('move', from, access)
      await assertTargetFolder(fs, to, access)
      const move = async (source: Path, target: Path, overwrite: boolean) => {
        if (!(await fs.isBetweenStorages('move', source, target, access))) {
          return fs.move(source, target, { ...access, overwrite })
        }
        const options = { overwrite, merge: false, password: access.password }
        return api.gateway.submitTransfer(principal, 'move', [source, target], options)
      }
      const gather = () => gatherFiles(fs, from, to, fields.conflict_policy, access, move)
      const count = await api.bulkChanges.run(principal.holder, gather, access.signal)
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
    fields: z.object({ src_dir: requiredFolder }),
    refusals,
    async answer({ context, api, fields, headers, principal }) {
      const [fs, options] = [api.gateway.as(principal), accessOptions(context, headers.password)]
      const remove = () => removeEmptyFolders(fs, cleanPath(fields.src_dir), options)
      await api.bulkChanges.run(principal.holder, remove, options.signal)
    },
  }),
]
