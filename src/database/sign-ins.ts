/** Attempts to sign in, for limits that hold for all processes together. */
import type { Knex } from 'knex'
import type { Database } from './database.js'
import { databaseTime } from './dialect.js'
import type { SignInAttempt, SignInsOf } from './tables/sign-ins.js'
import type { SignInAge, SignInEvent, SignInFilter, SignInKind, SignInParty } from './tables/sign-ins.js'

/** Milliseconds after which an attempt whose outcome is unknown counts as failed: its process may have ended. */
const pendingTime = 10_000
/** The latest events that `newestOfEach` reads. */
const maxLatest = 10_000

export class SignInsTable {
  constructor(private readonly database: Database) {}

  async newest(filter: SignInFilter, limit: number): Promise<SignInAge[]> {
    return this.database.read((query) => newestOf(query, filter, limit))
  }

  async attempt(
    event: SignInEvent,
    check: (newest: (filter: SignInFilter, limit: number) => Promise<SignInAge[]>) => Promise<boolean>,
  ): Promise<SignInAttempt | undefined> {
    const id = await this.database.guarded('sign_ins', async (query) => {
      if (!(await check((filter, limit) => newestOf(query, filter, limit)))) return undefined
      const [row] = await insert(query, event, true).returning<{ id: number }[]>('id')
      return Number(row?.id)
    })
    if (id === undefined) return undefined
    return {
      fail: () =>
        this.database.run((query) =>
          query('sign_ins')
            .where({ id })
            .update({ pending: false, time: databaseTime(query) }),
        ),
      drop: () => this.database.run((query) => query('sign_ins').where({ id }).delete()),
    }
  }

  async record(event: SignInEvent): Promise<void> {
    await this.database.run((query) => insert(query, event, false))
  }

  async replace(event: SignInEvent): Promise<void> {
    await this.database.transaction(async (query) => {
      await query('sign_ins').where(event).delete()
      await insert(query, event, false)
    })
  }

  async newestOfEach(kinds: readonly SignInKind[], fields: readonly (keyof SignInParty)[]): Promise<SignInsOf[]> {
    const rows: readonly (SignInEvent & AgeRow)[] = await this.database.read((query) =>
      query('sign_ins')
        .whereIn('kind', kinds)
        .orderBy('time', 'desc')
        .limit(maxLatest)
        .select('network', 'account', 'pending', ageOf(query)),
    )
    const ages = new Map<string, SignInAge[]>()
    for (const row of rows) {
      const party: SignInParty = Object.fromEntries(fields.map((field) => [field, row[field]]))
      const key = JSON.stringify(party)
      const found = ages.get(key)
      if (found === undefined) ages.set(key, [readAge(row)])
      else found.push(readAge(row))
    }
    return [...ages].map(([party, each]) => ({ party: JSON.parse(party) as SignInParty, ages: each }))
  }

  async forget({ kinds, ...fields }: SignInFilter): Promise<void> {
    await this.database.transaction(async (query) => {
      await query('sign_ins').whereIn('kind', kinds).andWhere(fields).delete()
      // The triggers of this table tell the others.
      await query('users')
        .whereIn('id', query('users').min('id'))
        .update({ id: query.ref('id') })
    })
  }

  async sweep(kinds: readonly SignInKind[], age: number): Promise<void> {
    await this.database.run((query) =>
      query('sign_ins')
        .whereIn('kind', kinds)
        .andWhere('time', '<', query.raw('? - ?', [databaseTime(query), age]))
        .delete(),
    )
  }
}

function insert(query: Knex, event: SignInEvent, pending: boolean) {
  return query('sign_ins').insert({ ...event, pending, time: databaseTime(query) })
}

async function newestOf(query: Knex, { kinds, ...fields }: SignInFilter, limit: number): Promise<SignInAge[]> {
  const rows: readonly AgeRow[] = await query('sign_ins')
    .whereIn('kind', kinds)
    .andWhere(fields)
    .orderBy('time', 'desc')
    .limit(limit)
    .select('pending', ageOf(query))
  return rows.map(readAge)
}

interface AgeRow {
  readonly age: number | string
  readonly pending: unknown
}

/** The column `age` of an `AgeRow`. */
function ageOf(query: Knex) {
  return { age: query.raw('? - time', [databaseTime(query)]) }
}

function readAge({ age, pending }: AgeRow): SignInAge {
  return { age: Number(age), pending: Boolean(pending) && Number(age) < pendingTime }
}
