/** Administration of locks: programs that crash leave them behind, and they stand at every door. */
import { z } from 'zod'
import type { Lock } from '../../../src/locks.js'
import { endpoint, type Refusal } from '../endpoint.js'
import { WireError } from '../errors.js'
import { paging, requiredText } from '../fields.js'
import { pageOf } from '../paging.js'
import { wireTime } from '../object.js'
import { moment, pageData } from '../schemas.js'

const lockData = z.object({
  token: z.string().describe('Of the form `urn:uuid:…`.'),
  path: z.string().describe('The root of the lock, in the whole tree.'),
  scope: z.enum(['exclusive', 'shared']),
  deep: z.boolean().describe('Everything below is locked too.'),
  username: z.string().describe('Who holds it.'),
  owner: z.string().describe('What the client said of itself, as XML.'),
  expires: moment,
})

function lockObject({ token, path, scope, deep, username, owner, expires }: Lock): z.input<typeof lockData> {
  return { token, path, scope, deep, username, owner, expires: wireTime(expires) }
}

const unknownLock: Refusal = { code: 404, text: 'lock not found', when: 'no lock of this token stands' }

export const adminLockEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/admin/lock/list',
    tag: 'Locks',
    summary: 'The locks that stand, by path',
    access: 'admin',
    fields: z.object(paging),
    data: pageData(lockData),
    answer({ door, fields }) {
      const all = [...door.gateway.locks.list()].sort((one, other) => (one.path < other.path ? -1 : 1))
      return { content: pageOf(all, fields).map(lockObject), total: all.length }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/lock/break',
    tag: 'Locks',
    summary: 'End a lock, whoever holds it',
    access: 'admin',
    query: z.object({ token: requiredText }),
    refusals: [unknownLock],
    async answer({ door, query: { token } }) {
      const { locks } = door.gateway
      if (!locks.list().some((lock) => lock.token === token)) throw new WireError(404, unknownLock.text)
      await locks.break(token)
    },
  }),
]
