/** The permissions of a user in the API. */
import { z } from 'zod'
import { permissionBits } from '../../../src/accounts/principal.js'

const description = Object.entries(permissionBits)
  .map(([name, bit]) => `${bit}: ${name}`)
  .join(', ')

/** The schema of the permissions in responses: the sum of their bits. */
export const permissionMask = z
  .int()
  .meta({ id: 'Permissions', 'x-bits': permissionBits, description: `The sum of the permissions: ${description}.` })
