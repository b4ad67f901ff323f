/** Several files and folders as one ZIP archive, which is written while it is sent. */
import { Readable } from 'node:stream'
import { z } from 'zod'
import type { Principal } from '../../../src/accounts/principal.js'
import { contentVersion } from '../../../src/contract/entry.js'
import { GatewayError, toGatewayError } from '../../../src/base/errors.js'
import type { Holder } from '../../../src/base/fair-share.js'
import { checkMemberName, cleanPath, nameOf, root, under, within, type Path } from '../../../src/base/path.js'
import { networkOf } from '../../../src/net/addresses.js'
import type { SharedMember } from '../../../src/shares/open-share.js'
import { asVisitor } from '../../../src/shares/visitor-errors.js'
import type { AccessOptions } from '../../../src/tree/operation-options.js'
import type { VirtualFs } from '../../../src/tree/virtual-fs.js'
import { drain } from '../../lib/request-body.js'
import { contentDisposition, sendStream, startingWith } from '../../lib/send.js'
import { zipArchive, type ZipMember } from '../files/zip-format.js'
import { accessOptions, treeHeaders } from '../api/access-options.js'
import { principalOf } from '../api/authenticate.js'
import { endpoint, type Call, type PlainResponse, type Refusal } from '../api/endpoint.js'
import { badRequest, logUnexpected, refused, toErrorResponse, withResponses } from '../api/errors.js'
import { bodyLimit, checkFields, fieldsOf, integer, queryText, stringList, text } from '../api/fields.js'
import { signalOf, type Exchange, type HttpApi } from '../api/http-api.js'
import { wireTime } from '../compat/object.js'
import { sendErrorPage } from '../site/pages.js'
import { accessDenied, pathRefusals, visitorRefusals } from '../api/refusals.js'
import { timestamp } from '../api/schemas.js'
import { pathInShare } from '../../../src/shares/path-in-share.js'
import { ofVisitors, openForVisitor, type VisitorPath } from '../api/visitors.js'

const path = text
  .meta({ example: '/folder' })
  .describe('The folder, relative to the base folder of the user, or `/@s/ID` and folders below it for a share.')
/** Maximum number of names of one archive: they are checked and signed in one turn of the event loop. */
const maxNames = 10_000

const names = stringList.describe('The names of its members. Empty: the whole folder.')

const page = ['text/html']
const plain: readonly PlainResponse[] = [
  { status: 200, description: 'The archive.', types: ['application/zip'] },
  { status: 400, description: 'The path or a name is malformed, or the path is not that of a folder.', types: page },
  {
    status: 401,
    description: 'The token or the signature is not valid, or the guest account is disabled.',
    types: page,
  },
  { status: 403, description: 'The user may not read all of it, or archives are switched off.', types: page },
  { status: 404, description: 'There is no such file, folder or share.', types: page },
  { status: 410, description: 'The share has expired or is no longer valid.', types: page },
  { status: 429, description: 'Too many archives are being downloaded.', types: page },
  { status: 500, description: 'Unexpected error; the log of the server has details.', types: page },
  { status: 502, description: 'The storage failed.', types: page },
  { status: 503, description: 'The storage is busy.', types: page },
  { status: 504, description: 'The storage timed out.', types: page },
]

/** Seconds for which the URL of an archive is valid. */
const defaultValidity = 3600
const longestValidity = 7 * 24 * 3600

/** The modes of files and folders whose storage has none. */
const fileMode = 0o644
const folderMode = 0o755

const switchedOff: Refusal = {
  code: 403,
  text: 'archives are switched off',
  error: 'unsupported',
  when: 'the setting `package_download` is off',
}

const zipFields = z.object({
  path,
  names,
  password: text.describe('The password of the folder, or the code of the share. Default: the header `Password`.'),
})
type ZipFields = z.output<typeof zipFields>

export const zipEndpoints = [
  endpoint({
    method: 'any',
    path: '/api/fs/zip',
    tag: 'Downloads',
    summary: 'Download files and folders as a ZIP archive',
    description:
      'The archive is not compressed. It has what listings show to the user, with a symlink as what it leads to. If a file ' +
      'cannot be read or changes meanwhile, the connection is closed before the end. Errors are pages with real status codes. ' +
      'What a share has is for everybody, without a token.',
    access: 'anybody',
    readsToken: true,
    headers: treeHeaders,
    query: z.object({ sign: queryText.describe('The signature of a URL of `zip_link`, instead of a token.') }),
    fields: zipFields,
    parsesFields: true,
    plain,
    async answer(call) {
      const { api, context, query } = call
      const { req, res } = context
      context.respond = false
      try {
        const caller = query.sign === '' ? await callerOf(call) : undefined
        const fields = await zipFieldsOf(call, caller)
        const { address } = api.clientOf(req)
        if (pathInShare(fields.path) !== undefined) {
          await counted(api, networkOf(address), (reserve) => sendShared(call, fields, reserve))
          return
        }
        if (caller instanceof Error) throw caller
        const principal = caller ?? verifiedPrincipal(api, query.sign, fields, address)
        await counted(api, principal.holder, (reserve) => sendOwn(call, fields, principal, reserve))
      } catch (error) {
        logUnexpected(api.gateway.log, error, { protocol: api.protocol.name, method: req.method, url: context.path })
        if (res.headersSent) {
          // The client must not take what it has received for the whole archive.
          res.destroy()
          api.gateway.log.debug({ code: toGatewayError(error).code }, 'archive aborted')
          return
        }
        if (res.destroyed) return
        const { status, message, retryAfter } = toErrorResponse(error)
        if (retryAfter !== undefined) res.setHeader('Retry-After', Math.ceil(retryAfter))
        sendErrorPage(res, status, api.masks.apply(message))
        void drain(req)
      }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/fs/zip_link',
    tag: 'Downloads',
    summary: 'Get a URL of a ZIP archive that works without a token',
    description:
      'Whoever has the URL can download these files and folders as this user, who may read them without the password of a folder. ' +
      'That of a share works as long as the share, and has its code; `expires_in` does not apply.',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({
      path,
      names,
      expires_in: integer(defaultValidity)
        .refine((seconds) => seconds > 0 && seconds <= longestValidity, `must be from 1 to ${longestValidity}`)
        .describe('Seconds until the URL expires.'),
      password: text.describe('The code of the share. Default: the header `Password`.'),
    }),
    data: z.object({
      url: z.string(),
      expires: timestamp.describe('`0001-01-01T00:00:00Z`: with the share, which has no end.'),
    }),
    refusals: [...pathRefusals, ...visitorRefusals, switchedOff],
    visitors: {
      ...ofVisitors,
      async answer({ context, api, fields, headers }) {
        const { folder, names } = selectionOf(fields)
        assertOn(api)
        const visited = await openForVisitor(api, context, fields.path, fields.password || headers.password)
        const { share, at, code } = visited
        await asVisitor(() => share.assertMembersReadable(at, names, accessOptions(context, undefined)))
        const url = zipUrl(api, context, folder, names, code === '' ? {} : { password: code })
        return { url, expires: wireTime(share.share.expires) }
      },
    },
    async answer({ context, api, fields, principal }) {
      const selection = selectionOf(fields)
      assertOn(api)
      await withResponses({ denied: accessDenied }, () =>
        api.gateway
          .as(principal)
          .assertMembersReadable(selection.folder, selection.names, accessOptions(context, undefined)),
      )
      const signed = { ...selection, folder: under(principal.base, selection.folder) }
      const { signature, expires } = api.gateway.signedUrls.signSelection(principal.userId, signed, fields.expires_in)
      const { folder, names } = selection
      return { url: zipUrl(api, context, folder, names, { sign: signature }), expires: wireTime(expires) }
    },
  }),
]

/** The URL of an archive of these members. `proof`: why whoever has it may read them. */
function zipUrl(
  api: HttpApi,
  { req }: Exchange,
  folder: Path,
  names: readonly string[],
  proof: { readonly sign?: string; readonly password?: string },
): string {
  const query = new URLSearchParams({ path: folder })
  for (const name of names) query.append('names', name)
  for (const [field, value] of Object.entries(proof)) query.append(field, value)
  return `${api.clientOf(req).baseUrl}/api/fs/zip?${query.toString()}`
}

type ZipCall = Pick<Call<unknown, unknown, { readonly password?: string | undefined }>, 'api' | 'context' | 'headers'>

function assertOn({ gateway }: HttpApi): void {
  if (!gateway.settings.bool('package_download')) throw refused(switchedOff)
}

/** Checks the fields. */
function selectionOf(fields: Pick<ZipFields, 'path' | 'names'>): {
  readonly folder: Path
  readonly names: readonly string[]
} {
  const folder = cleanPath(fields.path)
  if (fields.names.length > maxNames) throw badRequest(`names: at most ${maxNames}`)
  fields.names.forEach(checkMemberName)
  return { folder, names: [...new Set(fields.names)] }
}

/** The principal for whom this selection was signed. */
function verifiedPrincipal(
  { gateway, protocol }: HttpApi,
  sign: string,
  fields: ZipFields,
  address: string,
): Principal {
  const { accounts, signedUrls } = gateway
  return signedUrls.verifySelection(sign, selectionOf(fields), (id) =>
    accounts.principals.forSignature(id, protocol, address),
  )
}

/** Who sends the request, or the error for one who may not: visitors need no account. */
async function callerOf({ api, context: { req, res } }: ZipCall): Promise<Principal | Error> {
  try {
    return await principalOf(api, req, res)
  } catch (error) {
    if (error instanceof Error) return error
    throw error
  }
}

/** The fields of the request. Rejects with the error for the caller, if there is one, before that for fields. */
async function zipFieldsOf({ context }: ZipCall, caller: Principal | Error | undefined): Promise<ZipFields> {
  try {
    return checkFields(zipFields, await fieldsOf(context, bodyLimit))
  } catch (error) {
    throw caller instanceof Error ? caller : error
  }
}

type Reserve = (bytes: number) => void

/** Runs `work` while it counts as a running download of the holder. */
async function counted(api: HttpApi, holder: Holder, work: (reserve: Reserve) => Promise<void>): Promise<void> {
  const download = api.zips.begin(holder)
  try {
    await work((bytes) => download.reserve(bytes))
  } finally {
    download.end()
  }
}

/** What is put into an archive. */
interface ZipContent {
  /** The name of the archive, without its extension. */
  readonly name: string
  assertReadable(options: AccessOptions): Promise<void>
  members(options: AccessOptions): AsyncIterable<SharedMember>
}

async function sendOwn(call: ZipCall, fields: ZipFields, principal: Principal, reserve: Reserve): Promise<void> {
  const { folder, names } = selectionOf(fields)
  assertOn(call.api)
  const fs = call.api.gateway.as(principal)
  const content: ZipContent = {
    name: archiveName(folder === root ? 'files' : nameOf(folder), names),
    assertReadable: (options) => fs.assertMembersReadable(folder, names, options),
    async *members(options) {
      for await (const { path: at, entry } of fs.members(folder, names, options)) {
        yield { fs, path: at, entry, name: (within(folder, at) ?? at).slice(1) }
      }
    },
  }
  await send(call, content, fields.password || call.headers.password, reserve)
}

async function sendShared(call: ZipCall, fields: ZipFields, reserve: Reserve): Promise<void> {
  const { api, context, headers } = call
  const { names } = selectionOf(fields)
  assertOn(api)
  const visited = await openForVisitor(api, context, fields.path, fields.password || headers.password)
  // The code of a share opens no folder.
  await asVisitor(() => send(call, sharedContent(visited, names), undefined, reserve))
}

function sharedContent({ share, at, id }: VisitorPath, names: readonly string[]): ZipContent {
  const place = share.at(at)
  return {
    name: archiveName(place.kind === 'roots' ? id : place.name, names),
    assertReadable: (options) => share.assertMembersReadable(at, names, options),
    members: (options) => share.members(at, names, options),
  }
}

/** Sends the archive. Rejects before the header section is sent if that can be known, or in the middle. */
async function send(
  { context: { req, res } }: ZipCall,
  content: ZipContent,
  password: string | undefined,
  reserve: Reserve,
): Promise<void> {
  const options = { signal: signalOf(res), password }
  await content.assertReadable(options)
  const archive = zipArchive(zipMembers(content.members(options), options), reserve)
  try {
    // The first file is opened before the header section is sent.
    const first = await archive.next()
    res.writeHead(200, {
      'Content-Type': 'application/zip',
      'Content-Disposition': contentDisposition(`${content.name}.zip`),
      'X-Content-Type-Options': 'nosniff',
      'Cache-Control': 'no-store',
    })
    if (req.method === 'HEAD') res.end()
    else await sendStream(Readable.from(startingWith(first, archive), { objectMode: false }), res)
  } finally {
    await archive.return(undefined)
  }
}

/** The name of the only member, or of the folder. */
function archiveName(folder: string, [only, ...others]: readonly string[]): string {
  return only !== undefined && others.length === 0 ? only : folder
}

async function* zipMembers(members: AsyncIterable<SharedMember>, options: AccessOptions): AsyncGenerator<ZipMember> {
  for await (const { fs, path: at, entry, name } of members) {
    if (entry.kind === 'folder') yield { name, modified: entry.modified, mode: entry.mode ?? folderMode }
    else yield* zipFile(fs, at, name, options)
  }
}

/** Yields a file, which is closed afterwards. Its content fails if it has changed when it was read. */
async function* zipFile(fs: VirtualFs, at: Path, name: string, options: AccessOptions): AsyncGenerator<ZipMember> {
  // The entry of a listing may be older than the content.
  const entry = await fs.stat(at, { ...options, refresh: true })
  const stream = await fs.read(at, undefined, { ...options, entry })
  const bytes = async function* (): AsyncGenerator<Buffer> {
    yield* stream as AsyncIterable<Buffer>
    const after = await fs.stat(at, { ...options, refresh: true })
    if (contentVersion(after) === contentVersion(entry)) return
    throw new GatewayError('aborted', { op: 'read', path: at, reason: 'the file has changed while it was sent' })
  }
  try {
    const { size, modified, mode = fileMode } = entry
    yield { name, modified, mode, content: { size, bytes: bytes() } }
  } finally {
    stream.destroy()
  }
}
