/** The OpenAPI document and the API reference page. */
import { docsPage } from '../docs-page.js'
import { endpoint, type EndpointDescription, type Endpoint } from '../endpoint.js'
import { openApiDocument, type OpenApiDocument } from '../openapi.js'
import { pageHeaders } from '../pages.js'

/** The document contains the base URL that this client uses, so shared caches must not store it. */
const cacheControl = 'private, no-cache'

/** `described` returns everything that the document describes, including these two endpoints. */
export function documentationEndpoints(described: () => readonly EndpointDescription[]): readonly Endpoint[] {
  let cached: OpenApiDocument | undefined

  /** The document with `site` as its server. Generated on first use. */
  function documentFor(site: string): OpenApiDocument {
    cached ??= openApiDocument(described())
    return { ...cached, servers: [{ url: site }] }
  }

  return [
    endpoint({
      method: 'get',
      path: '/api/openapi.json',
      tag: 'Documentation',
      summary: 'Get the OpenAPI 3.1 document',
      access: 'anybody',
      plain: [{ status: 200, description: 'The document, without an envelope.', types: ['application/json'] }],
      answer({ context, api }) {
        context.set('Cache-Control', cacheControl)
        context.body = documentFor(api.clientOf(context.req).baseUrl)
      },
    }),
    endpoint({
      method: 'get',
      path: '/api/docs',
      tag: 'Documentation',
      summary: 'Get the API reference as a page',
      access: 'anybody',
      plain: [{ status: 200, description: 'An HTML page.', types: ['text/html'] }],
      answer({ context, api }) {
        context.set({ ...pageHeaders, 'Cache-Control': cacheControl })
        context.body = docsPage(documentFor(api.clientOf(context.req).baseUrl))
      },
    }),
  ]
}
