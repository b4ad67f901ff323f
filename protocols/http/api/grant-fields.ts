/** Grants in the API: an extension of this gateway, described in docs/api.md. */
import { z } from 'zod'
import { rights } from '../../../src/base/rights.js'
import { maxGrantDepth, maxGrantsOfSubject, type Grant } from '../../../src/tree/grants.js'
import type { Refusal } from './endpoint.js'
import { malformedPath } from './refusals.js'
import { namedText } from './schemas.js'

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
