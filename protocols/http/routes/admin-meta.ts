/** Administration of folder rules, which the API calls metas. */
import { z } from 'zod'
import { cleanPath } from '../../../src/base/path.js'
import type { FolderRule } from '../../../src/tree/folder-rules.js'
import { withRowErrors, requireRow } from '../compat/admin-rows.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { malformedPath, relativePath } from '../api/refusals.js'
import { flag, integerValue, paging, requiredText, rowId, text } from '../api/fields.js'
import { pageOf } from '../api/paging.js'
import { pageData } from '../api/schemas.js'

const userIds = z
  .array(integerValue)
  .nullish()
  .transform((ids) => ids ?? [])
const metaFields = {
  path: requiredText.meta({ example: '/photos' }).describe('The path of the folder. A folder has at most one rule.'),
  password: text,
  p_sub: flag,
  write: flag.describe('Everyone may upload.'),
  w_sub: flag,
  hide: text
    .meta({ example: '^private$' })
    .describe('Regular expressions of names to hide, one per line. Each may match any part of the name.'),
  h_sub: flag,
  readme: text,
  r_sub: flag,
  header: text,
  header_sub: flag,
  read_users: userIds.describe('Ids of the users who may read. Empty: everyone.'),
  read_users_sub: flag,
  write_users: userIds.describe('Ids of the users who may write. Empty: everyone.'),
  write_users_sub: flag,
}

function ruleOf(fields: z.output<z.ZodObject<typeof metaFields>>): Omit<FolderRule, 'id'> {
  return {
    path: cleanPath(fields.path),
    password: fields.password,
    passwordSub: fields.p_sub,
    write: fields.write,
    writeSub: fields.w_sub,
    hide: fields.hide,
    hideSub: fields.h_sub,
    readme: fields.readme,
    readmeSub: fields.r_sub,
    header: fields.header,
    headerSub: fields.header_sub,
    readUsers: fields.read_users,
    readUsersSub: fields.read_users_sub,
    writeUsers: fields.write_users,
    writeUsersSub: fields.write_users_sub,
  }
}

const metaData = z
  .object({
    id: z.int(),
    path: z.string(),
    password: z.string(),
    p_sub: z
      .boolean()
      .describe('Whether the password also applies below the folder. The other `…_sub` fields work the same way.'),
    write: z.boolean(),
    w_sub: z.boolean(),
    hide: z.string(),
    h_sub: z.boolean(),
    readme: z.string(),
    r_sub: z.boolean(),
    header: z.string(),
    header_sub: z.boolean(),
    read_users: z.array(z.int()),
    read_users_sub: z.boolean(),
    write_users: z.array(z.int()),
    write_users_sub: z.boolean(),
  })
  .meta({ id: 'FolderRule' })

const unknownRule: Refusal = { code: 500, text: 'failed get old meta: record not found', error: 'record_missing' }
const ruleRefusals: readonly Refusal[] = [
  { code: 400, text: '… is illegal: …', error: 'invalid', when: 'a line of `hide` is not a valid regular expression' },
  { code: 400, text: '… is illegal: …', error: 'costly_pattern', when: 'the patterns of `hide` exceed a limit' },
  ...malformedPath,
  relativePath,
  { code: 500, text: 'this folder has a rule already', error: 'exists' },
]

export const adminMetaEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/admin/meta/list',
    tag: 'Folder rules',
    summary: 'List the folder rules',
    access: 'admin',
    fields: z.object(paging),
    data: pageData(metaData),
    answer({ api, fields }) {
      const all = api.gateway.rules.list()
      return { content: pageOf(all, fields).map(metaObject), total: all.length }
    },
  }),

  endpoint({
    method: 'get',
    path: '/api/admin/meta/get',
    tag: 'Folder rules',
    summary: 'Get a folder rule',
    access: 'admin',
    query: rowId,
    data: metaData,
    refusals: [unknownRule],
    answer({ api, query }) {
      const rule = api.gateway.rules.list().find(({ id }) => id === query.id)
      return metaObject(requireRow(rule, unknownRule))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/meta/create',
    tag: 'Folder rules',
    summary: 'Add a folder rule',
    access: 'admin',
    event: 'admin.rule',
    fields: z.object(metaFields),
    refusals: ruleRefusals,
    async answer({ api, fields }) {
      const rule = ruleOf(fields)
      await withRowErrors(unknownRule, () => api.gateway.rules.create(rule))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/meta/update',
    tag: 'Folder rules',
    summary: 'Replace a folder rule',
    access: 'admin',
    event: 'admin.rule',
    fields: z.object({ id: integerValue.meta({ example: 1 }), ...metaFields }),
    refusals: [...ruleRefusals, unknownRule],
    async answer({ api, fields }) {
      const rule = ruleOf(fields)
      await withRowErrors(unknownRule, () => api.gateway.rules.update(fields.id, rule))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/meta/delete',
    tag: 'Folder rules',
    summary: 'Delete a folder rule',
    access: 'admin',
    event: 'admin.rule',
    query: rowId,
    refusals: [unknownRule],
    async answer({ api, query }) {
      await withRowErrors(unknownRule, () => api.gateway.rules.delete(query.id))
    },
  }),
]

function metaObject(rule: FolderRule): z.input<typeof metaData> {
  return {
    id: rule.id,
    path: rule.path,
    password: rule.password,
    p_sub: rule.passwordSub,
    write: rule.write,
    w_sub: rule.writeSub,
    hide: rule.hide,
    h_sub: rule.hideSub,
    readme: rule.readme,
    r_sub: rule.readmeSub,
    header: rule.header,
    header_sub: rule.headerSub,
    read_users: [...rule.readUsers],
    read_users_sub: rule.readUsersSub,
    write_users: [...rule.writeUsers],
    write_users_sub: rule.writeUsersSub,
  }
}
