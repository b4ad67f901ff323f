/**
 * Notifies systemd of the state of the service (sd_notify(3)). It runs `systemd-notify`, because Node has no Unix
 * datagram sockets (nodejs/node#29339). Does nothing without a service manager.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Log } from '../base/log.js'

const run = promisify(execFile)

interface SystemdNotificationsOptions {
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly log: Log
  /** The health check. If it rejects or does not settle, the watchdog is not notified. */
  readonly healthCheck: () => Promise<unknown>
}

export class SystemdNotifications {
  readonly #options: SystemdNotificationsOptions
  #watchdog: NodeJS.Timeout | undefined
  #checking = false

  constructor(options: SystemdNotificationsOptions) {
    this.#options = options
  }

  /** Call when every protocol accepts connections. Notifies the watchdog, if the unit has one, at half its interval. */
  async ready(): Promise<void> {
    await this.#notify('READY=1')
    const { WATCHDOG_USEC: microseconds, WATCHDOG_PID: pid } = this.#options.environment
    const interval = Number(microseconds) / 2000
    if (!(interval > 0) || (pid !== undefined && Number(pid) !== process.pid)) return
    this.#watchdog = setInterval(() => void this.#notifyWatchdog(), interval).unref()
  }

  /**
   * Call when the stop begins, with the longest time that it may take, in seconds: systemd kills the process no
   * earlier, whatever `TimeoutStopSec` of the unit. The watchdog is still notified: draining may take longer than its
   * interval.
   */
  async stopping(seconds: number): Promise<void> {
    await this.#notify('STOPPING=1', `EXTEND_TIMEOUT_USEC=${Math.ceil(seconds * 1e6)}`)
  }

  close(): void {
    clearInterval(this.#watchdog)
  }

  async #notifyWatchdog(): Promise<void> {
    // Only one check at a time: if it hangs, systemd acts on the missing notification.
    if (this.#checking) return
    this.#checking = true
    try {
      await this.#options.healthCheck()
      await this.#notify('WATCHDOG=1')
    } catch (error) {
      this.#options.log.error({ err: error }, 'health check failed, watchdog not notified')
    } finally {
      this.#checking = false
    }
  }

  async #notify(...state: readonly string[]): Promise<void> {
    if (!this.#options.environment.NOTIFY_SOCKET) return
    try {
      await run('systemd-notify', state, { timeout: 5000 })
    } catch (error) {
      this.#options.log.warn({ err: error, state }, 'systemd-notify failed')
    }
  }
}
