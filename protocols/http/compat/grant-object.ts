/** Groups and grants in the API. They are extensions of this gateway, described in docs/api.md. */
import { z } from 'zod'
import type { Group } from '../../../src/accounts/groups.js'
import { maxGrantDepth, maxGrantsOfSubject, rights, type Grant } from '../../../src/tree/grants.js'
import type { Refusal } from '../api/endpoint.js'
import { malformedPath } from '../api/refusals.js'
import { namedText } from '../api/schemas.js'
import { permissionMask } from './permissions.js'

export const right = namedText('Right', rights)

export const grantData = z
  .object({
    id: z.int(),
    path: z.string().describe('The path in the whole tree.'),
    allow: z.array(right).describe('The rights that it allows. Whoever has any of them has `see` too.'),
    deny: z.array(right),
  })
  .meta({ id: 'Grant' })

export function grantObject({ id, path, allow, deny }: Grant): z.input<typeof grantData> {
  return { id, path, allow: [...allow], deny: [...deny] }
}

const rightList = z
  .array(right)
  .nullish()
  .transform((list) => list ?? [])

/** All grants of a user or a group, in a request. An unknown field is refused: it may be a misspelled denial. */
export const grantList = z.array(
  z
    .strictObject({
      id: z.unknown().optional().describe('Ignored, so that what was read can be sent back.'),
      path: z.string().meta({ example: '/projects' }).describe('In the whole tree; it need not exist.'),
      allow: rightList,
      deny: rightList,
    })
    .meta({ id: 'NewGrant' }),
  { error: 'must be a list of grants' },
)

/** What is refused of a list of grants. */
export const grantRefusals: readonly Refusal[] = [
  ...malformedPath,
  { code: 400, text: 'the path of a grant begins with / and does not contain ..', error: 'invalid' },
  { code: 400, text: `the path of a grant has at most ${maxGrantDepth} folders`, error: 'invalid' },
  { code: 400, text: 'the grant at … both allows and denies …', error: 'invalid' },
  { code: 400, text: 'the grant at … denies see, without which nothing can be allowed', error: 'invalid' },
  { code: 400, text: 'the grant at … allows and denies nothing', error: 'invalid' },
  { code: 400, text: 'there are two grants with the path …', error: 'invalid' },
  { code: 400, text: `a user or a group can have at most ${maxGrantsOfSubject} grants`, error: 'invalid' },
  { code: 400, text: 'there can be at most … grants', error: 'invalid' },
]

export const groupData = z
  .object({
    id: z.int(),
    name: z.string(),
    description: z.string(),
    permission: permissionMask,
    admin: z.boolean().describe('Whether its members are admins.'),
    require_two_step: z.boolean().describe('Whether its members must set up two-step verification before all else.'),
    members: z.array(z.int()).describe('The ids of its users.'),
    grants: z.array(grantData),
  })
  .meta({ id: 'Group' })

export function groupObject(
  { members, requireTwoStep, ...row }: Group,
  grants: readonly Grant[],
): z.input<typeof groupData> {
  return { ...row, require_two_step: requireTwoStep, members: [...members], grants: grants.map(grantObject) }
}

export const guestAdmin: Refusal = {
  code: 400,
  text: 'the guest cannot be in a group whose members are admins',
  error: 'invalid',
}
