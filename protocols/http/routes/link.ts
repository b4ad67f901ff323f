/** URLs of files: direct ones, for programs of an admin such as the proxy at `down_proxy_url`, and ones to share. */
import { z } from 'zod'
import { GatewayError } from '../../../src/base/errors.js'
import { cleanPath, encodePath, under } from '../../../src/base/path.js'
import { accessOptions, treeHeaders } from '../api/access-options.js'
import { signalOf } from '../api/http-api.js'
import { endpoint } from '../api/endpoint.js'
import { withResponses } from '../api/errors.js'
import { integer, requiredText, text } from '../api/fields.js'
import { absoluteUrl, wireTime } from '../compat/object.js'
import { accessDenied, pathRefusals, coreRefusal } from '../api/refusals.js'
import { timestamp } from '../api/schemas.js'

/** The longest validity of a shared URL that has an end, in seconds: a hundred years. */
const longestValidity = 3_155_760_000

export const linkEndpoints = [
  endpoint({
    method: 'post',
    path: '/api/fs/link',
    tag: 'Downloads',
    summary: 'Get the direct URL of a file',
    description:
      'If the storage has no direct URL, returns a signed URL of this server that does not use `down_proxy_url`. ' +
      'This includes folders and paths that do not exist.',
    access: 'admin',
    fields: z.object({ path: requiredText.describe('The path in the whole tree.') }),
    data: z.object({
      url: z.string(),
      header: z
        .record(z.string(), z.array(z.string()))
        .nullable()
        .describe('Headers that a request for the URL must have.'),
      concurrency: z.literal(0),
      part_size: z.literal(0),
      content_length: z.literal(0),
      Expiration: z.number().nullable().describe('The remaining validity of the URL in nanoseconds; null if unknown.'),
    }),
    refusals: pathRefusals,
    async answer({ context, api, fields, principal }) {
      const path = cleanPath(fields.path)
      const client = api.clientOf(context.req)
      const { baseUrl } = client
      const fs = api.gateway.asAdmin(principal)
      // The caller hands the URL on, so its own User-Agent is not that of the client. The driver then names a header.
      const direct = await fs.directUrl(path, { signal: signalOf(context.res), address: client.address })
      const signedUrl = () => `/p${encodePath(path)}?d&sign=${api.gateway.signedUrls.sign(path)}`
      return {
        url: absoluteUrl(baseUrl, direct?.url ?? signedUrl()),
        header: direct?.headers ? headerLists(direct.headers) : null,
        concurrency: 0 as const,
        part_size: 0 as const,
        content_length: 0 as const,
        Expiration: direct?.until ? nanosecondsUntil(direct.until) : null,
      }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/fs/share_link',
    tag: 'Downloads',
    summary: 'Get a URL of a file that works without an account',
    description: 'For every user who may read the file. Whoever has the URL can read this file, and nothing else.',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({
      path: requiredText.meta({ example: '/folder/file.txt' }).describe('Relative to the base folder of the user.'),
      password: text.describe('The password of the folder. Default: the header `Password`.'),
      expires_in: integer(0)
        .refine((seconds) => seconds >= 0 && seconds <= longestValidity, `must be from 0 to ${longestValidity}`)
        .describe('Seconds until the URL expires. 0: never. The setting `link_expiration` is a limit.'),
    }),
    data: z.object({
      url: z.string(),
      expires: timestamp.nullable().describe('null if the URL does not expire.'),
    }),
    refusals: [
      ...pathRefusals,
      coreRefusal('denied', {}, 'a grant lets the user see the file and does not let the user read it'),
    ],
    async answer({ context, api, fields, headers, principal }) {
      const path = cleanPath(fields.path)
      const options = accessOptions(context, fields.password || headers.password)
      const { entry } = await withResponses({ denied: accessDenied }, () =>
        api.gateway.as(principal).view(path, options),
      )
      if (entry.kind === 'folder') throw new GatewayError('is_folder')
      if (entry.kind === 'symlink') throw new GatewayError('not_found')
      if (entry.unreadable === true) throw new GatewayError('denied')
      const at = under(principal.base, path)
      const { signature, expires } = api.gateway.signedUrls.signFor(at, fields.expires_in)
      const { baseUrl } = api.clientOf(context.req)
      return {
        url: `${baseUrl}/d${encodePath(at)}?sign=${signature}`,
        expires: expires === undefined ? null : wireTime(expires),
      }
    },
  }),
]

/** Each header as a list of values, the format of the API. */
function headerLists(headers: Readonly<Record<string, string>>): Record<string, string[]> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]]))
}

function nanosecondsUntil(time: Date): number {
  return Math.max(0, time.getTime() - Date.now()) * 1_000_000
}
