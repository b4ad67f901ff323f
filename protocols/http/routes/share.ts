/** Administration of shares. Requests of visitors go through `api/visitors.ts`. */
import { z } from 'zod'
import type { Principal } from '../../../src/accounts/principal.js'
import { undefinedIfMissing } from '../../../src/base/errors.js'
import { cleanPath, type Path } from '../../../src/base/path.js'
import type { ProtocolGateway } from '../../../src/gateway/protocol-gateway.js'
import { newShare, pathsToJudge } from '../../../src/shares/share-fields.js'
import type { StoredShare } from '../../../src/shares/shares.js'
import { requireRow } from '../compat/admin-rows.js'
import { isShown, rowOf, shareData, shareFields, shareObjects } from '../compat/share-object.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { refused, withResponses } from '../api/errors.js'
import { paging, queryText, requiredText, text } from '../api/fields.js'
import { pageOf } from '../api/paging.js'
import { coreRefusal, malformedPath, relativePath, storageRefusals } from '../api/refusals.js'
import { pageData } from '../api/schemas.js'

const guestRefusal: Refusal = { code: 403, text: 'You are a guest', error: 'denied', when: 'the guest calls' }
const shareMissing: Refusal = { code: 404, text: 'sharing not found', error: 'record_missing' }
const permissionDenied = coreRefusal(
  'denied',
  {},
  'the creator may share nothing, or the caller chooses the id and has no permission for that',
)
const idTaken: Refusal = { code: 500, text: 'sharing already exist', error: 'exists' }
const newIdTaken: Refusal = { code: 500, text: 'sharing id already exists', error: 'exists' }
const unknownCreator: Refusal = { code: 400, text: 'no such a user', error: 'invalid' }

const changeRefusals: readonly Refusal[] = [
  ...malformedPath,
  relativePath,
  permissionDenied,
  coreRefusal('denied', { detail: 'share_refused' }, 'the creator may not share what has this path'),
  coreRefusal('not_found', {}, 'the creator sees no file or folder of this path'),
  coreRefusal('not_folder', {}, 'visitors are to upload, and the path is that of a file'),
  coreRefusal('not_found', { detail: 'no_storage' }),
  coreRefusal('not_found', { detail: 'nothing_mounted' }),
  unknownCreator,
  { code: 400, text: '…', error: 'invalid', when: 'a field is invalid; the message is the reason' },
  ...storageRefusals,
]

const query = z.object({ id: queryText.meta({ example: 'aB3dE6gH' }) })

/** The visits of an update. Absent: 0, as in OpenList. */
const changedVisits = z
  .union([z.null(), shareFields.accessed], { error: 'must be an integer or null' })
  .meta({ wire: { anyOf: [{ type: 'integer' }, { type: 'null' }], default: 0 } })
  .describe('The number of visits until now. Null: unchanged, also by visits that begin meanwhile.')

/** The share of this id, if the principal administers it. */
function ownShare(gateway: ProtocolGateway, principal: Principal, id: string): StoredShare {
  return requireRow(gateway.shares.find(principal, id), shareMissing)
}

async function shown(gateway: ProtocolGateway, principal: Principal, share: StoredShare) {
  const [object] = await shareObjects(gateway, principal, [share])
  return requireRow(object, shareMissing)
}

/** The user for whom the request is made: an admin may name another one. Undefined: not said. */
function creatorOf({ accounts, shares }: ProtocolGateway, principal: Principal, name: string): number | undefined {
  if (name === '' || !shares.actsForOthers(principal)) return undefined
  const user = accounts.users.byName(name)
  if (user === undefined || user === accounts.users.byUniqueRole('guest')) throw refused(unknownCreator)
  return user.id
}

function rootsOf(files: readonly string[]): readonly Path[] {
  return [...new Set(files.filter((file) => file !== '').map(cleanPath))]
}

/** The roots of a share that the principal is not shown, and so cannot name in an update. */
function unshownRoots(gateway: ProtocolGateway, principal: Principal, { roots }: StoredShare): readonly Path[] {
  return roots.map(({ path }) => path).filter((path) => !isShown(gateway, principal, path))
}

export const shareEndpoints = [
  endpoint({
    method: 'any',
    path: '/api/share/list',
    tag: 'Shares',
    summary: 'List the shares of the user; for an admin, those of all users',
    access: 'user',
    guestRefusal,
    fields: z.object(paging),
    data: pageData(shareData),
    async answer({ api: { gateway }, fields, principal }) {
      const all = gateway.shares.of(principal)
      return { content: await shareObjects(gateway, principal, pageOf(all, fields)), total: all.length }
    },
  }),

  endpoint({
    method: 'get',
    path: '/api/share/get',
    tag: 'Shares',
    summary: 'Get a share',
    access: 'user',
    guestRefusal,
    query,
    data: shareData,
    refusals: [shareMissing],
    answer: ({ api: { gateway }, principal, query: { id } }) =>
      shown(gateway, principal, ownShare(gateway, principal, id)),
  }),

  endpoint({
    method: 'post',
    path: '/api/share/create',
    tag: 'Shares',
    summary: 'Share files and folders',
    description: 'Several appear as one folder, by their names.',
    access: 'user',
    event: 'share.made',
    guestRefusal,
    fields: z.object({
      ...shareFields,
      id: text.describe('Empty: a random one. Another one needs the permission for that.'),
    }),
    data: shareData,
    refusals: [...changeRefusals, idTaken],
    async answer({ api: { gateway }, fields: { id, ...fields }, principal }) {
      const named = creatorOf(gateway, principal, fields.creator)
      if (id !== '' && named === undefined && !principal.mayNameShares) throw refused(permissionDenied)
      const row = { ...newShare, ...rowOf(fields), creatorId: named ?? principal.userId }
      const roots = rootsOf(fields.files)
      for (const root of roots) await gateway.visitorAccess.assertMayShare({ id, ...row }, root)
      const share = await withResponses({ exists: idTaken }, () =>
        gateway.shares.create(id, row, roots, Math.max(0, fields.accessed)),
      )
      return shown(gateway, principal, share)
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/share/update',
    tag: 'Shares',
    summary: 'Change a share',
    description:
      'Absent fields get their defaults, except `creator` and those after it, which are unchanged. Files and folders ' +
      'that it has already are kept where they are, and those that were removed stay removed.',
    access: 'user',
    event: 'share.changed',
    guestRefusal,
    fields: z.object({
      ...shareFields,
      accessed: changedVisits,
      id: requiredText.meta({ example: 'aB3dE6gH' }),
      new_id: text.describe('Another id, which needs the permission for that. Empty: unchanged.'),
    }),
    data: shareData,
    refusals: [...changeRefusals, shareMissing, newIdTaken],
    async answer({ api: { gateway }, fields: { id, new_id: newId, ...fields }, principal }) {
      const before = ownShare(gateway, principal, id)
      const isRenamed = newId !== '' && newId !== id
      if (isRenamed && !principal.mayNameShares) throw refused(permissionDenied)
      const creatorId = creatorOf(gateway, principal, fields.creator) ?? before.creatorId
      const row = rowOf(fields)
      const named = rootsOf(fields.files)
      const judged = { ...before, ...row, creatorId }
      const { added, kept } = pathsToJudge(before, judged, named)
      for (const root of added) await gateway.visitorAccess.assertMayShare(judged, root)
      // The rest of a share can be changed when something of it is missing.
      for (const root of kept) await undefinedIfMissing(gateway.visitorAccess.assertMayShare(judged, root))
      const changes = { ...row, creatorId, ...(isRenamed && { id: newId }) }
      const roots = [...new Set([...named, ...unshownRoots(gateway, principal, before)])]
      const visits = fields.accessed === null ? undefined : Math.max(0, fields.accessed)
      const share = await withResponses({ not_found: shareMissing, exists: newIdTaken }, () =>
        gateway.shares.update(id, changes, roots, visits),
      )
      return shown(gateway, principal, share)
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/share/enable',
    tag: 'Shares',
    summary: 'Enable a share',
    access: 'user',
    event: 'share.changed',
    guestRefusal,
    query,
    refusals: [shareMissing],
    answer: ({ api: { gateway }, principal, query: { id } }) => setDisabled(gateway, principal, id, false),
  }),

  endpoint({
    method: 'post',
    path: '/api/share/disable',
    tag: 'Shares',
    summary: 'Disable a share',
    access: 'user',
    event: 'share.changed',
    guestRefusal,
    query,
    refusals: [shareMissing],
    answer: ({ api: { gateway }, principal, query: { id } }) => setDisabled(gateway, principal, id, true),
  }),

  endpoint({
    method: 'post',
    path: '/api/share/delete',
    tag: 'Shares',
    summary: 'Delete a share; its files and folders stay',
    access: 'user',
    event: 'share.removed',
    guestRefusal,
    query,
    refusals: [shareMissing],
    async answer({ api: { gateway }, principal, query: { id } }) {
      ownShare(gateway, principal, id)
      await withResponses({ not_found: shareMissing }, () => gateway.shares.delete(id))
    },
  }),
]

async function setDisabled(gateway: ProtocolGateway, principal: Principal, id: string, disabled: boolean) {
  ownShare(gateway, principal, id)
  await withResponses({ not_found: shareMissing }, () => gateway.shares.update(id, { disabled }))
}
