/** `tidegate store copy`: moves the database of an installation between SQLite and PostgreSQL. */
import { access, stat } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'
import { Option, type Command } from 'commander'
import { GatewayError } from '../base/errors.js'
import { assertNoPassword, storeLocation } from '../installation/config.js'
import { lockDataFolder } from '../installation/data-folder.js'
import { copyDatabase } from '../database/copy.js'
import { isPostgresUrl } from '../database/store-url.js'
import { formatTable, print } from './output.js'

/** A database as the command line names it. */
interface NamedDatabase {
  /** The location of the database that `openStore` gets: a path, or a URL of PostgreSQL. */
  readonly location: string
  /** The data folder whose daemon would use the file. */
  readonly folder?: string
}

export function addStoreCommands(program: Command): void {
  const store = program.command('store').description('the database: copy')

  store
    .command('copy <from> <to>')
    .description('copy the database to an empty one, while no daemon uses either')
    .addOption(new Option('--json', 'print JSON for programs'))
    .addHelpText(
      'after',
      '\nEach is a data folder, a file that ends in .db, or a URL such as postgres://user@host/database, of which ' +
        'PGPASSWORD or PGPASSFILE has the password.\nThe other files of the data folder are not copied.',
    )
    .action(async (fromWord: string, toWord: string, flags: { readonly json?: boolean }) => {
      const [from, to] = [await placeOf(fromWord), await placeOf(toWord)]
      if (from.location === to.location) throw new GatewayError('invalid', { reason: 'both are the same database' })
      if (!isPostgresUrl(from.location)) await assertExists(from.location)
      const tables = await whileLocked([from, to], () =>
        copyDatabase(from.location, to.location, { mayUpgrade: false }),
      )
      const total = tables.reduce((sum, { rows }) => sum + rows, 0)
      const cells = tables.map(({ table, rows }) => [table, rows])
      const message = `${formatTable(['table', 'rows'], cells)}\n${total} rows are copied, and equal on both sides.`
      print(flags, { from: from.location, to: to.location, tables }, message)
    })
}

async function placeOf(word: string): Promise<NamedDatabase> {
  if (isPostgresUrl(word)) {
    assertNoPassword(word, 'PGPASSWORD or PGPASSFILE')
    return { location: word }
  }
  if (/^\w+:\/\//.test(word)) {
    throw new GatewayError('invalid', { reason: `${word} is neither a path nor a URL of PostgreSQL` })
  }
  const path = resolve(word)
  const existing = await stat(path).catch(() => undefined)
  const isFile = existing ? !existing.isDirectory() : path.endsWith('.db')
  const location = isFile ? path : storeLocation({ data: path, store: '' })
  // Daemons give their database this name.
  const folder = dirname(location)
  return location === storeLocation({ data: folder, store: '' }) ? { location, folder } : { location }
}

async function assertExists(file: string): Promise<void> {
  try {
    await access(file)
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT'
    const reason = isMissing ? `there is no ${basename(file)} in ${dirname(file)}` : `no permission to read ${file}`
    throw new GatewayError(isMissing ? 'not_found' : 'denied', { reason, cause: error })
  }
}

/** Calls `work` with the locks of the data folders: no daemon can start there. Rejects with `busy` if one runs. */
async function whileLocked<T>([place, ...others]: readonly NamedDatabase[], work: () => Promise<T>): Promise<T> {
  if (place === undefined) return work()
  if (place.folder === undefined) return whileLocked(others, work)
  const release = await lockDataFolder(place.folder)
  try {
    return await whileLocked(others, work)
  } finally {
    await release()
  }
}
