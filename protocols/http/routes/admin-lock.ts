/** Administration of locks. Every protocol enforces them, and clients that crash do not release theirs. */
import { z } from 'zod'
import type { Lock } from '../../../src/locks/webdav-locks.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { refused } from '../api/errors.js'
import { paging, requiredText } from '../api/fields.js'
import { wireTime } from '../compat/object.js'
import { pageOf } from '../api/paging.js'
import { timestamp, pageData } from '../api/schemas.js'

const lockData = z
  .object({
    token: z.string().describe('A URI of the form `urn:uuid:…`.'),
    path: z.string().describe('The root of the lock, in the whole tree.'),
    scope: z.enum(['exclusive', 'shared']),
    deep: z.boolean().describe('Whether everything below the path is also locked.'),
    username: z.string().describe('The user who holds the lock, or `share:ID` for visitors of a share.'),
    owner: z.string().describe('The `owner` that the client sent, as XML (RFC 4918 §14.17).'),
    expires: timestamp,
  })
  .meta({ id: 'Lock' })

function lockObject({ token, path, scope, deep, username, owner, expires }: Lock): z.input<typeof lockData> {
  return { token, path, scope, deep, username, owner, expires: wireTime(expires) }
}

const unknownLock: Refusal = {
  code: 404,
  text: 'lock not found',
  error: 'record_missing',
  when: 'there is no lock with this token',
}

export const adminLockEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/admin/lock/list',
    tag: 'Locks',
    summary: 'List the locks, in order of their paths',
    access: 'admin',
    fields: z.object(paging),
    data: pageData(lockData),
    answer({ api, fields }) {
      const all = [...api.gateway.locks.list()].sort((one, other) => (one.path < other.path ? -1 : 1))
      return { content: pageOf(all, fields).map(lockObject), total: all.length }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/lock/break',
    tag: 'Locks',
    summary: 'Remove a lock of any user',
    access: 'admin',
    event: 'admin.other',
    query: z.object({ token: requiredText }),
    refusals: [unknownLock],
    async answer({ api, query: { token } }) {
      const { locks } = api.gateway
      await locks.know([token])
      if (!locks.list().some((lock) => lock.token === token)) throw refused(unknownLock)
      await locks.break(token)
    },
  }),
]
