/** Sign-ins that have begun and are not completed: each is completed by the secret that its client got, once. */
import type { Knex } from 'knex'
import { siteOf } from '../base/network-site.js'
import { json, readRow, text, time, writeRow, type Columns, type StoredRow } from './columns.js'
import type { Database } from './database.js'

/** What a pending sign-in is for; each kind is completed by its own requests. */
export type SignInPurpose = 'provider' | 'provider-code' | 'provider-link' | 'passkey' | 'passkey-registration'

export interface PendingSignIn {
  /** SHA-256 of the secret that the client has, in hexadecimal. */
  readonly id: string
  readonly purpose: SignInPurpose
  /** The network of the client that began it (`networkOf`). */
  readonly network: string
  /** The data that the completion of the sign-in needs; plain JSON. */
  readonly data: unknown
  readonly expires: Date
}

const columns: Columns<PendingSignIn> = {
  id: text('id'),
  purpose: text('purpose'),
  network: text('network'),
  data: json('data'),
  expires: time('expires'),
}

/** Maximum numbers of rows of one purpose: of all networks together, and of one network. */
export const maxPending = { all: 10_000, network: 100 }

export class PendingSignInsTable {
  constructor(private readonly database: Database) {}

  /**
   * Stores the row, and deletes those that have expired at `now`. One more than `maxPending.network` replaces the
   * oldest row of its network, and one more than `maxPending.all` the oldest of the network with the most rows, of the
   * site with the most rows. Rows of other purposes are not replaced.
   */
  async add(row: PendingSignIn, now: Date): Promise<void> {
    const { purpose, network } = row
    const site = siteOf(network)
    await this.database.guarded('pending_sign_ins', async (query) => {
      await sweep(query, now)
      if (await isFull(query, { purpose, site, network }, maxPending.network)) {
        await dropOne(query, { purpose, site, network }, ['id'])
      } else if (await isFull(query, { purpose }, maxPending.all)) {
        await dropOne(query, { purpose }, ['site', 'network', 'id'])
      }
      await query('pending_sign_ins').insert({ ...writeRow(columns, row), site })
    })
  }

  /** Deletes the row and resolves to it, if it has not expired. Of concurrent calls, one gets it. */
  async take(id: string, purpose: SignInPurpose, now: Date): Promise<PendingSignIn | undefined> {
    const stored = await this.database.transaction(async (query) => {
      // Another call waits here until the row is gone.
      const rows: readonly StoredRow[] = await query('pending_sign_ins')
        .where({ id, purpose })
        .update({ purpose })
        .returning('*')
      await query('pending_sign_ins').where({ id, purpose }).delete()
      return rows[0]
    })
    const row = stored && readRow(columns, stored)
    return row !== undefined && row.expires > now ? row : undefined
  }

  /** Deletes the rows that have expired. */
  async sweep(now: Date): Promise<void> {
    await this.database.run((query) => sweep(query, now))
  }
}

async function isFull(query: Knex, rows: StoredRow, max: number): Promise<boolean> {
  const [total] = await query('pending_sign_ins').where(rows).count<{ count: number | string }[]>({ count: '*' })
  return Number(total?.count) >= max
}

/** Deletes a row: of the value of each column in turn that most rows have, and of equal ones that of the oldest row. */
async function dropOne(query: Knex, rows: StoredRow, by: readonly string[]): Promise<void> {
  let found = rows
  for (const column of by) {
    const most: StoredRow | undefined = await query('pending_sign_ins')
      .where(found)
      .groupBy(column)
      .orderByRaw('count(*) desc, min(expires)')
      .first(column)
    found = { ...found, ...most }
  }
  await query('pending_sign_ins').where(found).delete()
}

async function sweep(query: Knex, now: Date): Promise<void> {
  await query('pending_sign_ins').where('expires', '<=', now.getTime()).delete()
}
