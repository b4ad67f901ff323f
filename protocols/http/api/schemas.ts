/** Building blocks of response schemas. */
import { z } from 'zod'

/** A time in RFC 3339 format. */
export const timestamp = z.iso.datetime()

/** One page of a list. */
export function pageData<S extends z.ZodType>(item: S) {
  return z.object({ content: z.array(item), total: z.int().describe('The number of items on all pages.') })
}
