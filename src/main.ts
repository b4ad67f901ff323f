#!/usr/bin/env node
/** The entry point of the process: commands, the daemon, signals. */
import type { Logger } from 'pino'
import { afterStartup } from './process/gc-flags.js' // must be the first import that loads code
import { Command } from 'commander'
import { addAdminCommands } from './cli/admin.js'
import { addCheckCommand } from './cli/check.js'
import { configOf, withAddressOptions, withDataOptions } from './cli/data-folder.js'
import { addKeyCommands } from './cli/keys.js'
import { addNodesCommand } from './cli/nodes.js'
import { addStorageCommands } from './cli/storages.js'
import { addUserCommands } from './cli/users.js'
import type { Addresses, ConfigFlags } from './gateway/config.js'
import { LogTail } from './gateway/log-tail.js'
import { GatewayError } from './contract/errors.js'
import { collectWhenIdle } from './process/idle-collection.js'
import { createLog } from './process/log.js'
import { SystemdNotifications } from './process/systemd-notifications.js'
import { version } from './contract/version.js'

async function serve(flags: ConfigFlags): Promise<void> {
  const config = await configOf(flags)
  const logTail = new LogTail()
  const log = createLog(config.log_level, logTail)
  handleUncaughtErrors(log)
  const adminPassword = process.env.TIDEGATE_ADMIN_PASSWORD || showPassword
  // Imported lazily: the commands on a data folder start faster without the protocols.
  const { closingSeconds, startDaemon } = await import('./process/daemon.js')
  const start = (addresses: Addresses) =>
    startDaemon({ ...config, addresses }, log, adminPassword, { logTail, onEnded: () => void restart() })
  let daemon = await start(config.addresses)
  // Nothing may continue under the id of a node that others have ended, so everything is opened again.
  const restart = async () => {
    try {
      await daemon.stop(0)
      daemon = await start(daemon.addresses)
      log.warn({}, 'restarted as a new node')
    } catch (error) {
      log.fatal({ err: error }, 'restarting as a new node failed')
      process.exit(1)
    }
  }
  afterStartup()
  collectWhenIdle()
  const systemd = new SystemdNotifications({
    environment: process.env,
    log,
    healthCheck: () => daemon.gateway.store.settings.all(),
  })
  let stopping = false
  const stop = (signal: NodeJS.Signals) => {
    if (stopping) process.exit(1) // a second signal exits without waiting
    stopping = true
    log.info({ signal }, 'stopping')
    Promise.all([systemd.stopping(config.drain_seconds + closingSeconds + 5), daemon.stop()]).then(
      () => {
        systemd.close()
        process.exit(0)
      },
      (error: unknown) => {
        log.fatal({ err: error }, 'shutdown failed')
        process.exit(1)
      },
    )
  }
  process.on('SIGTERM', stop).on('SIGINT', stop)
  // After the signal handlers: a process that reads this line may send a signal immediately.
  const addresses = Object.entries(daemon.addresses).filter(([, address]) => address !== 'off')
  const urls = addresses.map(([name, address]) => `${name}://${address}`)
  console.log(`tidegate ${version} ready: ${urls.join(' ')}`)
  await systemd.ready()
}

function showPassword(generated: string): void {
  console.log(`first run: sign in as admin with the password ${generated} (it is shown only this once)`)
}

/**
 * An unhandled rejection affects one request: it is logged and the daemon continues. After an uncaught exception the
 * state in memory is undefined: the process exits and the service manager restarts it (docs/decisions/0007).
 */
function handleUncaughtErrors(log: Logger): void {
  process.on('unhandledRejection', (error) => {
    log.error({ err: error }, 'unhandled rejection')
  })
  process.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'uncaught exception')
    process.exit(1)
  })
  // The reader of the ready line may have closed the pipe.
  process.stdout.on('error', () => undefined)
}

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
  .action(serve)
addUserCommands(program)
addKeyCommands(program)
addStorageCommands(program)
addAdminCommands(program)
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
