/** Rows that send one kind of request many times over keep-alive connections. */
import { HttpClient, inStreams, type Exchange } from './http-client.js'
import type { HttpProtocol, Peer } from './peers/peer.js'
import { wrk } from './programs.js'
import { scaled, type Aim, type Bench, type Row } from './row.js'
import { sampled, seconds } from './samples.js'

interface Requests {
  readonly name: string
  readonly title: (count: number) => string
  /** `s`: total of all requests; `ms`: per request. */
  readonly unit: 's' | 'ms'
  readonly aims: readonly Aim[]
  readonly count: number
  readonly connections: number
  readonly prepare?: (bench: Bench) => Promise<unknown>
  /** Prepares without being measured. Resolves to the requests, or undefined if the peer does not support them. */
  readonly begin: (
    peer: Peer,
    send: (exchange: Exchange) => Promise<unknown>,
    count: number,
  ) => Promise<((index: number) => Exchange) | undefined>
}

export function requests({ name, title, unit, aims, count: amount, connections, prepare, begin }: Requests): Row {
  return {
    name,
    figures: (bench) => [{ title: title(scaled(bench, amount)), unit, aims }],
    ...(prepare && { prepare }),
    async measure(peer, bench) {
      const count = scaled(bench, amount)
      const client = new HttpClient(connections)
      const send = (exchange: Exchange) => client.send(exchange)
      try {
        const exchange = await begin(peer, send, count)
        if (exchange === undefined) return undefined
        const work = () => inStreams(count, connections, (index) => send(exchange(index)))
        const sample = sampled(peer, async () => {
          const taken = await seconds(work)
          return { value: unit === 's' ? taken : (taken * 1000) / count, requests: count }
        })
        return [await sample]
      } finally {
        client.close()
      }
    },
  }
}

interface OftenAsked {
  readonly name: string
  readonly title: (bench: Bench) => string
  readonly aims: readonly Aim[]
  readonly prepare: (bench: Bench) => Promise<unknown>
  /** The request; undefined if the peer does not support it. */
  readonly request: (peer: Peer, bench: Bench) => HttpProtocol | undefined | Promise<HttpProtocol | undefined>
}

/** The number of responses that wrk receives over 16 connections in four seconds. */
export function oftenAsked({ name, title, aims, prepare, request }: OftenAsked): Row {
  return {
    name,
    figures: (bench) => [{ title: `${title(bench)}, 16 connections, wrk`, unit: '/s', aims }],
    prepare,
    async measure(peer, bench) {
      const asked = await request(peer, bench)
      return asked && [await sampled(peer, () => wrk(asked, scaled(bench, 4)))]
    },
  }
}
