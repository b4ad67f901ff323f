/** Rows that are one kind of request, sent many times over keep-alive connections. */
import { HttpClient, inStreams, type Exchange } from './http-client.js'
import type { HttpDoor, Peer } from './peers/peer.js'
import { wrk } from './programs.js'
import { scaled, type Aim, type Bench, type Row } from './row.js'
import { sampled, seconds } from './samples.js'

export interface Requests {
  readonly name: string
  readonly title: (count: number) => string
  /** `s`: of all requests together; `ms`: of each. */
  readonly unit: 's' | 'ms'
  readonly aims: readonly Aim[]
  readonly count: number
  readonly connections: number
  readonly prepare?: (bench: Bench) => Promise<unknown>
  /** Does what has to precede the requests and is not measured; resolves to the requests, or undefined: the peer has none such. */
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

export interface OftenAsked {
  readonly name: string
  readonly title: (bench: Bench) => string
  readonly aims: readonly Aim[]
  readonly prepare: (bench: Bench) => Promise<unknown>
  /** The request; undefined: the peer has none such. */
  readonly request: (peer: Peer, bench: Bench) => HttpDoor | undefined | Promise<HttpDoor | undefined>
}

/** As many as wrk gets answered over 16 connections within four seconds. */
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
