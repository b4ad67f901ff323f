/** OpenAPI descriptions of /d and /p. Requests to them bypass the router: see download.ts. */
import { z } from 'zod'
import type { EndpointDescription, PlainResponse } from './endpoint.js'

const page = ['text/html']
const responses: readonly PlainResponse[] = [
  { status: 200, description: 'The content of the file.', types: ['*/*'] },
  { status: 206, description: 'The ranges that the `Range` header requests.', types: ['*/*'] },
  { status: 302, description: 'Redirects to the direct URL of the file, or to the `down_proxy_url` of the storage.' },
  { status: 304, description: 'The copy of the client is current, according to the conditional headers.' },
  { status: 400, description: 'The path is malformed or that of a folder.', types: page },
  { status: 401, description: 'The signature is missing, wrong or expired.', types: page },
  { status: 403, description: 'A folder rule denies access, or the path contains `..`.', types: page },
  { status: 404, description: 'There is no such file.', types: page },
  { status: 412, description: 'A precondition of the request failed.' },
  { status: 416, description: 'The range is outside of the file.' },
  { status: 500, description: 'Unexpected error; the log of the server has details.', types: page },
  { status: 501, description: 'The storage does not support the operation.', types: page },
  { status: 502, description: 'The storage failed.', types: page },
  { status: 503, description: 'The storage is busy.', types: page },
  { status: 504, description: 'The storage timed out.', types: page },
]

const download = {
  method: 'get',
  tag: 'Downloads',
  access: 'anybody',
  params: z.object({
    path: z
      .string()
      .meta({ example: 'folder/file.txt' })
      .describe('The absolute path of the file, with each segment percent-encoded and slashes unencoded.'),
  }),
  query: z.object({
    sign: z.string().optional().describe('The signature: the field `sign` of the file. Not needed if that is empty.'),
    type: z.string().optional().describe('`thumb`: the thumbnail of the file, if it has one.'),
    d: z.string().optional().describe('If present, with any value, the `down_proxy_url` of the storage is not used.'),
  }),
} as const

export const downloadDescriptions: readonly EndpointDescription[] = [
  {
    ...download,
    path: '/d/{path}',
    summary: 'Download a file, from the backend if it has a direct URL',
    description: 'HEAD is supported.',
    plain: responses,
  },
  {
    ...download,
    path: '/p/{path}',
    summary: 'Download a file through this server',
    description:
      'HEAD is supported. With the cookie of a console session, never redirects and sends any file that the signature permits.',
    plain: responses,
  },
]
