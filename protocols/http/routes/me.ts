/** The user who asks, and the user's SSH keys. */
import { z } from 'zod'
import { GatewayError, isGatewayError } from '../../../src/errors.js'
import { keyData, keyObject, userData, userObject } from '../account-objects.js'
import { onRow } from '../admin-rows.js'
import { endpoint } from '../endpoint.js'
import { WireError } from '../errors.js'
import { given, paging, requiredText, rowId, text } from '../fields.js'
import { pageOf } from '../paging.js'
import { pageData } from '../schemas.js'

const missing = 'failed get old user: record not found'

export const meEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/me',
    tag: 'Own account',
    summary: 'The account of the user who asks',
    access: 'guest',
    data: userData.extend({ otp: z.boolean().describe('Whether two-step verification is on.') }),
    answer({ door, principal }) {
      const user = door.gateway.accounts.users.get(principal.userId)
      if (user === undefined) throw new GatewayError('unauthenticated')
      return { ...userObject(user), otp: user.otpSecret !== '' }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/me/update',
    tag: 'Own account',
    summary: 'Change name or password',
    description: 'A new name or a new password ends all sessions of the user.',
    access: 'user',
    guestRefusal: { code: 403, text: 'Guest user can not update profile' },
    fields: z.object({
      username: requiredText.meta({ example: 'ann' }),
      password: text.describe('Empty: it stays.'),
      sso_id: given(z.string()).describe('Left out: it stays.'),
    }),
    refusals: [
      { code: 400, text: '…', when: 'the name or the password is not one that can be had' },
      { code: 500, text: 'a user of this name exists already' },
      { code: 500, text: missing },
    ],
    async answer({ door, fields: { username, password, sso_id: ssoId }, principal }) {
      const update = { username, ssoId, password: password === '' ? undefined : password }
      await onRow(missing, () => door.gateway.accounts.users.update(principal.userId, update))
    },
  }),

  endpoint({
    method: 'get',
    path: '/api/me/sshkey/list',
    tag: 'Own account',
    summary: 'The SSH keys of the user',
    access: 'user',
    fields: z.object(paging),
    data: pageData(keyData),
    answer({ door, fields, principal }) {
      const keys = door.gateway.accounts.keys.list(principal.userId)
      return { content: pageOf(keys, fields).map(keyObject), total: keys.length }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/me/sshkey/add',
    tag: 'Own account',
    summary: 'Add an SSH key',
    access: 'user',
    fields: z.object({
      title: text.meta({ example: 'laptop' }).describe('Unique for the user.'),
      key: text.meta({ example: 'ssh-ed25519 AAAA… ann@laptop' }).describe('A line as in `authorized_keys`.'),
    }),
    refusals: [
      { code: 400, text: 'request invalid', when: '`title` or `key` is empty' },
      { code: 400, text: 'provided key invalid' },
      { code: 500, text: 'key with the same title already exists' },
    ],
    async answer({ door, fields: { title, key }, principal }) {
      if (title === '' || key === '') throw new WireError(400, 'request invalid')
      try {
        await door.gateway.accounts.keys.add(principal.userId, title, key)
      } catch (error) {
        if (isGatewayError(error, 'invalid')) throw new WireError(400, 'provided key invalid')
        if (isGatewayError(error, 'exists')) throw new WireError(500, 'key with the same title already exists')
        throw error
      }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/me/sshkey/delete',
    tag: 'Own account',
    summary: 'Delete an SSH key of the user; what came in with it ends at once',
    access: 'user',
    query: rowId,
    faultyQuery: 'id format invalid',
    refusals: [{ code: 404, text: 'failed to get public key', when: 'the user has no such key' }],
    async answer({ door, principal, query }) {
      try {
        await door.gateway.accounts.keys.delete(principal.userId, query.id)
      } catch (error) {
        if (isGatewayError(error, 'not_found')) throw new WireError(404, 'failed to get public key')
        throw error
      }
    },
  }),
]
