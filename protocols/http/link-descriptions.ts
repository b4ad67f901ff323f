/** Links to files, as the document of the API tells of them. They are answered before the router: see download.ts. */
import { z } from 'zod'
import type { Description, PlainAnswer } from './endpoint.js'

const page = ['text/html']
const answers: readonly PlainAnswer[] = [
  { status: 200, description: 'The bytes of the file.', types: ['*/*'] },
  { status: 206, description: 'The part, or the parts, that a `Range` header asks for.', types: ['*/*'] },
  { status: 302, description: 'To the direct address of the file, or to the proxy that the storage names.' },
  { status: 304, description: 'The conditional headers say that the client has it already.' },
  { status: 400, description: 'The path is malformed, or names a folder.', types: page },
  { status: 401, description: 'The signature is missing, wrong or expired.', types: page },
  { status: 403, description: 'A folder rule closes it, or the path climbs with `..`.', types: page },
  { status: 404, description: 'There is no such file.', types: page },
  { status: 412, description: 'A conditional header does not hold.' },
  { status: 416, description: 'The file has no such part.' },
  { status: 500, description: 'Nobody foresaw it; the log of the server says more.', types: page },
  { status: 501, description: 'The storage cannot do it.', types: page },
  { status: 502, description: 'The storage fails.', types: page },
  { status: 503, description: 'The storage is busy.', types: page },
  { status: 504, description: 'The storage does not answer in time.', types: page },
]

const link = {
  method: 'get',
  tag: 'Links',
  access: 'anybody',
  params: z.object({
    path: z
      .string()
      .meta({ example: 'folder/file.txt' })
      .describe('The whole path of the file, each segment percent-encoded; slashes stay as they are.'),
  }),
  query: z.object({
    sign: z.string().optional().describe('The signature of the link: `sign` of the file, where that is not empty.'),
    type: z.string().optional().describe('`thumb`: a small picture of the file, where there is one.'),
    d: z.string().optional().describe('Whatever it holds: not through the proxy that the storage names.'),
  }),
} as const

export const linkDescriptions: readonly Description[] = [
  {
    ...link,
    path: '/d/{path}',
    summary: 'The bytes of a file, from the backend where it has a direct address',
    description: 'HEAD is answered, too.',
    plain: answers,
  },
  {
    ...link,
    path: '/p/{path}',
    summary: 'The bytes of a file, through this server',
    description: 'HEAD is answered, too.',
    plain: answers,
  },
]
