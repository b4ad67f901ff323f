#!/usr/bin/env node
/** The entry point of the process: the commands. */
import './process/gc-flags.js' // must be the first import that loads code
import { Command } from 'commander'
import { addAdminCommands } from './cli/admin.js'
import { addCheckCommand } from './cli/check.js'
import { configOf, withAddressOptions, withDataOptions } from './cli/data-folder.js'
import { addKeyCommands } from './cli/keys.js'
import { addNodesCommand } from './cli/nodes.js'
import { addSettingCommands } from './cli/settings.js'
import { addStorageCommands } from './cli/storages.js'
import { addStoreCommands } from './cli/store.js'
import { addUserCommands } from './cli/users.js'
import type { ConfigFlags } from './gateway/config.js'
import { GatewayError } from './contract/errors.js'
import { version } from './contract/version.js'

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
  .hook('postAction', (_program, command) => {
    // A driver that `check` has opened may have left connections or timers, which must not keep the process alive.
    if (command.name() !== 'serve') process.exit()
  })
withAddressOptions(withDataOptions(program.command('serve', { isDefault: true })))
  .description('run the daemon')
  .option('--workers <n>', 'processes that serve requests, to use several cores (TIDEGATE_WORKERS)')
  // Imported lazily: the commands on a data folder start faster without the protocols.
  .action(async (flags: ConfigFlags) => {
    const { serve } = await import('./process/serve.js')
    await serve(await configOf(flags))
  })
addUserCommands(program)
addKeyCommands(program)
addStorageCommands(program)
addAdminCommands(program)
addSettingCommands(program)
addStoreCommands(program)
addCheckCommand(program)
addNodesCommand(program)

try {
  await program.parseAsync()
} catch (error) {
  console.error(
    `tidegate: ${error instanceof GatewayError ? error.reason : error instanceof Error ? error.message : String(error)}`,
  )
  process.exit(error instanceof GatewayError && error.code === 'invalid' ? 2 : 1)
}
