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

/** Values of `amr` (RFC 8176) and `acr` by which a provider says that it has asked for two factors. */
const twoStepMethods: ReadonlySet<unknown> = new Set(['mfa'])
const twoStepClasses: ReadonlySet<unknown> = new Set([
  'mfa',
  'http://schemas.openid.net/pape/policies/2007/06/multi-factor',
  'https://refeds.org/profile/mfa',
])

/** Whether the provider has asked for two factors. */
export function isTwoStep({ amr, acr }: Readonly<Record<string, unknown>>): boolean {
  return (Array.isArray(amr) && amr.some((method) => twoStepMethods.has(method))) || twoStepClasses.has(acr)
}
