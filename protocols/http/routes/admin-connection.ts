/** Who is connected and signed in now. An extension of this gateway, described in docs/api.md. */
import { z } from 'zod'
import type { ListedConnection } from '../../../src/gateway/connections.js'
import { endpoint } from '../api/endpoint.js'
import { refused, withResponses } from '../api/errors.js'
import { paging, requiredText, rowId } from '../api/fields.js'
import { pageOf } from '../api/paging.js'
import { pageData, timestamp } from '../api/schemas.js'
import { wireTime } from '../compat/object.js'

const connectionData = z
  .object({
    id: z.string(),
    protocol: z.string().meta({ example: 'sftp' }),
    user_id: z.int().nullable().describe('null for a visitor of a share.'),
    username: z.string().nullable(),
    address: z.string(),
    since: timestamp,
    received: z.int().describe('Bytes that the client has sent since then, with those of the protocol.'),
    sent: z.int().describe('Bytes that it was sent.'),
  })
  .meta({ id: 'Connection' })

const signedInData = z
  .object({
    id: z.int(),
    user_id: z.int(),
    username: z.string(),
    created: timestamp,
    last_used: timestamp.describe('Accurate to five minutes.'),
    address: z.string().describe('The address from which the user signed in.'),
    user_agent: z.string(),
  })
  .meta({ id: 'SignedInBrowser' })

const noConnection = { code: 404, text: 'connection not found', error: 'record_missing' } as const
const noSession = { code: 404, text: 'session not found', error: 'record_missing' } as const

export const adminConnectionEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/admin/connection/list',
    tag: 'Process',
    summary: 'List the sessions of SFTP and the running requests of HTTP and WebDAV, but for this one',
    description: 'Of the node that answers. A browser that waits for nothing has no running request.',
    access: 'admin',
    data: z.object({
      node: z.string().describe('The name of the node, as `/api/admin/nodes` has it.'),
      connections: z.array(connectionData).readonly(),
    }),
    answer: ({ api: { gateway }, context }) => ({
      node: gateway.cluster.instance.name,
      connections: gateway.connections.list(context.req).map(connectionObject),
    }),
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/connection/end',
    tag: 'Process',
    summary: 'End a connection, with what it transfers',
    description: 'The client may connect again: this revokes no credential.',
    access: 'admin',
    event: 'admin.other',
    fields: z.object({ id: requiredText }),
    refusals: [{ ...noConnection, when: 'it has ended, or is that of another node' }],
    async answer({ api: { gateway }, fields }) {
      await withResponses({ not_found: noConnection }, async () => gateway.connections.end(fields.id))
    },
  }),

  endpoint({
    method: 'get',
    path: '/api/admin/session/list',
    tag: 'Users',
    summary: 'List the console sessions of all users, the last one that was used first',
    access: 'admin',
    fields: z.object(paging),
    data: pageData(signedInData),
    answer({ api: { gateway }, fields }) {
      const { consoleSessions, users } = gateway.accounts
      const all = consoleSessions.all()
      const content = pageOf(all, fields).map((row) => ({
        id: row.id,
        user_id: row.userId,
        username: users.get(row.userId)?.username ?? '',
        created: wireTime(row.created),
        last_used: wireTime(row.lastUsed),
        address: row.address,
        user_agent: row.userAgent,
      }))
      return { content, total: all.length }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/session/delete',
    tag: 'Users',
    summary: 'End a console session of any user, and its running requests',
    access: 'admin',
    event: 'signout',
    query: rowId,
    refusals: [noSession],
    async answer({ api: { gateway }, query: { id } }) {
      const { consoleSessions } = gateway.accounts
      const row = consoleSessions.get(id)
      if (row === undefined) throw refused(noSession)
      await withResponses({ not_found: noSession }, () => consoleSessions.delete(row.userId, id))
    },
  }),
]

function connectionObject(connection: ListedConnection): z.input<typeof connectionData> {
  const { id, protocol, user, address, since, received, sent } = connection
  const username = user?.name ?? null
  return { id, protocol, user_id: user?.id ?? null, username, address, since: wireTime(since), received, sent }
}
