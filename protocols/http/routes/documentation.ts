/** The document of the API: for programs as JSON, for people as a page. */
import { docsPage } from '../docs-page.js'
import { endpoint, type Description, type Endpoint } from '../endpoint.js'
import { openApiDocument, type OpenApiDocument } from '../openapi.js'
import { pageHeaders } from '../pages.js'

/** The address in it is the one that this client came by: a proxy must not show it to others. */
const cacheControl = 'private, no-cache'

/** `described`: everything that the document tells of, these two endpoints among them. */
export function documentationEndpoints(described: () => readonly Description[]): readonly Endpoint[] {
  let kept: OpenApiDocument | undefined

  /** Made when it is first asked for; only the address differs from client to client. */
  function documentFor(site: string): OpenApiDocument {
    kept ??= openApiDocument(described())
    return { ...kept, servers: [{ url: site }] }
  }

  return [
    endpoint({
      method: 'get',
      path: '/api/openapi.json',
      tag: 'Documentation',
      summary: 'The API as an OpenAPI 3.1 document',
      access: 'anybody',
      plain: [{ status: 200, description: 'The document, without an envelope.', types: ['application/json'] }],
      answer({ context, door }) {
        context.set('Cache-Control', cacheControl)
        context.body = documentFor(door.clientOf(context.req).baseUrl)
      },
    }),
    endpoint({
      method: 'get',
      path: '/api/docs',
      tag: 'Documentation',
      summary: 'The API as a page to read',
      access: 'anybody',
      plain: [{ status: 200, description: 'A page.', types: ['text/html'] }],
      answer({ context, door }) {
        context.set({ ...pageHeaders, 'Cache-Control': cacheControl })
        context.body = docsPage(documentFor(door.clientOf(context.req).baseUrl))
      },
    }),
  ]
}
