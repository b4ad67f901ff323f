/** A new database of SQLite, made without the statements of its schema: most tests begin with one. */
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openStore } from '../../src/database/store.js'
import { isPostgresUrl } from '../../src/database/store-url.js'
import type { Store } from '../../src/database/tables.js'

/** An empty database with the newest schema. */
let empty: Promise<Buffer> | undefined

/** As `openStore`; a file of SQLite that does not exist begins as a copy of an empty database. */
export async function openNewStore(location: string): Promise<Store> {
  if (!isPostgresUrl(location) && !existsSync(location)) {
    empty ??= emptyDatabase()
    await writeFile(location, await empty, { mode: 0o600 })
  }
  return openStore(location)
}

async function emptyDatabase(): Promise<Buffer> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-empty-'))
  try {
    const file = join(folder, 'data.db')
    await (await openStore(file)).close()
    return await readFile(file)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
