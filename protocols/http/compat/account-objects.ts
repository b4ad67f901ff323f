/** API representations of accounts, SSH keys, app passwords and identities, and on whose behalf accounts change. */
import { z } from 'zod'
import { lacksTwoStep } from '../../../src/accounts/admission.js'
import type { AppPasswordRow } from '../../../src/accounts/app-passwords.js'
import type { Requester } from '../../../src/accounts/fair-queue.js'
import type { IdentityRow } from '../../../src/accounts/identities.js'
import type { Principal } from '../../../src/accounts/principal.js'
import type { KeyRow } from '../../../src/accounts/ssh-keys.js'
import type { UserRow } from '../../../src/accounts/users.js'
import type { ProtocolGateway } from '../../../src/gateway/protocol-gateway.js'
import type { Refusal } from '../api/endpoint.js'
import { grantData, grantObject } from '../api/grant-fields.js'
import { signalOf, type Exchange } from '../api/http-api.js'
import { wireTime } from './object.js'
import { permissionMask } from './permissions.js'
import { roleNumber, roleNumbers } from './roles.js'
import { timestamp } from '../api/schemas.js'

const accountData = z.object({
  id: z.int(),
  username: z.string(),
  password: z.literal('').describe('Always empty; clients expect the field.'),
  base_path: z.string().describe('The folder of the tree that the user sees as `/`.'),
  role: roleNumber,
  disabled: z.boolean(),
  permission: permissionMask,
  sso_id: z.string(),
  allow_ldap: z.literal(true).describe('Always true; clients expect the field.'),
  otp: z.boolean().describe('Whether two-step verification is on.'),
  granted_only: z.boolean().describe('Whether the user sees only what a grant allows.'),
})

export const userData = accountData
  .extend({
    allow_from: z
      .array(z.string())
      .meta({ example: ['10.0.0.0/8', '2001:db8::/32'] })
      .describe('The addresses and networks from which the account can be used. Empty: from everywhere.'),
    expires: timestamp.nullable().describe('When the account ends. null: never.'),
    groups: z.array(z.int()).describe('The ids of the groups of the user.'),
    grants: z.array(grantData).describe('Those of the user, without those of its groups.'),
  })
  .meta({ id: 'User' })

/** The account, with its own role and permissions, as admins see it. */
export function userObject({ accounts, grants }: ProtocolGateway, user: UserRow): z.input<typeof userData> {
  return {
    ...accountObject(user),
    allow_from: [...user.allowFrom],
    expires: user.expires === undefined ? null : wireTime(user.expires),
    groups: [...accounts.groups.of(user.id).groups],
    grants: grants.of({ userId: user.id }).map(grantObject),
  }
}

export const ownUserData = accountData
  .extend({
    groups: z
      .array(z.object({ id: z.int(), name: z.string() }).meta({ id: 'GroupName' }))
      .describe('The groups of the user.'),
    two_step_set_up_required: z
      .boolean()
      .describe('Whether the user must set up two-step verification before all else: a group requires it.'),
  })
  .meta({ id: 'CurrentUser' })

/** The account as its user sees it: with the role and the permissions that it has by its groups. */
export function ownUserObject(
  { accounts: { groups } }: ProtocolGateway,
  user: UserRow,
  { role, hasTwoStep }: Principal,
): z.input<typeof ownUserData> {
  const membership = groups.of(user.id)
  return {
    ...accountObject(user),
    role: roleNumbers[role],
    permission: user.permission | membership.permissions,
    groups: membership.groups.flatMap((id) => {
      const name = groups.get(id)?.name
      return name === undefined ? [] : [{ id, name }]
    }),
    two_step_set_up_required: !hasTwoStep && lacksTwoStep(user, membership),
  }
}

/** The account without its password hash and OTP secret. */
function accountObject(user: UserRow): z.input<typeof accountData> {
  return {
    id: user.id,
    username: user.username,
    password: '',
    base_path: user.basePath,
    role: roleNumbers[user.role],
    disabled: user.disabled,
    permission: user.permission,
    sso_id: user.ssoId,
    allow_ldap: true,
    otp: user.otpSecret !== '',
    granted_only: user.grantedOnly,
  }
}

/** The requester of a change of an account. */
export function requesterOf({ username }: Principal, { res }: Exchange): Requester {
  return { party: { account: username }, signal: signalOf(res) }
}

export const unknownUser: Refusal = {
  code: 500,
  text: 'failed get old user: record not found',
  error: 'record_missing',
}

export const tooManyPasswords: Refusal = {
  code: 429,
  text: 'too many passwords are being set, try again later',
  error: 'throttled',
  when: 'the user has 16 unfinished requests that set a password',
}

export const keyData = z
  .object({
    id: z.int(),
    title: z.string(),
    fingerprint: z.string().describe('As OpenSSH shows it: `SHA256:` and base64.'),
    added_time: timestamp,
    last_used_time: timestamp.describe('The same as `added_time` until the key is first used.'),
  })
  .meta({ id: 'SshKey' })

export function keyObject(key: KeyRow): z.input<typeof keyData> {
  return {
    id: key.id,
    title: key.title,
    fingerprint: key.fingerprint,
    added_time: wireTime(key.added),
    last_used_time: wireTime(key.lastUsed),
  }
}

export const identityData = z
  .object({
    id: z.int(),
    kind: z.enum(['oidc', 'oauth', 'ldap']),
    issuer: z.string().describe('The provider or directory.'),
    name: z.string().describe('The name of the account there when it was linked.'),
    linked: timestamp,
    last_used: timestamp.describe('Accurate to five minutes.'),
  })
  .meta({ id: 'Identity' })

export function identityObject(row: IdentityRow): z.input<typeof identityData> {
  const { id, kind, issuer, name, linked, lastUsed } = row
  return { id, kind, issuer, name, linked: wireTime(linked), last_used: wireTime(lastUsed) }
}

export const appPasswordData = z
  .object({
    id: z.int(),
    name: z.string(),
    prefix: z.string().describe('The first characters of the password.'),
    protocols: z.array(z.string()).describe('The protocols that accept the password.'),
    read_only: z.boolean(),
    folder: z.string().describe('What it opens, as a path of the user, who sees it as `/`.'),
    expires: timestamp.nullable().describe('When it ends. null: never.'),
    added_time: timestamp,
    last_used_time: timestamp.nullable().describe('Accurate to the minute; null if never used.'),
  })
  .meta({ id: 'AppPassword' })

export function appPasswordObject(row: AppPasswordRow): z.input<typeof appPasswordData> {
  return {
    id: row.id,
    name: row.name,
    prefix: `tg-${row.prefix}`,
    protocols: [...row.protocols],
    read_only: row.readOnly,
    folder: row.folder,
    expires: row.expires === undefined ? null : wireTime(row.expires),
    added_time: wireTime(row.added),
    last_used_time: row.lastUsed === undefined ? null : wireTime(row.lastUsed),
  }
}
