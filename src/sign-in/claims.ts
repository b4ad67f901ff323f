/** Claims that a provider sends: JSON of any shape. */

/** The value of a claim. A name with dots leads into objects, unless there is a claim of the whole name. */
export function claimAt(claims: Readonly<Record<string, unknown>>, name: string): unknown {
  if (name === '' || Object.hasOwn(claims, name)) return claims[name]
  return name.split('.').reduce<unknown>((at, part) => {
    return isObject(at) && Object.hasOwn(at, part) ? at[part] : undefined
  }, claims)
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
