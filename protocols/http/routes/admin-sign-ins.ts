/** Attempts to sign in that are refused after too many failures. An extension of this gateway (docs/audit.md). */
import { z } from 'zod'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { refused, withResponses } from '../api/errors.js'
import { signInBodyLimit, text } from '../api/fields.js'
import { timestamp } from '../api/schemas.js'
import { wireTime } from '../compat/object.js'

const lockedData = z
  .object({
    kind: z
      .enum(['address', 'pair', 'directory', 'codes'])
      .describe(
        '`address`: all sign-ins from there. `pair`: those from there to one account. `directory`: passwords of a ' +
          'person of the LDAP directory, and `codes`: one-time codes of an account, both from where no sign-in has ' +
          'succeeded in the last day.',
      ),
    network: z
      .string()
      .nullable()
      .describe('An IPv4 address, or the /64 of an IPv6 address; null for `directory` and `codes`.')
      .meta({ example: '192.0.2.7' }),
    username: z
      .string()
      .nullable()
      .describe('null for an address, and for a name that no account has: it can be a mistyped password.'),
    failures: z.int(),
    until: timestamp.describe('When an attempt is accepted again, unless another one fails before.'),
  })
  .meta({ id: 'LockedSignIn' })

const notOne: Refusal = { code: 400, text: 'name either a network or a user', error: 'invalid' }
const unknownUser: Refusal = {
  code: 404,
  text: 'user not found',
  error: 'record_missing',
  when: 'there is no user of this name',
}

export const adminSignInEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/admin/sign-ins',
    tag: 'Users',
    summary: 'List whose sign-ins are refused now after too many failures, on all nodes',
    access: 'admin',
    data: z.array(lockedData).readonly(),
    async answer({ api: { gateway } }) {
      return (await gateway.accounts.lockedSignIns.list()).map(({ kind, network, username, failures, until }) => ({
        ...{ kind, network: network ?? null, username: username ?? null, failures },
        until: wireTime(until),
      }))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/sign-ins/unlock',
    tag: 'Users',
    summary: 'Forget the failed sign-ins of an address or of a user, on all nodes',
    access: 'admin',
    event: 'signin.unlocked',
    bodyLimit: signInBodyLimit,
    fields: z.object({
      network: text.describe('An address, or a network as the list has it.').meta({ example: '192.0.2.7' }),
      username: text.describe('In place of it: a user, whose failures are forgotten for all addresses, and codes.'),
    }),
    refusals: [notOne, unknownUser],
    async answer({ api: { gateway }, fields: { network, username } }) {
      const { accounts } = gateway
      if ((network === '') === (username === '')) throw refused(notOne)
      if (network !== '') await accounts.lockedSignIns.unlockNetwork(network)
      else await withResponses({ not_found: unknownUser }, () => accounts.lockedSignIns.unlockUser(username))
    },
  }),
]
