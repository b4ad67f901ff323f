/** `tidegate import …`: fills a new installation with what another program has stored. */
import { access } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { Option, type Command } from 'commander'
import { z } from 'zod'
import { driverTypes } from '../../drivers/index.js'
import { importHostKeys, parseHostKey } from '../../protocols/sftp/host-keys.js'
import { GatewayError, toGatewayError } from '../contract/errors.js'
import { storeLocation } from '../gateway/config.js'
import { firstStorageFolder, lockDataFolder } from '../gateway/data-folder.js'
import { fromAlist, type AlistProgram } from '../gateway/import/alist.js'
import { fromFileBrowser } from '../gateway/import/filebrowser.js'
import { Report } from '../gateway/import/report.js'
import { thisInstance } from '../gateway/instance.js'
import { readAlistDatabase } from '../store/alist-database.js'
import type { Installation } from '../store/installation.js'
import type { StorageRow } from '../store/rows.js'
import { openStore } from '../store/store.js'
import { configOf, withCommonOptions, type CommonFlags } from './data-folder.js'
import { readInput } from './input.js'
import { formatTable, print } from './output.js'

interface ImportFlags extends CommonFlags {
  readonly dryRun?: boolean
  readonly root?: string
}

/** The largest configuration, and the largest export of users, in bytes. */
const maxSize = { config: 1024 * 1024, users: 64 * 1024 * 1024 }

export function addImportCommands(program: Command): void {
  const command = program
    .command('import')
    .description('fill a new installation with the data of another program: alist, openlist, filebrowser')

  for (const name of ['alist', 'openlist'] as const) {
    withImportOptions(command.command(`${name} <data-folder>`))
      .description('take users with their passwords and keys, storages, folder rules, settings and the SFTP host key')
      .action((folder: string, flags: ImportFlags) => importAlist(name, folder, flags))
  }

  withImportOptions(command.command('filebrowser <users.json> <config.json>'))
    .description(
      'take users with their passwords, and the folder, from "filebrowser users export" and "filebrowser config export"',
    )
    .option('--root <dir>', 'where the files are, if not in the folder of the configuration')
    .action(async (usersFile: string, configFile: string, flags: ImportFlags) => {
      const report = new Report()
      const users = await readInput(usersFile, 'export of the users', maxSize.users)
      const config = await readInput(configFile, 'export of the configuration', maxSize.config)
      const installation = await fromFileBrowser({ users, config, root: flags.root }, report)
      await finish(installation, report, flags, [
        'Users must sign in with their passwords once, to the console, WebDAV or SFTP, before a client can sign in that ' +
          'sends a hash of the password, as the web client of AList does.',
      ])
    })
}

function withImportOptions(command: Command): Command {
  return withCommonOptions(command)
    .addOption(new Option('--dry-run', 'print the report, and do not open or change the data folder'))
    .addHelpText(
      'after',
      '\nStop both programs first. The data folder (--data) must be a new one, or one without users and storages of its own.\n' +
        'Exits with status 1 if anything is left out.',
    )
}

const alistConfig = z.object({
  database: z.object({ type: z.string(), table_prefix: z.string(), db_file: z.string() }).partial().default({}),
  site_url: z.string().default(''),
})

async function importAlist(program: AlistProgram, folder: string, flags: ImportFlags): Promise<void> {
  const report = new Report()
  const { database, site_url: siteUrl } = await alistConfigOf(join(folder, 'config.json'))
  const { type = 'sqlite3', table_prefix: prefix = 'x_', db_file: file = 'data.db' } = database
  if (type !== 'sqlite3') {
    const reason = `its database is of the type ${type.slice(0, 100)}: only SQLite (sqlite3) can be imported`
    throw new GatewayError('invalid', { reason })
  }
  if (!/^\w{0,64}$/.test(prefix)) throw new GatewayError('invalid', { reason: 'its table_prefix is not a word' })
  const read = await readAlistDatabase(join(folder, basename(file)), prefix)
  const installation = await fromAlist(program, read, driverTypes, report)
  if (siteUrl !== '')
    report.leftOut('configuration', 'site_url', `set it in the configuration file: ${siteUrl.slice(0, 200)}`)
  await finish(installation, report, flags, [], join(folder, 'ssh'))
}

async function alistConfigOf(file: string): Promise<z.infer<typeof alistConfig>> {
  try {
    return alistConfig.parse(JSON.parse(await readInput(file, 'configuration', maxSize.config)))
  } catch (cause) {
    if (cause instanceof GatewayError) throw cause
    throw new GatewayError('invalid', { reason: `the configuration ${file} is not that of AList or OpenList`, cause })
  }
}

/** Stores the installation unless it is a dry run, and prints the report. `keys`: a folder that may have host keys. */
async function finish(
  installation: Installation,
  report: Report,
  flags: ImportFlags,
  notes: readonly string[],
  keys?: string,
): Promise<void> {
  const hasKey = keys !== undefined && (await hasHostKey(keys, report))
  if (flags.dryRun !== true) await store(installation, flags, hasKey ? keys : undefined)
  const { lines } = report
  const cells = lines.map(({ kind, name, outcome, reason }) => [kind, name, outcome, reason])
  const counts = (['taken', 'changed', 'left out'] as const).map(
    (outcome) => `${lines.filter((line) => line.outcome === outcome).length} ${outcome}`,
  )
  const end = flags.dryRun === true ? 'Nothing is stored: this is a dry run.' : 'Start the daemon now.'
  const text = [formatTable(['kind', 'name', 'outcome', 'reason'], cells), `${counts.join(', ')}.`, ...notes, end]
  print(flags, { dry_run: flags.dryRun === true, items: lines, notes }, text.join('\n'))
  if (report.leavesSomethingOut) process.exitCode = 1
}

/** Whether the folder has a usable RSA key; one that is not usable is left out. */
async function hasHostKey(folder: string, report: Report): Promise<boolean> {
  const file = join(folder, 'ssh_host_rsa_key')
  try {
    await access(file)
  } catch {
    return false
  }
  try {
    parseHostKey(await readInput(file, 'host key', maxSize.config), `the host key ${file}`)
    report.taken('SFTP host key', 'ssh_host_rsa_key')
    return true
  } catch (error) {
    report.leftOut('SFTP host key', 'ssh_host_rsa_key', toGatewayError(error).reason)
    return false
  }
}

async function store(installation: Installation, flags: ImportFlags, keys: string | undefined): Promise<void> {
  const config = await configOf(flags)
  const release = await lockDataFolder(config.data)
  try {
    const opened = await openStore(storeLocation(config), { runs: thisInstance().runs })
    try {
      await opened.installation.assertNew(isFirstStorage)
      if (keys !== undefined) await importHostKeys(opened.secrets, join(config.data, 'ssh'), new Date(), keys)
      await opened.installation.replace(installation, isFirstStorage)
    } finally {
      await opened.close()
    }
  } finally {
    await release()
  }
}

/** Whether a first run makes this storage. */
function isFirstStorage({ mountPath, driver, addition }: StorageRow): boolean {
  return mountPath === '/' && driver === 'Local' && addition.includes(`"root_folder_path":"${firstStorageFolder}"`)
}
