/**
 * Attempts to sign in, in the memory of one process. The tables are limited, so that a distributed attack cannot
 * exhaust the memory.
 */
import type { SignInAge, SignInEvent, SignInFilter } from '../database/rows.js'
import { PairTable } from '../base/bounded-tables.js'
import type { SignInAttempt, Store } from '../database/tables.js'

type SignIns = Store['signIns']

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
