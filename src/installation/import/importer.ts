/** Fills a new installation with what another program has stored: one import for the command and the running daemon. */
import { access } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { z } from 'zod'
import type { AnyDriverType } from '../../contract/driver-type.js'
import { GatewayError, isGatewayError, toGatewayError } from '../../base/errors.js'
import { readAlistDatabase } from '../../database/alist-database.js'
import type { Installation } from '../../database/installation.js'
import type { StorageRow } from '../../database/tables/storages.js'
import type { Store } from '../../database/tables.js'
import { settingDefinitions, type ProtocolWithSettings } from '../../settings/settings-table.js'
import { firstStorageFolder } from '../data-folder.js'
import { readInput } from '../input.js'
import { fromAlist, type AlistProgram } from './alist.js'
import { fromFileBrowser } from './filebrowser.js'
import { fromQuantum, readQuantumDatabase, type SourceDefaults } from './quantum.js'
import { Report, type ReportLine } from './report.js'
import { serverKeysOf, type KeyedProtocol, type ServerKeys } from './server-keys.js'
import { withStillDatabase } from './still-database.js'

/** Where the data of the other program is. Paths of files may be `-` for standard input. */
export type ImportSource =
  | {
      readonly program: AlistProgram
      /** The folder with `config.json`, the database, and `ssh/`. */
      readonly folder: string
      /** Where a copy of the database is made if it needs one. */
      readonly scratch: string
    }
  | {
      readonly program: 'filebrowser'
      readonly users: string
      readonly config: string
      /** What `GET /api/shares` answers there. */
      readonly shares?: string | undefined
      /** Where the files are, if not in the folder of the configuration. */
      readonly root?: string | undefined
    }
  | {
      readonly program: 'quantum'
      /** The database. */
      readonly file: string
      readonly defaults: SourceDefaults
      /** Where a copy of the database is made if it needs one. */
      readonly scratch: string
    }

export interface ImportOptions {
  readonly driverTypes: readonly AnyDriverType[]
  /** All protocols of this program. */
  readonly protocols: readonly (KeyedProtocol & ProtocolWithSettings)[]
  readonly signal?: AbortSignal
}

/** What is read and mapped, and not stored yet. */
export interface PreparedImport {
  readonly installation: Installation
  readonly keys: readonly { readonly of: ServerKeys; readonly folder: string }[]
  readonly lines: readonly ReportLine[]
  /** Sentences for the admin. */
  readonly notes: readonly string[]
}

/** A note for imports of users whose hashes are those of bcrypt. */
const hashNote =
  'Users must sign in with their passwords once, to the console, WebDAV or SFTP, before a client can sign in that ' +
  'sends a hash of the password, as the web client of AList does.'

const noSharesNote =
  'The exports have no shares: give what /api/shares of File Browser answers with --shares, or as shares.json, or make ' +
  'those that are needed again.'
const linksNote =
  'The links of the shares, /share/HASH, /public/share/HASH and /api/public/dl/HASH, lead to the same shares here while ' +
  'the setting filebrowser_share_links is on.'

/** The largest configuration or key, and the largest export of users or shares, in bytes. */
const maxSize = { config: 1024 * 1024, users: 16 * 1024 * 1024 }

/**
 * Reads and maps everything, and stores nothing. Rejects with `invalid` if the files cannot be read or have no
 * administrator, with `aborted`, and as `withStillDatabase`.
 */
export async function prepareImport(source: ImportSource, options: ImportOptions): Promise<PreparedImport> {
  const report = new Report(options.signal)
  if (source.program === 'filebrowser') {
    const users = await readInput(source.users, 'export of the users', maxSize.users)
    const config = await readInput(source.config, 'export of the configuration', maxSize.config)
    const { root } = source
    const shares =
      source.shares === undefined ? undefined : await readInput(source.shares, 'list of the shares', maxSize.users)
    const installation = await fromFileBrowser({ users, config, shares, root }, report)
    return {
      installation,
      keys: [],
      lines: report.lines,
      notes: [hashNote, shares === undefined ? noSharesNote : linksNote],
    }
  }
  if (source.program === 'quantum') {
    const read = await withStillDatabase(source.file, source.scratch, readQuantumDatabase)
    const installation = await fromQuantum(read, source.defaults, report)
    const notes = [
      hashNote,
      'The database does not say which sources have denyByDefault in the configuration. Every source is taken for one ' +
        'that has it, unless you name it as one without: --allow-by-default of the command, or the field in the console.',
      ...(installation.shares.length > 0 ? [linksNote] : []),
    ]
    return { installation, keys: [], lines: report.lines, notes }
  }
  const { database, siteUrl } = await alistConfigOf(join(source.folder, 'config.json'))
  const read = await withStillDatabase(join(source.folder, database.file), source.scratch, (file) =>
    readAlistDatabase(file, database.prefix),
  )
  const { driverTypes, protocols } = options
  const settings = settingDefinitions(protocols, driverTypes)
  const installation = await fromAlist(source.program, read, { driverTypes, settings }, report)
  if (siteUrl !== '')
    report.leftOut('configuration', 'site_url', `set it in the configuration file: ${siteUrl.slice(0, 200)}`)
  const folder = join(source.folder, 'ssh')
  const keys: PreparedImport['keys'][number][] = []
  for (const each of serverKeysOf(protocols)) if (await hasKey(each, folder, report)) keys.push({ of: each, folder })
  return { installation, keys, lines: report.lines, notes: [] }
}

/** Where an import is stored. `data`: the data folder. */
interface ImportTarget {
  readonly store: Pick<Store, 'installation' | 'secrets'>
  readonly data: string
}

/** Rejects with `exists` unless the installation has only what a first run makes. */
export function assertNewInstallation({ store }: Pick<ImportTarget, 'store'>): Promise<void> {
  return store.installation.assertNew(isFirstStorage)
}

/** Stores what was prepared in place of what a first run makes. Rejects as `assertNewInstallation`. */
export async function storeImport({ installation, keys }: PreparedImport, target: ImportTarget): Promise<void> {
  await assertNewInstallation(target)
  for (const { of, folder } of keys) await of.take(target.store.secrets, target.data, folder)
  await target.store.installation.replace(installation, isFirstStorage)
}

/** The report for programs. */
export function importReport({ lines, notes }: PreparedImport, dryRun: boolean) {
  return { dry_run: dryRun, items: [...lines], notes: [...notes] }
}

const alistConfig = z.object({
  database: z.object({ type: z.string(), table_prefix: z.string(), db_file: z.string() }).partial().default({}),
  site_url: z.string().default(''),
})

interface AlistConfig {
  /** The name of the database, and what the names of its tables begin with. */
  readonly database: { readonly file: string; readonly prefix: string }
  readonly siteUrl: string
}

async function alistConfigOf(file: string): Promise<AlistConfig> {
  let parsed: z.infer<typeof alistConfig>
  try {
    parsed = alistConfig.parse(JSON.parse(await readInput(file, 'configuration', maxSize.config)))
  } catch (cause) {
    if (isGatewayError(cause)) throw cause
    throw new GatewayError('invalid', { reason: `the configuration ${file} is not that of AList or OpenList`, cause })
  }
  const { type = 'sqlite3', table_prefix: prefix = 'x_', db_file: path = 'data.db' } = parsed.database
  if (type !== 'sqlite3') {
    const reason = `its database is of the type ${type.slice(0, 100)}: only SQLite (sqlite3) can be imported`
    throw new GatewayError('invalid', { reason })
  }
  if (!/^\w{0,64}$/.test(prefix)) throw new GatewayError('invalid', { reason: 'its table_prefix is not a word' })
  return { database: { file: basename(path), prefix }, siteUrl: parsed.site_url }
}

/** Whether the folder has a usable key; one that is not usable is left out. */
async function hasKey({ kind, file, check }: ServerKeys, folder: string, report: Report): Promise<boolean> {
  const path = join(folder, file)
  try {
    await access(path)
  } catch {
    return false
  }
  try {
    await check(await readInput(path, 'key', maxSize.config))
    report.taken(kind, file)
    return true
  } catch (error) {
    report.leftOut(kind, file, toGatewayError(error).reason)
    return false
  }
}

/** Whether a first run makes this storage. */
function isFirstStorage({ mountPath, driver, addition }: StorageRow): boolean {
  return mountPath === '/' && driver === 'Local' && addition.includes(`"root_folder_path":"${firstStorageFolder}"`)
}
