/** What the audit costs: the same changes with it, with it strict, and without it, by turns. */
import { setTimeout as wait } from 'node:timers/promises'
import { newName, smallContent } from './content.js'
import type { Exchange } from './http-client.js'
import { against, byTurns, freshAdmin, type Request } from './one-daemon.js'
import { isTidegate } from './peers/tidegate.js'
import { scaled, type Row } from './row.js'

/** The settings of each turn. The first is what the others are compared with. */
const turns = [
  { audit_enabled: false, audit_strict: false },
  { audit_enabled: true, audit_strict: false },
  { audit_enabled: true, audit_strict: true },
]

/** Milliseconds after which all events of a turn are in the database. */
const groupTime = 400

const methods = ['PUT', 'GET', 'MOVE', 'DELETE'] as const

/** `at`: the number of the request, of all requests of this method. */
type ExchangeOf = (at: number) => Exchange

export const auditRows: readonly Row[] = [
  {
    name: 'audit',
    figures: () =>
      methods.flatMap((method) => [
        { title: `${method} of 1 KiB over WebDAV without the audit, one connection`, unit: 'ms', aims: [] },
        {
          title: 'the same with the audit, against that',
          unit: 'times',
          aims: method === 'PUT' ? [{ atMost: 1.1 }] : [],
        },
        { title: 'the same with a strict audit, against that', unit: 'times', aims: [] },
      ]),
    async measure(peer, bench) {
      if (!isTidegate(peer) || peer.dav === undefined) return undefined
      const { headers, url } = peer.dav
      const admin = await freshAdmin(peer)
      const folder = `${url}${newName()}/`
      const names = (at: number) => `${folder}${at}`
      const exchanges: Readonly<Record<(typeof methods)[number], ExchangeOf>> = {
        PUT: (at) => ({ method: 'PUT', url: names(at), headers, body: smallContent }),
        GET: () => ({ method: 'GET', url: names(0), headers }),
        MOVE: (at) => ({ method: 'MOVE', url: names(at), headers: { ...headers, Destination: `${names(at)}-moved` } }),
        DELETE: (at) => ({ method: 'DELETE', url: `${names(at)}-moved`, headers }),
      }
      await fetch(folder, { method: 'MKCOL', headers })
      const figures: number[] = []
      const [rounds, times] = [scaled(bench, 12), scaled(bench, 100)]
      for (const method of methods) {
        let sent = 0
        const request: Request = (client) => client.send(exchanges[method](sent++))
        const taken = await byTurns(
          peer,
          {
            rounds,
            times,
            before: (turn) => admin('/api/admin/setting/save', settings(turn)),
            after: () => wait(groupTime),
          },
          turns.map(() => request),
        )
        figures.push(taken[0]?.milliseconds ?? NaN, ...against(taken))
      }
      return figures
    },
  },
]

function settings(turn: number): readonly object[] {
  return Object.entries(turns[turn] ?? {}).map(([key, value]) => ({ key, value: String(value) }))
}
