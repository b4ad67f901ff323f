/** A web server on loopback that answers each request by a script of the test. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'

type Script = (request: IncomingMessage, answer: ServerResponse, turn: number) => unknown

export interface ScriptedServer {
  readonly url: string
  readonly port: number
  /** The path of each request, and its headers that ask for a part. */
  readonly asked: { readonly url: string; readonly range?: string; readonly ifRange?: string }[]
}

/** Stops with the test, even while requests are in progress. `host`: another loopback address. */
export async function startScripted(t: Test, script: Script, host = '127.0.0.1'): Promise<ScriptedServer> {
  const asked: { url: string; range?: string; ifRange?: string }[] = []
  const server = createServer((request, answer) => {
    const { range, 'if-range': ifRange } = request.headers
    asked.push({ url: request.url ?? '', ...(range && { range }), ...(typeof ifRange === 'string' && { ifRange }) })
    answer.on('error', () => undefined)
    script(request, answer, asked.length)
  }).listen(0, host)
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { url: `http://${host}:${port}`, port, asked }
}

/** `start` of `bytes 100-` and the like; 0 without a range. */
export function rangeStart({ headers: { range } }: IncomingMessage): number {
  return Number(/^bytes=(\d+)-$/.exec(range ?? '')?.[1] ?? 0)
}
