/** Building blocks of response schemas. */
import { z } from 'zod'

/** A time in RFC 3339 format. */
export const timestamp = z.iso.datetime()

/**
 * A value of `numbers`. The document has it as the component `id`, with the names, from which clients generate
 * constants.
 */
export function namedNumber<const Value extends number>(id: string, numbers: Readonly<Record<string, Value>>) {
  const description = Object.entries(numbers)
    .map(([name, value]) => `${value}: ${name}`)
    .join(', ')
  return z
    .literal(Object.values(numbers))
    .meta({ id, 'x-enum-varnames': Object.keys(numbers), description: `${description}.` })
}

/** One of `names`. The document has it as the component `id`. */
export function namedText<const Name extends string>(id: string, names: readonly [Name, ...Name[]]) {
  return z.enum(names).meta({ id, 'x-enum-varnames': [...names] })
}

/** One page of a list. */
export function pageData<S extends z.ZodType>(item: S) {
  return z.object({ content: z.array(item), total: z.int().describe('The number of items on all pages.') })
}
