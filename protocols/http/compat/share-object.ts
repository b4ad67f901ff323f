/** Shares in the API: the fields of OpenList, and those that this gateway adds, described in docs/api.md. */
import { z } from 'zod'
import type { Principal } from '../../../src/accounts/principal.js'
import { isWithin, type Path } from '../../../src/base/path.js'
import { shareModes } from '../../../src/base/rights.js'
import type { ProtocolGateway } from '../../../src/gateway/protocol-gateway.js'
import { shareStates } from '../../../src/shares/visitor-access.js'
import type { StoredShare, ShareFields } from '../../../src/shares/shares.js'
import { choice, flag, flagValue, integer, integerValue, optionalField, stringList, text } from '../api/fields.js'
import { namedText, timestamp } from '../api/schemas.js'
import { wireTime } from './object.js'
import { roleNumber, roleNumbers } from './roles.js'

export const shareMode = namedText('ShareMode', shareModes)
const modes =
  '`read`: visitors list and download. `upload`: they add files and see none. `both`: they read, add and replace files, ' +
  'and make folders.'

export const shareData = z
  .object({
    id: z.string(),
    pseudonym: z.string().describe('By what the audit, webhooks and logs name the share. It does not open it.'),
    files: z.array(z.string()).describe('Paths in the whole tree.'),
    expires: timestamp.nullable().describe('Null: never.'),
    pwd: z.string().describe('The code that visitors have to send. Empty: none.'),
    accessed: z.int().describe('The number of visits.'),
    max_accessed: z.int().describe('How many visits there may be. 0 or less: any number.'),
    disabled: z.boolean(),
    remark: z.string().describe('Visitors do not see it.'),
    readme: z.string(),
    header: z.string(),
    order_by: z.enum(['name', 'size', 'modified', '']),
    order_direction: z.enum(['asc', 'desc', '']),
    extract_folder: z.enum(['front', 'back', '']),
    creator: z.string(),
    creator_role: roleNumber,
    domain: z.literal('').describe('Always empty; clients expect the field.'),
    web_hosting: z.literal(false).describe('Always false; clients expect the field.'),
    mode: shareMode.describe(modes),
    allow_from: z.array(z.string()).describe('The addresses and networks of visitors. Empty: any.'),
    webdav: z.boolean().describe('Whether visitors can also open it as a drive (WebDAV).'),
    upload_max_bytes: z.int().describe('Of all uploads together. 0: no limit.'),
    upload_max_files: z.int().describe('The same for the number of files and folders.'),
    uploaded_bytes: z.int(),
    uploaded_files: z.int(),
    created: timestamp,
    state: namedText('ShareState', shareStates).describe(
      'Whether visitors can open it. `missing`: nothing of it is there any more. `closed`: its creator may not share any ' +
        'of it now.',
    ),
  })
  .meta({ id: 'Share' })

type ShareObject = z.input<typeof shareData>

const endError = { error: 'must be a time such as 2030-12-31T23:59:59Z, or null' }

/** Clients in Go send the zero time for none. */
const end = z
  .union([z.iso.datetime({ offset: true }), z.literal('')], endError)
  .nullish()
  .transform((time) => (time ? new Date(time) : undefined))
  .transform((time) => (time !== undefined && time.getUTCFullYear() > 1 ? time : undefined))
  .meta({ wire: { anyOf: [{ type: 'string', format: 'date-time' }, { type: 'null' }] } })

/**
 * `files` to `creator` are the fields that OpenList has: absent ones have their defaults, also in an update. Of the
 * others, absent ones are unchanged in an update, because its clients do not know them.
 */
export const shareFields = {
  files: stringList.meta({ example: ['/folder/file.txt'] }).describe('Paths in the whole tree.'),
  expires: end.describe('When it ends. Null: never.'),
  pwd: text.describe('The code that visitors have to send. Empty: none.'),
  accessed: integer(0).describe('The number of visits until now.'),
  max_accessed: integer(0).describe('How many visits there may be. 0 or less: any number.'),
  disabled: flag,
  remark: text.describe('Visitors do not see it.'),
  readme: text.describe('Markdown, or the URL of it, that visitors see below each listing.'),
  header: text.describe('The same, above each listing.'),
  order_by: choice('name', 'size', 'modified').describe('The order of listings. Empty: that of the storage.'),
  order_direction: choice('asc', 'desc'),
  extract_folder: choice('front', 'back').describe('Where listings have the folders. Empty: among the files.'),
  creator: text.describe('The name of the user whose share it is, for admins. Empty: the caller, or unchanged.'),
  mode: optionalField(shareMode).describe(`${modes} Default: \`read\`.`),
  allow_from: optionalField(z.array(z.string(), { error: 'must be a list of networks' }))
    .meta({ example: ['192.0.2.0/24'] })
    .describe('The addresses and networks of visitors. Empty: any.'),
  webdav: optionalField(flagValue).describe('Whether visitors can also open it as a drive (WebDAV).'),
  upload_max_bytes: optionalField(integerValue).describe('Of all uploads together. 0: no limit.'),
  upload_max_files: optionalField(integerValue).describe('The same for the number of files and folders.'),
}

type AskedFields = z.output<z.ZodObject<typeof shareFields>>

type AddedField = 'mode' | 'allowFrom' | 'webdav' | 'uploadMaxBytes' | 'uploadMaxFiles'

/** What the row of a share gets from the fields of a request, besides its creator. */
export function rowOf(
  asked: Omit<AskedFields, 'accessed'>,
): Omit<ShareFields, 'creatorId' | AddedField> & Partial<ShareFields> {
  const added = {
    mode: asked.mode,
    allowFrom: asked.allow_from,
    webdav: asked.webdav,
    uploadMaxBytes: asked.upload_max_bytes,
    uploadMaxFiles: asked.upload_max_files,
  }
  return {
    code: asked.pwd,
    expires: asked.expires,
    maxVisits: asked.max_accessed,
    disabled: asked.disabled,
    remark: asked.remark,
    readme: asked.readme,
    header: asked.header,
    orderBy: asked.order_by,
    orderDirection: asked.order_direction,
    extractFolder: asked.extract_folder,
    ...Object.fromEntries(Object.entries(added).filter(([, value]) => value !== undefined)),
  }
}

/**
 * Whether a principal who administers a share is shown this path of it. Its creator may not know the folder to which
 * somebody has moved it.
 */
export function isShown({ shares }: ProtocolGateway, principal: Principal, path: Path): boolean {
  return shares.actsForOthers(principal) || isWithin(principal.base, path)
}

/** The shares as a principal who administers them sees them, with their states. */
export async function shareObjects(
  gateway: ProtocolGateway,
  principal: Principal,
  shares: readonly StoredShare[],
): Promise<ShareObject[]> {
  const { accounts, visitorAccess } = gateway
  const used = await gateway.shares.use(shares.map(({ id }) => id))
  const objects: ShareObject[] = []
  for (let at = 0; at < shares.length; at += statesAtOnce) {
    const some = shares.slice(at, at + statesAtOnce).map(async (share) => {
      const use = used.get(share.id)
      const creator = accounts.users.get(share.creatorId)
      return {
        id: share.id,
        pseudonym: gateway.shares.pseudonymOf(share.id),
        files: share.roots.map(({ path }) => path).filter((path) => isShown(gateway, principal, path)),
        expires: share.expires === undefined ? null : wireTime(share.expires),
        pwd: share.code,
        accessed: use?.visits ?? 0,
        max_accessed: share.maxVisits,
        disabled: share.disabled,
        remark: share.remark,
        readme: share.readme,
        header: share.header,
        order_by: share.orderBy,
        order_direction: share.orderDirection,
        extract_folder: share.extractFolder,
        creator: creator?.username ?? '',
        creator_role: roleNumbers[creator?.role ?? 'general'],
        domain: '' as const,
        web_hosting: false as const,
        mode: share.mode,
        allow_from: [...share.allowFrom],
        webdav: share.webdav,
        upload_max_bytes: share.uploadMaxBytes,
        upload_max_files: share.uploadMaxFiles,
        uploaded_bytes: use?.uploadedBytes ?? 0,
        uploaded_files: use?.uploadedFiles ?? 0,
        created: wireTime(share.created),
        state: await visitorAccess.state(share, use),
      }
    })
    objects.push(...(await Promise.all(some)))
  }
  return objects
}

/** Shares whose storages are asked at once for what is there. */
const statesAtOnce = 16
