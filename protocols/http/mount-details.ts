/** API representation of the space usage of a storage, in bytes. */
import { z } from 'zod'
import type { Usage } from '../../src/contract/capabilities.js'

export const mountDetailsData = z.object({ total_space: z.number(), used_space: z.number(), free_space: z.number() })

export function mountDetails({ total, used, free }: Usage): z.input<typeof mountDetailsData> {
  return { total_space: total, used_space: used, free_space: free }
}
