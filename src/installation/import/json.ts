/** Reads JSON of other programs. */
import { z } from 'zod'
import { GatewayError } from '../../base/errors.js'

/** A list whose length is checked before its items are. */
export function listOf<Item extends z.ZodType>(item: Item, max: number) {
  return z.array(z.unknown()).max(max).pipe(z.array(item))
}

/** Throws `invalid` with the reason `notJson`, or with `otherForm` and where the form is another one. */
export function parseJson<T>(schema: z.ZodType<T>, text: string, notJson: string, otherForm: string): T {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new GatewayError('invalid', { reason: notJson, cause })
  }
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const [issue] = result.error.issues
  const at = issue?.path.slice(0, 4).map(String).join('.') ?? ''
  throw new GatewayError('invalid', { reason: `${otherForm}: ${at === '' ? '' : `${at}: `}${issue?.message ?? ''}` })
}
