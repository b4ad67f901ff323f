/**
 * Attempts to sign in, in the memory of one process. The tables are limited, so that a distributed attack cannot
 * exhaust the memory.
 */
import type { SignInAge, SignInEvent, SignInFilter, SignInKind, SignInParty } from '../database/tables/sign-ins.js'
import { PairTable } from '../base/bounded-tables.js'
import type { Store } from '../database/tables.js'
import type { SignInAttempt, SignInsOf } from '../database/tables/sign-ins.js'

type SignIns = Store['signIns']

/** Maximum events of one entry: no limit counts more. */
const maxEvents = 16

/** Times of events of these kinds, newest first. */
interface Table {
  readonly kinds: readonly SignInKind[]
  /** By which fields they are found. */
  readonly fields: readonly (keyof SignInParty)[]
  /** By the network, or an empty text, and the account; by an empty text and the network without accounts. */
  readonly times: PairTable<readonly number[]>
}

/**
 * The attempts to sign in of one process, as the store has those of several. Compares one attempt of an address at a
 * time, so none is ever pending for another.
 */
export class SignInsInMemory implements Omit<SignIns, 'sweep'> {
  /** A table for each set of kinds and fields by which events are found. */
  readonly #tables = new Map<string, Table>()
  /** The ends of attempts that later ones wait for. */
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

  #agesOf(times: readonly number[]): SignInAge[] {
    const now = this.now()
    return times.map((time) => ({ age: now - time, pending: false }))
  }

  async attempt(event: SignInEvent, check: Parameters<SignIns['attempt']>[1]): Promise<SignInAttempt | undefined> {
    const isCode = event.kind === 'code'
    const key = isCode ? `code ${event.account}` : event.network
    while (this.#running.has(key)) await this.#running.get(key)
    let end: () => void = () => undefined
    this.#running.set(key, new Promise((resolve) => (end = resolve)))
    const drop = async () => {
      this.#running.delete(key)
      end()
    }
    let attempt: SignInAttempt | undefined
    try {
      const isAllowed = await check((filter, limit) => this.newest(filter, limit))
      if (isAllowed) attempt = isCode ? this.#recorded(event) : { drop, fail: () => this.record(event).then(drop) }
    } finally {
      if (isCode || attempt === undefined) await drop()
    }
    return attempt
  }

  /** A code counts as wrong until it is dropped. */
  #recorded(event: SignInEvent): SignInAttempt {
    const time = this.now()
    this.#change(event, (times) => [time, ...times])
    const drop = async () => this.#change(event, (times) => times.filter((_, n) => n !== times.indexOf(time)))
    return { drop, fail: async () => undefined }
  }

  async record(event: SignInEvent): Promise<void> {
    this.#change(event, (times) => [this.now(), ...times])
  }

  async replace(event: SignInEvent): Promise<void> {
    this.#change(event, () => [this.now()])
  }

  #change(event: SignInEvent, changed: (times: readonly number[]) => readonly number[]): void {
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

const fieldNames = ['network', 'account'] as const

function pairOf(network = '', account = ''): readonly [network: string, account: string] {
  return [network, account]
}

/** Whose the times of a table are. */
function partyOf({ fields }: Table, first: string, second: string): SignInParty {
  const [field = 'account'] = fields
  return fields.length === 2 ? { network: first, account: second } : { [field]: second }
}

/** The filters of the limits that an event matches. */
function filtersOf({ kind, network, account }: SignInEvent): readonly SignInFilter[] {
  if (kind === 'code') return [{ kinds: [kind], account }]
  if (kind !== 'password' && kind !== 'refused') return [{ kinds: [kind], network, account }]
  const ofPair = { kinds: ['password', 'refused'], network, account } as const
  return kind === 'refused' ? [ofPair] : [ofPair, { kinds: [kind], network }, { kinds: [kind], account }]
}
