/** Checks what every imported user must have. */
import { impossiblePassword } from '../../accounts/passwords.js'
import { nameFault } from '../../accounts/users.js'
import { GatewayError } from '../../base/errors.js'
import { cleanPath } from '../../base/path.js'
import type { ImportedUser } from '../../database/installation.js'

/** A user before it is checked. */
export interface Draft extends Omit<ImportedUser, 'passwordHash' | 'passwordTime' | 'basePath'> {
  readonly basePath: string
  /** Undefined if no password can be taken. */
  readonly passwordHash: string | undefined
}

/**
 * The user, and what is not as it was. `taken`: the users so far, whose names it cannot have, and of which one may be
 * the admin. `faults`: why the user cannot be taken as it is, and is disabled. The admin cannot be disabled. Throws
 * `invalid` for a name or base folder that no user can have.
 */
export function userOf(
  draft: Draft,
  taken: readonly ImportedUser[],
  faults: readonly string[],
): { readonly user: ImportedUser; readonly changes: readonly string[] } {
  const fault = nameFault(draft.username)
  if (fault !== undefined) throw new GatewayError('invalid', { reason: fault })
  if (taken.some(({ username }) => username === draft.username)) {
    throw new GatewayError('invalid', { reason: 'another user has this name' })
  }
  if (taken.some(({ id }) => id === draft.id)) {
    throw new GatewayError('invalid', { reason: 'another user has the same id, by which rules name it' })
  }
  const isSecond = draft.role !== 'general' && taken.some(({ role }) => role === draft.role)
  const role = isSecond ? 'general' : draft.role
  const changes = isSecond ? ['taken as a general user: there is one administrator and one guest'] : []
  const withoutPassword = draft.passwordHash === undefined && role !== 'guest'
  const reasons = withoutPassword ? [...faults, 'it has no password that can be taken: set one'] : faults
  const isAdmin = role === 'admin'
  if (reasons.length > 0) changes.push(`${isAdmin ? '' : 'disabled: '}${reasons.join(', and ')}`)
  if (isAdmin && draft.disabled) changes.push('enabled: the administrator cannot be disabled')
  if (isAdmin && draft.grants.length > 0) changes.push('it sees everything: grants do not apply to the administrator')
  const user = {
    ...draft,
    role,
    passwordHash: draft.passwordHash ?? impossiblePassword(),
    passwordTime: 0,
    basePath: cleanPath(draft.basePath),
    grantedOnly: draft.grantedOnly && !isAdmin,
    grants: isAdmin ? [] : draft.grants,
    disabled: !isAdmin && (draft.disabled || reasons.length > 0),
  }
  return { user, changes }
}

/** Throws `invalid` if none of them is the admin, without whom an installation cannot be used. */
export function adminOf(users: readonly ImportedUser[]): ImportedUser {
  const admin = users.find(({ role }) => role === 'admin')
  if (admin) return admin
  throw new GatewayError('invalid', { reason: 'no administrator can be taken: one is needed, make one there first' })
}
