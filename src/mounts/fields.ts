/** Parses the options of a driver, and validates them against the driver's fields. */
import type { Field, Fields, OptionsOf } from '../contract/driver-type.js'
import { GatewayError } from '../base/errors.js'

/**
 * Parses the `addition` of a storage: the JSON text of an object, or an empty text for no options. Throws `invalid`
 * with the parser's message, from which the quoted text is removed, because it may contain passwords and reasons are
 * logged.
 */
export function parseAddition(addition: string): Record<string, unknown> {
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

/** Returns the text of an addition with changed options. Throws as `parseAddition`. */
export function mergeAddition(addition: string, options: Readonly<Record<string, unknown>>): string {
  return JSON.stringify({ ...parseAddition(addition), ...options })
}

/** For example `Unexpected token 'x'` for `Unexpected token 'x', ..."…"x"… is not valid JSON`. */
function unquoted(message: string): string {
  return message.replace(/, (?:\.\.\.)?".*$/s, '')
}

/**
 * Returns every field with its value or its default. Unknown keys are ignored. Numbers and booleans may be given as
 * text, and a choice between `true` and `false` as a boolean. An empty text counts as missing, except for text fields
 * that are not required. A default that is only a suggestion does not replace a missing value.
 * Throws `invalid`, with the name of the field, if a required field is missing or a value is not valid.
 */
export function checkOptions<F extends Fields>(fields: F, input: Readonly<Record<string, unknown>>): OptionsOf<F> {
  const options: Record<string, unknown> = {}
  for (const [name, field] of Object.entries(fields)) {
    const given = Object.hasOwn(input, name) ? input[name] : undefined
    const raw = field.trimmed === true && typeof given === 'string' ? given.trim() : given
    const isPresent = raw !== undefined && raw !== null && (raw !== '' || (isText(field) && field.required !== true))
    const value = isPresent ? raw : field.suggested === true ? undefined : field.default
    if (field.required === true && (value === undefined || value === '')) {
      throw new GatewayError('invalid', { reason: `the field ${name} is required` })
    }
    options[name] = checkValue(name, field, value)
  }
  return options as OptionsOf<F>
}

/** Whether `checkOptions` throws if this field is omitted. */
export function isMandatory({ required, default: value, suggested: isSuggestion }: Field): boolean {
  return required === true && (value === undefined || value === '' || isSuggestion === true)
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
