/** The options of a driver: read from their text, and checked against its table of fields. */
import type { Field, Fields, OptionsOf } from './driver.js'
import { GatewayError } from './errors.js'

/**
 * The options in the addition of a storage; an empty text holds none. Throws `invalid` where it is not the JSON text of an object,
 * with what the parser says of it, but for the text itself: passwords are in it, and reasons are logged.
 */
export function parsedAddition(addition: string): Record<string, unknown> {
  if (addition.trim() === '') return {}
  const expected = 'the addition of a storage must be the JSON text of an object'
  let value: unknown
  try {
    value = JSON.parse(addition)
  } catch (error) {
    throw new GatewayError('invalid', { reason: `${expected}: ${unquoted((error as SyntaxError).message)}` })
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  throw new GatewayError('invalid', { reason: expected })
}

/** The text of an addition once a driver has stored changed options. Throws as `parsedAddition`. */
export function changedAddition(addition: string, options: Readonly<Record<string, unknown>>): string {
  return JSON.stringify({ ...parsedAddition(addition), ...options })
}

/** `Unexpected token 'x'` of `Unexpected token 'x', ..."…"x"… is not valid JSON`. */
function unquoted(message: string): string {
  return message.replace(/, (?:\.\.\.)?".*$/s, '')
}

/**
 * Every field with its value or its default; keys that are no field are passed over. Numbers and booleans may come as text;
 * an empty text is a value of texts alone that are not required; a choice between `true` and `false` may come as a boolean.
 * A default that is only offered is not taken for a value that is missing.
 * Rejects with `invalid`, naming the field, where a required one is missing or a value does not fit.
 */
export function checkOptions<F extends Fields>(fields: F, given: Readonly<Record<string, unknown>>): OptionsOf<F> {
  const options: Record<string, unknown> = {}
  for (const [name, field] of Object.entries(fields)) {
    const own = Object.hasOwn(given, name) ? given[name] : undefined
    const isGiven = own !== undefined && own !== null && (own !== '' || (isText(field) && field.required !== true))
    const value = isGiven ? own : field.onlyOffered === true ? undefined : field.default
    if (field.required === true && (value === undefined || value === '')) {
      throw new GatewayError('invalid', { reason: `the field ${name} is required` })
    }
    options[name] = checkValue(name, field, value)
  }
  return options as OptionsOf<F>
}

/** Whether `checkOptions` rejects where this field is left out. */
export function mustBeGiven({ required, default: value, onlyOffered }: Field): boolean {
  return required === true && (value === undefined || value === '' || onlyOffered === true)
}

function isText(field: Field): boolean {
  return field.type === 'string' || field.type === 'text'
}

function checkValue(name: string, field: Field, value: unknown): string | number | boolean {
  switch (field.type) {
    case 'bool':
      if (value === undefined) return false
      if (typeof value === 'boolean') return value
      if (value === 'true' || value === 'false') return value === 'true'
      break
    case 'number':
    case 'float': {
      if (value === undefined) return 0
      const number = typeof value === 'string' ? Number(value) : value
      if (typeof number !== 'number' || !Number.isFinite(number)) break
      if (field.type === 'float' || Number.isInteger(number)) return number
      throw new GatewayError('invalid', { reason: `the field ${name} must be a whole number` })
    }
    case 'select':
      if (value === undefined || value === '') return ''
      if (typeof value === 'string' && field.options?.includes(value) !== false) return value
      if (typeof value === 'boolean' && field.options?.includes(String(value)) === true) return String(value)
      throw new GatewayError('invalid', {
        reason: `the field ${name} must be one of ${field.options?.join(', ') ?? ''}`,
      })
    case 'string':
    case 'text':
      if (value === undefined) return ''
      if (typeof value === 'string' || typeof value === 'number') return String(value)
      break
  }
  throw new GatewayError('invalid', { reason: `the field ${name} must be a ${field.type}` })
}
