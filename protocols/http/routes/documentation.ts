/** The OpenAPI document and the API reference page. */
import { createHash } from 'node:crypto'
import { docsPage } from '../api/docs-page.js'
import { endpoint, type EndpointDescription, type Endpoint } from '../api/endpoint.js'
import { forText } from '../api/escape.js'
import type { Exchange, HttpApi } from '../api/http-api.js'
import { openApiDocument } from '../api/openapi.js'
import { pageHeaders } from '../site/pages.js'

/** The document contains the base URL that this client uses, so shared caches must not store it. */
const cacheControl = 'private, no-cache'

/** `described` returns everything that the document describes, including these two endpoints. */
export function documentationEndpoints(described: () => readonly EndpointDescription[]): readonly Endpoint[] {
  const generate = () => ({ ...openApiDocument(described()), servers: [{ url: sitePlaceholder }] })
  const json = new SiteText(
    () => JSON.stringify(generate()),
    (site) => JSON.stringify(site).slice(1, -1),
  )
  const page = new SiteText(() => docsPage(generate()), forText)

  /** Sends the text for this client, or 304. */
  function send(text: SiteText, context: Exchange, api: HttpApi): void {
    const site = api.clientOf(context.req).baseUrl
    context.set('Cache-Control', cacheControl)
    context.status = 200
    context.etag = text.tagFor(site)
    if (context.fresh) context.status = 304
    else context.body = text.for(site)
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
        context.type = 'json'
        send(json, context, api)
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
        context.set(pageHeaders)
        send(page, context, api)
      },
    }),
  ]
}

/** Stands for the base URL in a text that is generated once. No escaping changes it. */
const sitePlaceholder = 'https://tidegate-site.invalid'

/**
 * A text that contains the base URL of the client. It is generated on first use, because that takes tens of
 * milliseconds.
 */
class SiteText {
  #parts: readonly string[] | undefined
  #digest = ''

  /** `escape`: the base URL as the text contains it. */
  constructor(
    private readonly generate: () => string,
    private readonly escape: (site: string) => string,
  ) {}

  for(site: string): string {
    return this.#generated().join(this.escape(site))
  }

  /** The entity tag, without quotes, of the text for a base URL. */
  tagFor(site: string): string {
    this.#generated()
    return createHash('sha256').update(this.#digest).update(site).digest('base64url')
  }

  #generated(): readonly string[] {
    if (this.#parts === undefined) {
      const text = this.generate()
      this.#parts = text.split(sitePlaceholder)
      this.#digest = createHash('sha256').update(text).digest('base64url')
    }
    return this.#parts
  }
}
