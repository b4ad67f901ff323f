/** The numbers of roles in the API. */
import { z } from 'zod'
import type { Role } from '../../../src/accounts/users.js'
import { integerValue } from '../api/fields.js'
import { namedNumber } from '../api/schemas.js'

export const roleNumbers = { general: 0, guest: 1, admin: 2 } as const satisfies Record<Role, number>
type RoleNumber = (typeof roleNumbers)[Role]

/** The schema of a role in responses. */
export const roleNumber = namedNumber('Role', roleNumbers)

const roles = Object.fromEntries(Object.entries(roleNumbers).map(([role, number]) => [number, role])) as Readonly<
  Record<RoleNumber, Role>
>

/** The schema of a role in requests. */
export const roleValue = integerValue
  .pipe(z.literal(Object.values(roleNumbers), { error: 'must be 0, 1 or 2' }))
  .transform((number) => roles[number])
