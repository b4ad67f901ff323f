/** Permissions by name, such as `write,rename,webdav-read`. */
import { allPermissions, permissionBits } from '../accounts/principal.js'
import { GatewayError } from '../contract/errors.js'

const bits: ReadonlyMap<string, number> = new Map(
  Object.entries(permissionBits).map(([name, bit]) => [
    name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
    bit,
  ]),
)

export const permissionNames: readonly string[] = [...bits.keys()]

/** Parses a list of names, `all`, `none`, or a number to permission bits. Throws `invalid` for an unknown name. */
export function parsePermissions(text: string): number {
  if (text === 'all') return allPermissions
  if (text === 'none') return 0
  if (/^\d+$/.test(text)) return Number(text)
  return text.split(',').reduce((sum, name) => {
    const bit = bits.get(name.trim())
    if (bit === undefined) {
      throw new GatewayError('invalid', {
        reason: `unknown permission "${name.trim()}"; there are: ${permissionNames.join(', ')}, all, none`,
      })
    }
    return sum | bit
  }, 0)
}

export function namesOf(permissions: number): readonly string[] {
  return [...bits].filter(([, bit]) => (permissions & bit) !== 0).map(([name]) => name)
}
