/** Principals to ask as. */
import { allPermissions, permissionBits, type Permission, type Principal } from '../../src/accounts/principal.js'
import { asPath } from '../../src/contract/path.js'

export interface Asker extends Omit<Partial<Principal>, 'permissions' | 'base'> {
  readonly base?: string
  /** Absent: all. */
  readonly may?: readonly Permission[]
}

export function principal({ base = '/', may, ...fields }: Asker = {}): Principal {
  return {
    userId: 1,
    username: 'ada',
    role: 'general',
    permissions: may ? may.reduce((sum, each) => sum | permissionBits[each], 0) : allPermissions,
    base: asPath(base),
    protocol: 'http',
    signal: new AbortController().signal,
    ...fields,
  }
}
