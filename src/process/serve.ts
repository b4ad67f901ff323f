/** `tidegate serve`: the daemon in one process, or a primary process with workers; signals and the service manager. */
import cluster from 'node:cluster'
import type { Logger } from 'pino'
import type { Addresses, Config } from '../installation/config.js'
import { LogTail } from '../gateway/log-tail.js'
import { secretVariable } from '../installation/input.js'
import { version } from '../base/version.js'
import { applyContainerUser } from './container-user.js'
import { closingSeconds, startDaemon } from './daemon.js'
import { firstRunLines } from './first-run.js'
import { optimizeEarly } from './early-optimization.js'
import { afterStartup } from './garbage-collection.js'
import { createLog } from './log.js'
import { startPrimary } from './primary.js'
import { PrimaryChannel } from './primary-channel.js'
import { SystemdNotifications } from './systemd-notifications.js'

/** What `serve` runs in this process: the daemon, or the primary process of several workers. */
interface RunningDaemon {
  readonly addresses: Addresses
  /** Resolves when everything is closed. */
  readonly stop: () => Promise<void>
  /** Reads the TLS certificate again. */
  readonly reload: () => Promise<unknown>
  /** Rejects if the daemon is not healthy. */
  readonly check: () => Promise<unknown>
}

/** Runs the daemon, or this process's part of it, until a signal stops it. */
export async function serve(config: Config): Promise<void> {
  const logTail = new LogTail()
  const log = createLog(config.log_level, logTail)
  handleUncaughtErrors(log)
  let isFirstRun = false
  const admin = {
    password: await secretVariable('TIDEGATE_ADMIN_PASSWORD', process.env),
    onCreate: (username: string, random: string | undefined) => {
      isFirstRun = true
      if (random !== undefined) showPassword(username, random)
    },
  }
  // After the secrets, which only root may be able to read.
  await applyContainerUser(config.data, process.env)
  if (config.workers > 1 && cluster.isPrimary) {
    await run(await startPrimary(config, log, admin), config, log, () => isFirstRun)
    return
  }
  const channel = cluster.isWorker ? new PrimaryChannel() : undefined
  const start = (addresses: Addresses) =>
    startDaemon({ ...config, addresses }, log, admin, {
      logTail,
      onEnded: () => void restart(),
      ...(channel && { channel }),
    })
  // Nothing may continue under the id of a node that others have ended, so everything is opened again.
  const restart = async () => {
    try {
      const old = await daemon
      await old.stop(0)
      if (isStopping) return
      daemon = start(old.addresses)
      await daemon
      log.warn({}, 'restarted as a new node')
    } catch (error) {
      log.fatal({ err: error }, 'restarting as a new node failed')
      process.exit(1)
    }
  }
  let isStopping = false
  let daemon = start(config.addresses)
  const { addresses } = await daemon
  afterStartup()
  optimizeEarly()
  const running = {
    addresses,
    stop: async () => {
      isStopping = true
      await (await daemon).stop()
    },
    reload: async () => (await daemon).reload(),
    check: async () => (await daemon).gateway.store.settings.all(),
  }
  if (channel) runWorker(running, channel, log)
  else await run(running, config, log, () => isFirstRun)
}

/** Reports that the daemon is ready, and stops it when a signal asks for it. */
async function run(daemon: RunningDaemon, config: Config, log: Logger, isFirstRun: () => boolean): Promise<void> {
  const systemd = new SystemdNotifications({ environment: process.env, log, healthCheck: () => daemon.check() })
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
  process
    .on('SIGTERM', stop)
    .on('SIGINT', stop)
    .on('SIGHUP', () => void daemon.reload())
  // After the signal handlers: a process that reads this line may send a signal immediately.
  const addresses = Object.entries(daemon.addresses).filter(([, address]) => address !== 'off')
  const urls = addresses.map(([name, address]) => `${name}://${address}`)
  console.log(`tidegate ${version} ready: ${urls.join(' ')}`)
  if (isFirstRun()) console.log(firstRunLines(config, daemon.addresses).join('\n'))
  await systemd.ready()
}

/** Runs until the primary process stops it. The signals of a terminal or service manager are for the primary. */
function runWorker({ addresses, stop, reload, check }: RunningDaemon, channel: PrimaryChannel, log: Logger): void {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => undefined)
  let stopping = false
  const end = () => {
    if (stopping) return
    stopping = true
    stop().then(
      () => process.exit(0),
      (error: unknown) => {
        log.fatal({ err: error }, 'shutdown failed')
        process.exit(1)
      },
    )
  }
  channel.start({ stop: end, reload: () => void reload(), check })
  channel.send({ kind: 'ready', addresses })
}

function showPassword(username: string, generated: string): void {
  console.log(`first run: sign in as ${username} with the password ${generated} (it is shown only this once)`)
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
