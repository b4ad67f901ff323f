/** Principals for tests. */
import { allPermissions, permissionBits, Principal, type Permission } from '../../src/accounts/principal.js'
import { asPath } from '../../src/base/path.js'
import { http } from '../../protocols/http/index.js'

type PrincipalFacts = ConstructorParameters<typeof Principal>[0]

export interface Asker extends Omit<Partial<PrincipalFacts>, 'permissions' | 'base'> {
  readonly base?: string
  /** Defaults to all permissions. */
  readonly may?: readonly Permission[]
}

export function principal({ base = '/', may, ...fields }: Asker = {}): Principal {
  return new Principal({
    userId: 1,
    username: 'ada',
    role: 'general',
    permissions: may ? may.reduce((sum, each) => sum | permissionBits[each], 0) : allPermissions,
    base: asPath(base),
    protocol: http,
    signal: new AbortController().signal,
    ...fields,
  })
}
