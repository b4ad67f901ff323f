/** Direct URLs of files, for programs of an admin such as the proxy at `down_proxy_url`. */
import { z } from 'zod'
import { cleanPath, encodePath } from '../../../src/contract/path.js'
import { signalOf } from '../http-api.js'
import { endpoint } from '../endpoint.js'
import { text } from '../fields.js'
import { absoluteUrl } from '../object.js'
import { pathRefusals } from '../refusals.js'

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
    fields: z.object({ path: text.describe('The path in the whole tree.') }),
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
]

/** Each header as a list of values, the format of the API. */
function headerLists(headers: Readonly<Record<string, string>>): Record<string, string[]> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]]))
}

function nanosecondsUntil(time: Date): number {
  return Math.max(0, time.getTime() - Date.now()) * 1_000_000
}
