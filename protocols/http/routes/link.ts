/** The direct address of a file, for an admin's programs: the proxy that a storage names asks for it. */
import { z } from 'zod'
import { cleanPath, encodePath, root } from '../../../src/path.js'
import { signalOf } from '../context.js'
import { endpoint } from '../endpoint.js'
import { text } from '../fields.js'
import { absoluteUrl } from '../object.js'
import { pathRefusals } from '../refusals.js'

export const linkEndpoints = [
  endpoint({
    method: 'post',
    path: '/api/fs/link',
    tag: 'Links',
    summary: 'The direct address of a file',
    description:
      'Where the storage has none, a link to this server that passes the storage’s `down_proxy_url` by: of a folder too, and of what is not there.',
    access: 'admin',
    fields: z.object({ path: text.describe('From the root of the whole tree.') }),
    data: z.object({
      url: z.string(),
      header: z.record(z.string(), z.array(z.string())).nullable().describe('What a request for it must carry.'),
      concurrency: z.literal(0),
      part_size: z.literal(0),
      content_length: z.literal(0),
      Expiration: z.number().nullable().describe('Nanoseconds for which it is good, where that is known.'),
    }),
    refusals: pathRefusals,
    async answer({ context, door, fields, principal }) {
      const path = cleanPath(fields.path)
      const { baseUrl } = door.clientOf(context.req)
      const fs = door.gateway.as({ ...principal, base: root })
      const link = await fs.link(path, { signal: signalOf(context.res) })
      const own = () => `/p${encodePath(path)}?d&sign=${door.gateway.links.sign(path)}`
      return {
        url: absoluteUrl(baseUrl, link?.url ?? own()),
        header: link?.headers ? headerLists(link.headers) : null,
        concurrency: 0 as const,
        part_size: 0 as const,
        content_length: 0 as const,
        Expiration: link?.until ? nanosecondsUntil(link.until) : null,
      }
    },
  }),
]

/** On the wire a header may have several values. */
function headerLists(headers: Readonly<Record<string, string>>): Record<string, string[]> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]]))
}

function nanosecondsUntil(time: Date): number {
  return Math.max(0, time.getTime() - Date.now()) * 1_000_000
}
