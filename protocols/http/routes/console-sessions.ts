/** The console sessions of the current user. An extension of this gateway, described in docs/api.md. */
import { z } from 'zod'
import type { ConsoleSessionRow } from '../../../src/accounts/console-sessions.js'
import { endpoint } from '../api/endpoint.js'
import { withResponses } from '../api/errors.js'
import { paging, rowId } from '../api/fields.js'
import { wireTime } from '../compat/object.js'
import { pageOf } from '../api/paging.js'
import { pageData, timestamp } from '../api/schemas.js'
import { consoleSecretOf } from '../api/session-cookie.js'

const sessionData = z
  .object({
    id: z.int(),
    created: timestamp,
    last_used: timestamp.describe('Accurate to five minutes.'),
    expires: timestamp,
    address: z.string().describe('The address from which the user signed in.'),
    user_agent: z.string().describe('The header `User-Agent` of that request, at most 255 characters.'),
    current: z.boolean().describe('Whether this request is authenticated by the session.'),
  })
  .meta({ id: 'ConsoleSession' })

function sessionObject(row: ConsoleSessionRow, current: number | undefined): z.input<typeof sessionData> {
  return {
    id: row.id,
    created: wireTime(row.created),
    last_used: wireTime(row.lastUsed),
    expires: wireTime(row.expires),
    address: row.address,
    user_agent: row.userAgent,
    current: row.id === current,
  }
}

const notFound = { code: 404, text: 'session not found', error: 'record_missing' } as const

export const consoleSessionEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/me/session/list',
    tag: 'Own account',
    summary: 'List the console sessions of the current user',
    access: 'user',
    fields: z.object(paging),
    data: pageData(sessionData),
    answer({ api, context, fields, principal }) {
      const { consoleSessions } = api.gateway.accounts
      const secret = consoleSecretOf(api, context.req)
      const current = secret === undefined ? undefined : consoleSessions.find(secret)?.id
      const all = consoleSessions.list(principal.userId)
      return { content: pageOf(all, fields).map((row) => sessionObject(row, current)), total: all.length }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/me/session/delete',
    tag: 'Own account',
    summary: 'End a console session of the current user, and its running requests',
    access: 'user',
    event: 'signout',
    query: rowId,
    faultyQuery: 'id format invalid',
    refusals: [{ ...notFound, when: 'the user has no such session' }],
    async answer({ api, principal, query }) {
      await withResponses({ not_found: notFound }, () =>
        api.gateway.accounts.consoleSessions.delete(principal.userId, query.id),
      )
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/me/session/delete_all',
    tag: 'Own account',
    summary: 'Sign out everywhere: end all console sessions of the current user, and revoke all tokens',
    description: 'Also those of this request. SSH keys, app passwords and the permanent token remain valid.',
    access: 'user',
    event: 'signout',
    async answer({ api, principal }) {
      await api.gateway.accounts.users.endSessions(principal.userId)
    },
  }),
]
