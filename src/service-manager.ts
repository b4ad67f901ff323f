/**
 * What systemd is told (sd_notify(3)), through `systemd-notify`: Node has no Unix datagram sockets. It does nothing where
 * no service manager listens.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Log } from './log.js'

const run = promisify(execFile)

export interface ServiceManagerOptions {
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly log: Log
  /** Rejects, or never settles, where the daemon cannot do its work any more: then no sign of life is given. */
  readonly alive: () => Promise<unknown>
}

export class ServiceManager {
  readonly #options: ServiceManagerOptions
  #watchdog: NodeJS.Timeout | undefined
  #looking = false

  constructor(options: ServiceManagerOptions) {
    this.#options = options
  }

  /** Every door accepts. From now on the watchdog, where the unit asks for one, is served at half its time. */
  async ready(): Promise<void> {
    await this.#notify('READY=1')
    const { WATCHDOG_USEC: microseconds, WATCHDOG_PID: pid } = this.#options.environment
    const interval = Number(microseconds) / 2000
    if (!(interval > 0) || (pid !== undefined && Number(pid) !== process.pid)) return
    this.#watchdog = setInterval(() => void this.#showLife(), interval).unref()
  }

  /** The end has begun. The watchdog goes on meanwhile: a drain may take longer than its time. */
  async stopping(): Promise<void> {
    await this.#notify('STOPPING=1')
  }

  close(): void {
    clearInterval(this.#watchdog)
  }

  async #showLife(): Promise<void> {
    // A look that hangs is not joined by a second one; systemd acts when its time is over.
    if (this.#looking) return
    this.#looking = true
    try {
      await this.#options.alive()
      await this.#notify('WATCHDOG=1')
    } catch (error) {
      this.#options.log.error({ err: error }, 'no sign of life is given to the watchdog')
    } finally {
      this.#looking = false
    }
  }

  async #notify(state: string): Promise<void> {
    if (!this.#options.environment.NOTIFY_SOCKET) return
    try {
      await run('systemd-notify', [state], { timeout: 5000 })
    } catch (error) {
      this.#options.log.warn({ err: error, state }, 'systemd-notify failed')
    }
  }
}
