/** The numbers of roles in the API. */
import { z } from 'zod'
import type { Role } from '../../../src/accounts/users.js'
import { integerValue } from '../api/fields.js'

export const roleNumbers = { general: 0, guest: 1, admin: 2 } as const satisfies Record<Role, number>

/** The schema of a role in responses. */
export const roleNumber = z.literal([0, 1, 2])

const roles = ['general', 'guest', 'admin'] as const

/** The schema of a role in requests. */
export const roleValue = integerValue
  .pipe(z.literal([0, 1, 2], { error: 'must be 0, 1 or 2' }))
  .transform((number): Role => roles[number])
