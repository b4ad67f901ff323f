/** `tidegate backup`, `restore` and `export`. */
import { writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { Option, type Command } from 'commander'
import { leftOut, writeBackup } from '../gateway/backup.js'
import { writeAside } from '../gateway/scratch-folder.js'
import { snapshotDatabase } from '../store/snapshot.js'
import { configOf, databaseOf, openData, withCommonOptions, withDataOptions, type CommonFlags } from './data-folder.js'
import { exportOf } from './export.js'
import { print } from './output.js'

export function addBackupCommands(program: Command): void {
  withCommonOptions(program.command('backup <file>'))
    .description('write the database and the configuration file to one archive, also beside a running daemon')
    .addHelpText('after', `\n${leftOut}\nThe file has all passwords and keys: only its owner can read it.`)
    .action(async (file: string, flags: CommonFlags) => {
      const config = await configOf(flags)
      const location = await databaseOf(config)
      const snapshot = (target: string) => snapshotDatabase(location, target)
      const { configFile } = config
      const manifest = await writeBackup(file, { snapshot, configFile })
      const path = resolve(file)
      const message = `${leftOut}\n${path} has the database${configFile === undefined ? '' : ` and ${configFile}`}.`
      print(flags, { file: path, ...manifest, left_out: leftOut }, message)
    })

  withCommonOptions(program.command('restore <file>'))
    .description('restore a backup into a data folder, or a PostgreSQL database, that has no installation')
    .addHelpText(
      'after',
      `\nNo daemon may run there.\n${leftOut}\nThe configuration file becomes tidegate.json in the data folder.`,
    )
    .action(async (file: string, flags: CommonFlags) => {
      const config = await configOf(flags)
      // Only here: other commands start faster without it.
      const { restoreBackup } = await import('../gateway/restore.js')
      const { manifest, tables, configuration } = await restoreBackup(resolve(file), config)
      const rows = tables.reduce((sum, table) => sum + table.rows, 0)
      const lines = [
        leftOut,
        `${rows} rows of ${manifest.time} are restored.`,
        ...(configuration === undefined ? [] : [`The configuration file is ${configuration}: name it with --config.`]),
      ]
      print(flags, { data: config.data, ...manifest, tables, configuration }, lines.join('\n'))
    })

  withDataOptions(program.command('export [file]'))
    .description('write users, storages, folder rules and settings as JSON, by default to standard output')
    .addOption(
      new Option('--with-secrets', 'with password hashes, and the passwords and keys of storages and settings'),
    )
    .action(async (file: string | undefined, flags: CommonFlags & { readonly withSecrets?: boolean }) => {
      const store = await openData(await configOf(flags))
      try {
        const text = `${JSON.stringify(await exportOf(store, flags.withSecrets === true), null, 2)}\n`
        if (file === undefined) process.stdout.write(text)
        else await writeAside(resolve(file), (target) => writeFile(target, text, { mode: 0o600, flush: true }))
      } finally {
        await store.close()
      }
    })
}
