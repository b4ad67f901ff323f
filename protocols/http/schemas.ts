/** The pieces of which the schemas of answers are made. */
import { z } from 'zod'

/** RFC 3339. */
export const moment = z.iso.datetime()

/** One page of a longer list. */
export function pageData<S extends z.ZodType>(item: S) {
  return z.object({ content: z.array(item), total: z.int().describe('Of all pages.') })
}
