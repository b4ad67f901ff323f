/** The engines of the search index, for tests that each of them must pass. */
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import knex from 'knex'
import t, { type Test } from 'tap'
import { openPostgresSearchIndex, openSearchIndex, type SearchIndex } from '../../src/database/search/search-index.js'
import { findProgram, lacks } from '../programs.js'
import { thisServer } from '../database/engines.js'

/** Where an index is stored. */
export interface IndexPlace {
  readonly open: () => Promise<SearchIndex>
  /** Makes updates of names fail, or succeed again. */
  readonly refuseUpdates: (isRefused: boolean) => Promise<void>
}

interface IndexEngine {
  readonly name: string
  readonly skip: string | false
  readonly newPlace: (t: Test) => Promise<IndexPlace>
}

export const lacksPostgres = lacks('postgres', 'initdb')

/** Databases have collations of ICU since PostgreSQL 15. */
function lacksIcu(): string | false {
  const version = /[0-9]+/.exec(execFileSync(findProgram('postgres') ?? '', ['--version'], { encoding: 'utf8' }))?.[0]
  return Number(version) < 15 && 'PostgreSQL is older than 15'
}

/** `options`: of the statement that creates the database. */
const onPostgres = (name: string, options?: string): IndexEngine => ({
  name,
  skip: lacksPostgres,
  newPlace: async () => {
    const postgres = await thisServer()
    const url = await postgres.createDatabase(options)
    return {
      open: () => openPostgresSearchIndex({ connectionString: url }),
      refuseUpdates: async (isRefused) => {
        if (isRefused) {
          await postgres.query(
            "create function refuse() returns trigger language plpgsql as $$ begin raise 'no'; end $$",
            url,
          )
          await postgres.query('create trigger refused before update on search_names execute function refuse()', url)
        } else {
          await postgres.query('drop function refuse() cascade', url)
        }
      },
    }
  },
})

const engines: readonly IndexEngine[] = [
  {
    name: 'SQLite',
    skip: false,
    newPlace: async (t) => {
      const file = join(t.testdir(), `search-${randomUUID()}.db`)
      return {
        open: () => openSearchIndex(file),
        refuseUpdates: async (isRefused) => {
          const other = knex({ client: 'sqlite3', connection: { filename: file }, useNullAsDefault: true })
          await other.raw(
            isRefused
              ? "create trigger refused before update on names begin select raise(abort, 'no'); end"
              : 'drop trigger refused',
          )
          await other.destroy()
        },
      }
    },
  },
  onPostgres('PostgreSQL'),
  {
    ...onPostgres('PostgreSQL, collation of ICU', "template template0 locale_provider icu icu_locale 'en'"),
    skip: lacksPostgres || lacksIcu(),
  },
]

/** Runs the test once for each engine. `openIndex` opens an index, always the same one; the test need not close it. */
export function onEveryEngine(
  title: string,
  test: (t: Test, openIndex: () => Promise<SearchIndex>, place: IndexPlace) => Promise<void>,
): void {
  for (const { name, skip, newPlace } of engines) {
    void t.test(`${name}: ${title}`, { skip }, async (t) => {
      const place = await newPlace(t)
      await test(t, place.open, place)
    })
  }
}
