/**
 * Attempts to sign in, in the memory of one process. The tables are limited, so that a distributed attack cannot
 * exhaust the memory.
 */
import type {
  SignInAge,
  SignInEvent,
  SignInFilter,
  SignInKind,
  SignInParty,
  SignInAttempt,
  SignInsOf,
} from '../database/tables/sign-ins.js'
import { PairTable } from '../base/bounded-tables.js'
import type { Store } from '../database/tables.js'

type SignIns = Store['signIns']

/** Maximum events of one entry: no limit counts more. */
const maxEvents = 16

interface Time {
  /** The time of the attempt, in milliseconds. */
  readonly at: number
  /** Whether it is an attempt whose outcome is not known. */
  readonly pending: boolean
}

/** Times of events of these kinds, newest first. */
interface Table {
  readonly kinds: readonly SignInKind[]
  /** The fields that identify a row of the table. */
  readonly fields: readonly (keyof SignInParty)[]
  /**
   * The key of the pair is the network (or an empty text) and the account; for kinds without accounts, an empty text
   * and the network.
   */
  readonly times: PairTable<readonly Time[]>
}

/** The attempts to sign in of one process, as the store has those of several. */
export class SignInsInMemory implements Omit<SignIns, 'sweep'> {
  /** A table for each set of kinds and fields by which events are found. */
  readonly #tables = new Map<string, Table>()
  /** The ends of checks that later ones of the same address or account wait for. */
  readonly #running = new Map<string, Promise<void>>()

  constructor(private readonly now: () => number) {}

  async newest(filter: SignInFilter, limit: number): Promise<SignInAge[]> {
    const { table, key } = this.#find(filter)
    return this.#agesOf(table.times.get(...key) ?? []).slice(0, limit)
  }

  async newestOfEach(kinds: readonly SignInKind[], fields: readonly (keyof SignInParty)[]): Promise<SignInsOf[]> {
    const table = this.#tables.get([...kinds, ...fields].join())
    if (table === undefined) return []
    return [...table.times.entries()].map(([first, second, times]) => ({
      party: partyOf(table, first, second),
      ages: this.#agesOf(times),
    }))
  }

  /** Counts of others of which these events were a part stay: that of the account of a network that is forgotten. */
  async forget({ kinds, ...fields }: SignInFilter): Promise<void> {
    const names = Object.keys(fields) as (keyof SignInParty)[]
    for (const table of this.#tables.values()) {
      if (!table.kinds.every((kind) => kinds.includes(kind))) continue
      for (const [first, second] of [...table.times.entries()]) {
        const party = partyOf(table, first, second)
        if (names.every((name) => party[name] === fields[name])) table.times.delete(first, second)
      }
    }
  }

  #agesOf(times: readonly Time[]): SignInAge[] {
    const now = this.now()
    return times.map(({ at, pending }) => ({ age: now - at, pending }))
  }

  async attempt(event: SignInEvent, check: Parameters<SignIns['attempt']>[1]): Promise<SignInAttempt | undefined> {
    const key = ofAccounts.has(event.kind) ? `${event.kind} ${event.account}` : event.network
    while (this.#running.has(key)) await this.#running.get(key)
    let end: () => void = () => undefined
    this.#running.set(key, new Promise((resolve) => (end = resolve)))
    try {
      if (!(await check((filter, limit) => this.newest(filter, limit)))) return undefined
      const pending = { at: this.now(), pending: true }
      this.#change(event, (times) => [pending, ...times])
      const settle = async (...outcome: readonly Time[]) => {
        this.#change(event, (times) => [...outcome, ...times.filter((time) => time !== pending)])
      }
      return { drop: () => settle(), fail: () => settle({ at: this.now(), pending: false }) }
    } finally {
      this.#running.delete(key)
      end()
    }
  }

  async record(event: SignInEvent): Promise<void> {
    this.#change(event, (times) => [{ at: this.now(), pending: false }, ...times])
  }

  async replace(event: SignInEvent): Promise<void> {
    this.#change(event, () => [{ at: this.now(), pending: false }])
  }

  #change(event: SignInEvent, changed: (times: readonly Time[]) => readonly Time[]): void {
    for (const filter of filtersOf(event)) {
      const { table, key } = this.#find(filter)
      table.times.set(...key, changed(table.times.get(...key) ?? []).slice(0, maxEvents))
    }
  }

  #find({ kinds, network, account }: SignInFilter) {
    const fields = fieldNames.filter((field) => ({ network, account })[field] !== undefined)
    const name = [...kinds, ...fields].join()
    const table = this.#tables.get(name) ?? { kinds, fields, times: new PairTable() }
    this.#tables.set(name, table)
    return { table, key: fields.length === 2 ? pairOf(network, account) : pairOf('', network ?? account) }
  }
}

/** The kinds that are counted by account only. */
const ofAccounts: ReadonlySet<SignInKind> = new Set(['code', 'directory'])

const fieldNames = ['network', 'account'] as const

function pairOf(network = '', account = ''): readonly [network: string, account: string] {
  return [network, account]
}

/** The network, the account or the pair of both that a row of the table counts the failures of. */
function partyOf({ fields }: Table, first: string, second: string): SignInParty {
  const [field = 'account'] = fields
  return fields.length === 2 ? { network: first, account: second } : { [field]: second }
}

/** The filters of the limits that an event matches. */
function filtersOf({ kind, network, account }: SignInEvent): readonly SignInFilter[] {
  if (ofAccounts.has(kind)) return [{ kinds: [kind], account }]
  if (kind !== 'password' && kind !== 'refused') return [{ kinds: [kind], network, account }]
  const ofPair = { kinds: ['password', 'refused'], network, account } as const
  return kind === 'refused' ? [ofPair] : [ofPair, { kinds: [kind], network }, { kinds: [kind], account }]
}
