/** Several files and folders as one ZIP archive, which is written while it is sent. */
import { Readable } from 'node:stream'
import { z } from 'zod'
import type { Principal } from '../../../src/accounts/principal.js'
import { contentVersion } from '../../../src/contract/entry.js'
import { GatewayError, toGatewayError } from '../../../src/base/errors.js'
import { checkMemberName, cleanPath, nameOf, root, under, within, type Path } from '../../../src/base/path.js'
import type { AccessOptions } from '../../../src/tree/operation-options.js'
import type { TreeMember, VirtualFs } from '../../../src/tree/virtual-fs.js'
import { drain } from '../../lib/request-body.js'
import { contentDisposition, sendStream, startingWith } from '../../lib/send.js'
import { zipArchive, type ZipMember } from '../files/zip-format.js'
import { accessOptions, treeHeaders } from '../api/access-options.js'
import { principalOf } from '../api/authenticate.js'
import { endpoint, type Call, type PlainResponse, type Refusal } from '../api/endpoint.js'
import { badRequest, logUnexpected, refused, toErrorResponse, withResponses } from '../api/errors.js'
import { bodyLimit, checkFields, fieldsOf, integer, queryText, stringList, text } from '../api/fields.js'
import { signalOf, type HttpApi } from '../api/http-api.js'
import { wireTime } from '../compat/object.js'
import { sendErrorPage } from '../site/pages.js'
import { accessDenied, pathRefusals } from '../api/refusals.js'
import { timestamp } from '../api/schemas.js'

const path = text.meta({ example: '/folder' }).describe('The folder, relative to the base folder of the user.')
/** Names of one archive: they are checked and signed in one turn of the event loop. */
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
  { status: 404, description: 'There is no such file or folder.', types: page },
  { status: 429, description: 'Too many archives are being downloaded.', types: page },
  { status: 500, description: 'Unexpected error; the log of the server has details.', types: page },
  { status: 502, description: 'The storage failed.', types: page },
  { status: 503, description: 'The storage is busy.', types: page },
  { status: 504, description: 'The storage timed out.', types: page },
]

/** Seconds. */
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
  password: text.describe('The password of the folder. Default: the header `Password`.'),
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
      'cannot be read or changes meanwhile, the connection is closed before the end. Errors are pages with real status codes.',
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
        // Who sends no valid token is refused before the body is read.
        const caller = query.sign === '' ? await principalOf(api, req, res) : undefined
        const fields = checkFields(zipFields, await fieldsOf(context, bodyLimit))
        const principal = caller ?? verifiedPrincipal(api, query.sign, fields, api.clientOf(req).address)
        const download = api.zips.begin(principal.holder)
        try {
          await send(call, fields, principal, (bytes) => download.reserve(bytes))
        } finally {
          download.end()
        }
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
      'Whoever has the URL can download these files and folders as this user, who may read them without the password of a folder.',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({
      path,
      names,
      expires_in: integer(defaultValidity)
        .refine((seconds) => seconds > 0 && seconds <= longestValidity, `must be from 1 to ${longestValidity}`)
        .describe('Seconds until the URL expires.'),
    }),
    data: z.object({ url: z.string(), expires: timestamp }),
    refusals: [...pathRefusals, switchedOff],
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
      const query = new URLSearchParams({ path: selection.folder })
      for (const name of selection.names) query.append('names', name)
      query.append('sign', signature)
      return { url: `${api.clientOf(context.req).baseUrl}/api/fs/zip?${query.toString()}`, expires: wireTime(expires) }
    },
  }),
]

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
  return signedUrls.verifySelection(sign, selectionOf(fields), (id) => accounts.forSignature(id, protocol, address))
}

/** Sends the archive. Rejects before the header section is sent if that can be known, or in the middle. */
async function send(
  { api, context, headers }: ZipCall,
  fields: ZipFields,
  principal: Principal,
  reserve: (bytes: number) => void,
): Promise<void> {
  const { req, res } = context
  const { folder, names: selected } = selectionOf(fields)
  assertOn(api)
  const fs = api.gateway.as(principal)
  const options = { signal: signalOf(res), password: fields.password || headers.password }
  await fs.assertMembersReadable(folder, selected, options)
  const archive = zipArchive(zipMembers(fs, folder, fs.members(folder, selected, options), options), reserve)
  try {
    // The first file is opened before the header section is sent.
    const first = await archive.next()
    res.writeHead(200, {
      'Content-Type': 'application/zip',
      'Content-Disposition': contentDisposition(`${archiveName(folder, selected)}.zip`),
      'X-Content-Type-Options': 'nosniff',
      'Cache-Control': 'no-store',
    })
    if (req.method === 'HEAD') res.end()
    else await sendStream(Readable.from(startingWith(first, archive), { objectMode: false }), res)
  } finally {
    await archive.return(undefined)
  }
}

function archiveName(folder: Path, selected: readonly string[]): string {
  const [only] = selected
  if (only !== undefined && selected.length === 1) return only
  return folder === root ? 'files' : nameOf(folder)
}

async function* zipMembers(
  fs: VirtualFs,
  folder: Path,
  members: AsyncIterable<TreeMember>,
  options: AccessOptions,
): AsyncGenerator<ZipMember> {
  for await (const { path: at, entry } of members) {
    const name = (within(folder, at) ?? at).slice(1)
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
