/** Administration of groups. An extension of this gateway, described in docs/api.md. */
import { z } from 'zod'
import type { Group } from '../../../src/accounts/groups.js'
import type { Grant } from '../../../src/tree/grants.js'
import { requireRow } from '../compat/admin-rows.js'
import { permissionMask } from '../compat/permissions.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { withResponses } from '../api/errors.js'
import {
  flag,
  flagValue,
  integer,
  integerValue,
  optionalField,
  paging,
  requiredText,
  rowId,
  text,
} from '../api/fields.js'
import { grantData, grantList, grantObject, grantRefusals } from '../api/grant-fields.js'
import { pageOf } from '../api/paging.js'
import { guestAdmin } from '../api/refusals.js'
import { pageData } from '../api/schemas.js'

const name = requiredText.meta({ example: 'sales' }).describe('Unique, at most 255 bytes.')
const permission = 'A bit mask of permissions, which its members have besides their own.'
const admin = 'Whether its members are admins.'
const requireTwoStep = 'Whether its members must set up two-step verification before all else.'
const requireProvider = 'Whether its members sign in at a provider or directory only.'
const members = z
  .array(integerValue, { error: 'must be a list of ids' })
  .nullish()
  .meta({ example: [3] })
  .describe('The ids of its users.')

const groupData = z
  .object({
    id: z.int(),
    name: z.string(),
    description: z.string(),
    permission: permissionMask,
    admin: z.boolean().describe(admin),
    require_two_step: z.boolean().describe(requireTwoStep),
    require_provider: z.boolean().describe(requireProvider),
    members: z.array(z.int()).describe('The ids of its users.'),
    grants: z.array(grantData),
  })
  .meta({ id: 'Group' })

function groupObject(
  { members, requireTwoStep, requireProvider, providedAdmins: _, ...row }: Group,
  grants: readonly Grant[],
): z.input<typeof groupData> {
  const required = { require_two_step: requireTwoStep, require_provider: requireProvider }
  return { ...row, ...required, members: [...members], grants: grants.map(grantObject) }
}

/** The fields of a group in the names of the core. */
function groupFields<Flag, Others extends object>({
  require_two_step: requireTwoStep,
  require_provider: requireProvider,
  ...others
}: Others & { require_two_step: Flag; require_provider: Flag }) {
  return { ...others, requireTwoStep, requireProvider }
}

/** Unknown fields are refused, as in all that no other server of this API has: a misspelled one may open a folder. */
const newGroup = z.strictObject({
  name,
  description: text,
  permission: integer(0).describe(permission),
  admin: flag.describe(admin),
  require_two_step: flag.describe(requireTwoStep),
  require_provider: flag.describe(requireProvider),
  members: members.transform((ids) => ids ?? []),
  grants: grantList.nullish().transform((grants) => grants ?? []),
})
/** The changes of a group. Absent fields are unchanged. */
const changedGroup = z.strictObject({
  id: integerValue.meta({ example: 1 }),
  name: optionalField(name),
  description: optionalField(z.string()),
  permission: optionalField(integerValue).describe(permission),
  admin: optionalField(flagValue).describe(admin),
  require_two_step: optionalField(flagValue).describe(requireTwoStep),
  require_provider: optionalField(flagValue).describe(requireProvider),
  members: members.transform((ids) => ids ?? undefined),
  grants: optionalField(grantList).describe('All of them: those that are not in the list are deleted.'),
})

const unknownGroup: Refusal = { code: 404, text: 'group not found', error: 'record_missing' }
const nameTaken: Refusal = { code: 409, text: 'a group of this name exists already', error: 'exists' }
const groupRefusals: readonly Refusal[] = [
  { code: 400, text: '…', error: 'invalid', when: 'a field is invalid; the message is the reason' },
  { code: 400, text: 'there is no user …', error: 'invalid' },
  guestAdmin,
  ...grantRefusals,
  nameTaken,
]

/** Runs `work` with the responses to errors about groups. */
function withGroupErrors<T>(work: () => Promise<T> | T): Promise<T> {
  return withResponses({ not_found: unknownGroup, exists: nameTaken }, work)
}

export const adminGroupEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/admin/group/list',
    tag: 'Groups',
    summary: 'List the groups, with their members and grants',
    access: 'admin',
    fields: z.object(paging),
    data: pageData(groupData),
    answer({ api: { gateway }, fields }) {
      const all = gateway.accounts.groups.list()
      const shown = pageOf(all, fields).map((group) => groupObject(group, gateway.grants.of({ groupId: group.id })))
      return { content: shown, total: all.length }
    },
  }),

  endpoint({
    method: 'get',
    path: '/api/admin/group/get',
    tag: 'Groups',
    summary: 'Get a group',
    access: 'admin',
    query: rowId,
    data: groupData,
    refusals: [unknownGroup],
    answer({ api: { gateway }, query: { id } }) {
      return groupObject(requireRow(gateway.accounts.groups.get(id), unknownGroup), gateway.grants.of({ groupId: id }))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/group/create',
    tag: 'Groups',
    summary: 'Create a group',
    access: 'admin',
    event: 'admin.group',
    recentSignIn: true,
    fields: newGroup,
    data: z.object({ id: z.int() }),
    refusals: [...groupRefusals, unknownGroup],
    answer({ api: { gateway }, fields: { members: users, grants, ...fields } }) {
      const group = groupFields(fields)
      const { groups } = gateway.accounts
      const checked = gateway.grants.check(grants)
      return withGroupErrors(async () => {
        const reload = () => gateway.grants.reload()
        const { id } = await groups.create({ ...group, members: users }, { checked, reload })
        return { id }
      })
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/group/update',
    tag: 'Groups',
    summary: 'Change a group; absent fields are unchanged',
    description:
      'What its members may do changes at once. No session ends, except those of members who must set up two-step ' +
      'verification now.',
    access: 'admin',
    event: 'admin.group',
    recentSignIn: true,
    fields: changedGroup,
    refusals: [...groupRefusals, unknownGroup],
    async answer({ api: { gateway }, fields: { id, members: users, grants, ...fields } }) {
      const { groups } = gateway.accounts
      const changes = groupFields(fields)
      const checked = grants && gateway.grants.check(grants, { groupId: id })
      const reload = () => gateway.grants.reload()
      await withGroupErrors(async () => {
        requireRow(groups.get(id), unknownGroup)
        await groups.update(id, { ...changes, members: users }, checked && { checked, reload })
      })
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/group/delete',
    tag: 'Groups',
    summary: 'Delete a group with its grants',
    access: 'admin',
    event: 'admin.group',
    recentSignIn: true,
    query: rowId,
    refusals: [unknownGroup],
    async answer({ api: { gateway }, query: { id } }) {
      await withGroupErrors(() => gateway.accounts.groups.delete(id))
      await gateway.grants.reload()
    },
  }),
]
