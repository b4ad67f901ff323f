/** The commands of the program. */
import { Command } from 'commander'
import { addAdminCommands } from './admin.js'
import { addAuditCommand } from './audit.js'
import { addBackupCommands } from './backup.js'
import { addCheckCommand } from './check.js'
import { configOf, withAddressOptions, withDataOptions } from './data-folder.js'
import { addDoctorCommand } from './doctor/doctor.js'
import { addExplainCommand } from './explain.js'
import { addImportCommands } from './import.js'
import { addGrantCommands, addGroupCommands } from './groups.js'
import { addKeyCommands } from './keys.js'
import { addNodesCommand } from './nodes.js'
import { announce } from './recording.js'
import { addSettingCommands } from './settings.js'
import { addShareCommands } from './shares.js'
import { addSignInCommands } from './sign-ins.js'
import { addStorageCommands } from './storages.js'
import { addStoreCommands } from './store.js'
import { addUserCommands } from './users.js'
import { addWebhookCommands } from './webhooks.js'
import type { ConfigFlags } from '../installation/config.js'
import { version } from '../base/version.js'

/** Makes the tree of commands: what `--help` shows, and what shell completions and the manual page are made from. */
export function createProgram(): Command {
  const program = new Command('tidegate')
    // Status 2 for wrong arguments, as for a bad configuration; 0 for help and the version.
    .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
    .description('One tree of storages, served over HTTP, WebDAV and SFTP')
    .version(version)
    // Otherwise an unknown command would be reported as excess arguments of the default command.
    .hook('preSubcommand', ({ args: [word = '-'], commands }) => {
      const isKnown = word.startsWith('-') || commands.some((command) => command.name() === word)
      if (!isKnown) program.error(`error: unknown command '${word}'`)
    })
    .hook('preAction', (_program, command) => announce(command))
    .hook('postAction', (_program, command) => {
      // A driver that `check` has opened may have left connections or timers, which must not keep the process alive.
      if (command.name() !== 'serve') process.exit()
    })
  withAddressOptions(withDataOptions(program.command('serve', { isDefault: true })))
    .description('run the daemon')
    .option('--workers <n>', 'processes that serve requests, to use several cores (TIDEGATE_WORKERS)')
    // Imported lazily: the commands on a data folder start faster without the protocols.
    .action(async (flags: ConfigFlags) => {
      const { serve } = await import('../process/serve.js')
      await serve(await configOf(flags))
    })
  addUserCommands(program)
  addGroupCommands(program)
  addGrantCommands(program)
  addShareCommands(program)
  addExplainCommand(program)
  addKeyCommands(program)
  addStorageCommands(program)
  addAdminCommands(program)
  addSettingCommands(program)
  addWebhookCommands(program)
  addStoreCommands(program)
  addBackupCommands(program)
  addImportCommands(program)
  addCheckCommand(program)
  addDoctorCommand(program)
  addNodesCommand(program)
  addAuditCommand(program)
  addSignInCommands(program)
  return program
}
