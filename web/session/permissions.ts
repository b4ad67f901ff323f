/** What users may do. */
import { Permission } from '../api/schema.ts'
import type { Me } from './me.ts'

export function may({ permission }: Me, what: keyof typeof Permission): boolean {
  return (permission & Permission[what]) !== 0
}
