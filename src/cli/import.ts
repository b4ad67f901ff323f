/** `tidegate import …`: fills a new installation with what another program has stored. */
import { tmpdir } from 'node:os'
import { Option, type Command } from 'commander'
import { driverTypes } from '../../drivers/index.js'
import { protocols } from '../../protocols/index.js'
import { GatewayError } from '../base/errors.js'
import { storeLocation } from '../installation/config.js'
import { lockDataFolder } from '../installation/data-folder.js'
import {
  importReport,
  prepareImport,
  storeImport,
  type ImportSource,
  type PreparedImport,
} from '../installation/import/importer.js'
import { leavesSomethingOut } from '../installation/import/report.js'
import { thisInstance } from '../installation/instance.js'
import { openStore } from '../database/store.js'
import { Settings } from '../settings/settings.js'
import { configOf, knownSettings, withCommonOptions, type CommonFlags } from './data-folder.js'
import { formatTable, print } from './output.js'
import { recorded } from './recording.js'

interface ImportFlags extends CommonFlags {
  readonly dryRun?: boolean
  readonly root?: string
  readonly shares?: string
  readonly denyByDefault?: readonly string[]
  readonly allowByDefault?: readonly string[]
}

export function addImportCommands(program: Command): void {
  const command = program
    .command('import')
    .description('fill a new installation with the data of another program: alist, openlist, filebrowser, quantum')

  for (const name of ['alist', 'openlist'] as const) {
    withImportOptions(command.command(`${name} <data-folder>`))
      .description(
        'take users with their passwords and keys, roles, storages, folder rules, shares, settings and the SFTP host key',
      )
      .action((folder: string, flags: ImportFlags) => importFrom({ program: name, folder, scratch: tmpdir() }, flags))
  }

  withImportOptions(command.command('filebrowser <users.json> <config.json>'))
    .description(
      'take users with their passwords and rules, and the folder, from "filebrowser users export" and "filebrowser config export"',
    )
    .option('--root <dir>', 'where the files are, if not in the folder of the configuration')
    .option('--shares <shares.json>', 'take shares too, from what GET /api/shares answers to an administrator there')
    .action((users: string, config: string, flags: ImportFlags) =>
      importFrom({ program: 'filebrowser', users, config, shares: flags.shares, root: flags.root }, flags),
    )

  withImportOptions(command.command('quantum <database>'))
    .description('take users, groups, access rules, sources and shares from the database of File Browser Quantum 2')
    .option(
      '--allow-by-default <folders...>',
      'sources whose configuration does not have denyByDefault; nobody sees in others what no rule allows',
    )
    .option('--deny-by-default <folders...>', 'sources that have it')
    .action((file: string, flags: ImportFlags) => {
      const defaults = { denied: flags.denyByDefault ?? [], allowed: flags.allowByDefault ?? [] }
      return importFrom({ program: 'quantum', file, defaults, scratch: tmpdir() }, flags)
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

/** Stores what the source has unless it is a dry run, and prints the report. */
async function importFrom(source: ImportSource, flags: ImportFlags): Promise<void> {
  const dryRun = flags.dryRun === true
  const prepared = await prepareImport(source, { driverTypes, protocols })
  if (!dryRun) await store(prepared, flags)
  const { lines, notes } = prepared
  const cells = lines.map(({ kind, name, outcome, reason }) => [kind, name, outcome, reason])
  const counts = (['taken', 'changed', 'left out'] as const).map(
    (outcome) => `${lines.filter((line) => line.outcome === outcome).length} ${outcome}`,
  )
  const end = dryRun ? 'Nothing is stored: this is a dry run.' : 'Start the daemon now.'
  const text = [formatTable(['kind', 'name', 'outcome', 'reason'], cells), `${counts.join(', ')}.`, ...notes, end]
  print(flags, importReport(prepared, dryRun), text.join('\n'))
  if (leavesSomethingOut(lines)) process.exitCode = 1
}

async function store(prepared: PreparedImport, flags: ImportFlags): Promise<void> {
  const config = await configOf(flags)
  const release = await lockDataFolder(config.data)
  try {
    const beforeUpgrade = () =>
      Promise.reject(
        new GatewayError('exists', { reason: 'an older version has made this installation: import into a new one' }),
      )
    const opened = await openStore(storeLocation(config), { runs: thisInstance().runs, beforeUpgrade })
    try {
      const settings = await Settings.open(opened, knownSettings)
      const folder = { config, store: opened, settings }
      await recorded(flags, folder, () => storeImport(prepared, { store: opened, data: config.data })).finally(() =>
        settings.close(),
      )
    } finally {
      await opened.close()
    }
  } finally {
    await release()
  }
}
