/** A server for tests of API clients: it answers by a function, and records when each request came. */
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'
import { KeyedMutex } from '../../../../drivers/lib/keyed-mutex.js'
import type { DriverState, JournalEntry } from '../../../../src/contract/driver-env.js'

export interface SeenRequest {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
  /** Milliseconds of `performance.now()`. */
  readonly at: number
  /** Number of the connection, from 1. */
  readonly connection: number
}

export type VendorAnswer = (request: SeenRequest, response: ServerResponse) => void

/** A listener that answers so, and what it has seen. */
export function recorded(answer: VendorAnswer): { listener: RequestListener; seen: readonly SeenRequest[] } {
  const seen: SeenRequest[] = []
  const connections: unknown[] = []
  const listener: RequestListener = (request, response) => {
    const at = performance.now()
    if (!connections.includes(request.socket)) connections.push(request.socket)
    const connection = connections.indexOf(request.socket) + 1
    void text(request).then((body) => {
      const { method = '', url: path = '', headers } = request
      const one = { method, path, headers, body, at, connection }
      seen.push(one)
      answer(one, response)
    })
  }
  return { listener, seen }
}

export async function startVendor(t: Test, answer: VendorAnswer, host = '127.0.0.1') {
  const { listener, seen } = recorded(answer)
  const server = createServer(listener)
  server.listen(0, host)
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { address: new URL(`http://${host}:${(server.address() as AddressInfo).port}/`), seen }
}

export function sendJson(response: ServerResponse, value: unknown, status = 200, headers = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value))
}

/** A driver's state in memory, which can be made to fail. An entry of a journal has the key `<journal>@<number>`. */
export function memoryState(values = new Map<string, string>()) {
  const failures: Error[] = []
  const state: DriverState = {
    get: async (key) => values.get(key),
    set: async (key, value) => {
      const failure = failures.shift()
      if (failure) throw failure
      if (value === undefined) values.delete(key)
      else values.set(key, value)
    },
    exclusively: (key, work) => turns.run(key, work),
    journal: (key) => {
      const entry = (name: string): JournalEntry => ({
        set: (value) => state.set(name, value === undefined ? undefined : JSON.stringify(value)),
      })
      return {
        entry: () => entry(`${key}@${++entries}`),
        adopt: async (adopt) => {
          const list = parsed(values.get(key) ?? '[]')
          values.delete(key)
          for (const value of Array.isArray(list) ? list : []) values.set(`${key}@${++entries}`, JSON.stringify(value))
          const names = [...values.keys()].filter((name) => name.startsWith(`${key}@`))
          adopt(names.map((name) => ({ entry: entry(name), value: parsed(values.get(name) ?? '') })))
        },
      }
    },
  }
  return { state, values, failures }
}

let entries = 0
/** The turns of all states: they belong to nodes of one database. */
const turns = new KeyedMutex()

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The values of the entries of a journal in this state. */
export function entriesOf({ values }: Pick<ReturnType<typeof memoryState>, 'values'>, journal: string): unknown[] {
  return [...values].flatMap(([key, value]) => (key.startsWith(`${journal}@`) ? [parsed(value)] : []))
}

/** The largest number of these times, in milliseconds and ascending, that lie within any second. */
export function mostInOneSecond(times: readonly number[]): number {
  return Math.max(...times.map((start) => times.filter((time) => time >= start && time < start + 1000).length))
}
