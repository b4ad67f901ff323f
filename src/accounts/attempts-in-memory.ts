/**
 * Attempts of clients, in the memory of one process. Tables are limited, and lose their oldest entries, so that a
 * distributed attack cannot exhaust the memory. An `LRUCache` knows no owners of entries: names that one address makes
 * up would remove the failures of others.
 */
import type { SignInAge, SignInEvent, SignInFilter } from '../database/rows.js'
import type { SignInAttempt, Store } from '../database/tables.js'

type SignIns = Store['signIns']

/** Maximum entries of one table. */
const maxEntries = 50_000
/** Maximum events of one entry: no limit counts more. */
const maxEvents = 16

/**
 * The attempts to sign in of one process, as the store has those of several. Compares one attempt of an address at a
 * time, so none is ever pending for another.
 */
export class SignInsInMemory implements Omit<SignIns, 'sweep'> {
  /** Times of events, newest first: a table for each set of kinds and fields by which events are found. */
  readonly #tables = new Map<string, PairTable<readonly number[]>>()
  /** The ends of attempts that later ones wait for. */
  readonly #running = new Map<string, Promise<void>>()

  constructor(private readonly now: () => number) {}

  async newest(filter: SignInFilter, limit: number): Promise<SignInAge[]> {
    const now = this.now()
    const { table, key } = this.#find(filter)
    return (table.get(...key) ?? []).slice(0, limit).map((time) => ({ age: now - time, pending: false }))
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
      table.set(...key, changed(table.get(...key) ?? []).slice(0, maxEvents))
    }
  }

  #find({ kinds, network, account }: SignInFilter) {
    const name = [...kinds, network !== undefined, account !== undefined].join()
    const table = this.#tables.get(name) ?? new PairTable<readonly number[]>()
    this.#tables.set(name, table)
    const isPair = network !== undefined && account !== undefined
    return { table, key: isPair ? ([network, account] as const) : (['', network ?? account ?? ''] as const) }
  }
}

/** The filters of the limits that an event matches. */
function filtersOf({ kind, network, account }: SignInEvent): readonly SignInFilter[] {
  if (kind === 'code') return [{ kinds: [kind], account }]
  if (kind !== 'password' && kind !== 'refused') return [{ kinds: [kind], network, account }]
  const ofPair = { kinds: ['password', 'refused'], network, account } as const
  return kind === 'refused' ? [ofPair] : [ofPair, { kinds: [kind], network }, { kinds: [kind], account }]
}

/**
 * Values of pairs. Beyond `maxEntries`, the oldest one of the address with the most is removed: an address that tries
 * many names removes its own.
 */
export class PairTable<Value> {
  /** By name, by address; those of which a value was set last are last. */
  readonly #addresses = new Map<string, Map<string, Value>>()
  #size = 0

  get(address: string, name: string): Value | undefined {
    return this.#addresses.get(address)?.get(name)
  }

  set(address: string, name: string, value: Value): void {
    const names = this.#addresses.get(address) ?? new Map<string, Value>()
    this.#addresses.delete(address)
    this.#addresses.set(address, names)
    if (!names.delete(name)) this.#size++
    names.set(name, value)
    if (this.#size > maxEntries) this.#removeOne()
  }

  #removeOne(): void {
    let [largest, most] = ['', new Map<string, Value>()]
    for (const [address, names] of this.#addresses) if (names.size > most.size) [largest, most] = [address, names]
    const [oldest = ''] = most.keys()
    most.delete(oldest)
    if (most.size === 0) this.#addresses.delete(largest)
    this.#size--
  }
}

/** Counts events by key; those of a key are forgotten `time` milliseconds after its last one. */
export class RecentCounts {
  readonly #entries = new Map<string, { readonly count: number; readonly last: number }>()

  constructor(
    private readonly time: number,
    private readonly now: () => number,
  ) {}

  add(key: string): void {
    put(this.#entries, key, { count: this.count(key) + 1, last: this.now() })
  }

  count(key: string): number {
    return this.remaining(key) > 0 ? (this.#entries.get(key)?.count ?? 0) : 0
  }

  /** Milliseconds until the events of the key are forgotten. */
  remaining(key: string): number {
    return (this.#entries.get(key)?.last ?? -Infinity) + this.time - this.now()
  }
}

/** Sets the entry as the newest one, and removes the oldest one if the table is full. */
export function put<Key, Value>(table: Map<Key, Value>, key: Key, value: Value): void {
  table.delete(key)
  table.set(key, value)
  if (table.size > maxEntries) {
    const [oldest] = table.keys()
    if (oldest !== undefined) table.delete(oldest)
  }
}
