/** A request whose target and headers are sent unchanged; `fetch` would normalize them. */
import { once } from 'node:events'
import { request, type IncomingHttpHeaders, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http'
import { text } from 'node:stream/consumers'

interface RawAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

export async function rawRequest(
  url: string,
  { path, method = 'GET', headers = {} }: { path: string; method?: string; headers?: OutgoingHttpHeaders },
): Promise<RawAnswer> {
  const { hostname, port } = new URL(url)
  const asked = request({ hostname, port, path, method, headers, agent: false }).end()
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  return { status: answer.statusCode ?? 0, headers: answer.headers, body: await text(answer) }
}
