#!/usr/bin/env node
/** The process: configuration, the daemon, signals. Nothing imports it. */
import { startIsOver } from './collector.js' // first of all: see there
import { Command } from 'commander'
import { addDataCommands } from './cli/commands.js'
import { withAddressOptions, withDataOptions, type ServeFlags } from './cli/data-folder.js'
import { loadConfig } from './config.js'
import { GatewayError } from './errors.js'
import { createLog, type Log } from './log.js'
import { ServiceManager } from './service-manager.js'
import { version } from './version.js'

async function serve(flags: ServeFlags): Promise<void> {
  const config = await loadConfig({ flags, environment: process.env })
  const log = createLog(config.log_level)
  surviveTheUnforeseen(log)
  const adminPassword = process.env.TIDEGATE_ADMIN_PASSWORD || showPassword
  // The commands on a data folder start faster without the doors.
  const { startDaemon } = await import('./daemon.js')
  const daemon = await startDaemon(config, log, adminPassword)
  startIsOver()
  const manager = new ServiceManager({
    environment: process.env,
    log,
    alive: () => daemon.gateway.store.settings.all(),
  })
  let stopping = false
  const stop = (signal: NodeJS.Signals) => {
    if (stopping) process.exit(1) // whoever asks twice does not want to wait
    stopping = true
    log.info({ signal }, 'stopping')
    Promise.all([manager.stopping(), daemon.stop()]).then(
      () => {
        manager.close()
        process.exit(0)
      },
      (error: unknown) => {
        log.fatal({ err: error }, 'the daemon did not stop well')
        process.exit(1)
      },
    )
  }
  process.on('SIGTERM', stop).on('SIGINT', stop)
  // Whoever reads this may stop us at once.
  console.log(`tidegate ${version} ready: http://${daemon.http} sftp://${daemon.sftp ?? 'off'}`)
  await manager.ready()
}

function showPassword(made: string): void {
  console.log(`first run: sign in as admin with the password ${made} (it is shown only this once)`)
}

/**
 * A rejection that nobody waits for belongs to one request: it is logged, and the daemon lives. After an uncaught exception
 * nobody knows what was left half done in memory: the process ends and is started again (docs/decisions/0007).
 */
function surviveTheUnforeseen(log: Log): void {
  process.on('unhandledRejection', (error) => {
    log.error({ err: error }, 'a rejection was not handled')
  })
  process.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'an exception was not caught')
    process.exit(1)
  })
  // Whoever read the ready line may have gone.
  process.stdout.on('error', () => undefined)
}

const program = new Command('tidegate')
  // A wrong word counts as a bad configuration; help and the version are no failure.
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .description('One tree of storages, served over HTTP, WebDAV and SFTP')
  .version(version)
  // Else the default command would be said to have too many arguments.
  .hook('preSubcommand', ({ args: [word = '-'], commands }) => {
    const isKnown = word.startsWith('-') || commands.some((command) => command.name() === word)
    if (!isKnown) program.error(`error: unknown command '${word}'`)
  })
withAddressOptions(withDataOptions(program.command('serve', { isDefault: true })))
  .description('run the daemon')
  .action(serve)
addDataCommands(program)

try {
  await program.parseAsync()
} catch (error) {
  console.error(
    `tidegate: ${error instanceof GatewayError ? error.reason : error instanceof Error ? error.message : String(error)}`,
  )
  process.exit(error instanceof GatewayError && error.code === 'invalid' ? 2 : 1)
}
