/** The setting `audit_log`: a copy of all events as lines, in a file or on a server of syslog, for other programs. */
import { createSocket, type Socket } from 'node:dgram'
import { lookup } from 'node:dns/promises'
import { open, stat, type FileHandle } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname } from 'node:path'
import { settlesWithin } from '../base/cancellation.js'
import type { Log } from '../base/log.js'
import type { AuditEvent } from '../database/audit-rows.js'
import { syslogServer } from '../net/addresses.js'
import type { Settings } from '../settings/settings.js'
import { logLine, logText } from './forms.js'

/** Milliseconds within which events are written together. */
const groupTime = 100
/** Milliseconds after which a target that has failed is tried again. */
const retryTime = 10_000
/** Milliseconds that the end of the process waits for a file that cannot be written now. */
const closeTimeout = 2000
/** Maximum number of events that wait. The audit has the others too. */
const maxHeld = 10_000
/** Maximum size of a message of syslog in bytes: what receivers are expected to accept (RFC 5424 §6.1). */
const maxMessage = 2048

/**
 * The target of lines. An error that `write` rejects with, or that comes later, is logged, and the target opened again.
 */
interface Target {
  write(events: readonly AuditEvent[]): Promise<void>
  close(): Promise<void>
}

/** Writes events to the target of the setting. Never throws, and makes no caller wait. */
export class AuditLog {
  #place: string
  #target: Target | undefined
  /** The events of the next group. */
  #waiting: AuditEvent[] = []
  /** The number of events in all groups. */
  #held = 0
  #lost = 0
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> = Promise.resolve()
  /** The time of the next attempt, by a clock that is never set back. */
  #retryAt = 0
  readonly #unsubscribe: () => void

  constructor(
    private readonly settings: Pick<Settings, 'get' | 'onChange'>,
    private readonly log: Pick<Log, 'warn'>,
  ) {
    this.#place = settings.get('audit_log')
    this.#unsubscribe = settings.onChange(() => {
      const place = this.settings.get('audit_log')
      if (place === this.#place) return
      this.#flush()
      this.#writing = this.#writing.then(async () => {
        await this.#drop()
        this.#retryAt = 0
      })
      this.#place = place
    })
  }

  readonly write = (event: AuditEvent): void => {
    if (this.#place === '') return
    if (this.#held >= maxHeld) {
      this.#lost++
      return
    }
    this.#held++
    this.#waiting.push(event)
    this.#timer ??= setTimeout(() => this.#flush(), groupTime).unref()
  }

  /** Resolves when all is written that can be. */
  async close(): Promise<void> {
    this.#unsubscribe()
    if (this.#place !== '') this.#retryAt = 0
    this.#flush()
    await settlesWithin(
      this.#writing.then(() => this.#drop()),
      closeTimeout,
    )
  }

  #flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const place = this.#place
    const events = this.#waiting.splice(0)
    // It was switched off before they could be written.
    if (place === '') this.#held -= events.length
    else if (events.length > 0) this.#writing = this.#writing.then(() => this.#writeGroup(place, events))
  }

  async #writeGroup(place: string, events: readonly AuditEvent[]): Promise<void> {
    if (performance.now() < this.#retryAt) {
      this.#postpone(events)
      return
    }
    try {
      this.#target ??= await openTarget(place)
      await this.#target.write(events)
      this.#held -= events.length
      if (this.#lost > 0) this.log.warn({ place, lost: this.#lost }, 'the log of the audit has lost events')
      this.#lost = 0
    } catch (error) {
      this.log.warn({ err: error, place }, 'the log of the audit cannot be written')
      await this.#drop()
      this.#retryAt = performance.now() + retryTime
      this.#postpone(events)
    }
  }

  #postpone(events: readonly AuditEvent[]): void {
    this.#waiting.unshift(...events)
    this.#timer ??= setTimeout(() => this.#flush(), retryTime).unref()
  }

  async #drop(): Promise<void> {
    await this.#target?.close().catch(() => undefined)
    this.#target = undefined
  }
}

async function openTarget(place: string): Promise<Target> {
  const server = syslogServer(place)
  return server === undefined ? LogFile.open(place) : SyslogServer.open(server)
}

/** A file that several processes may append to, and that another program may move away. */
class LogFile implements Target {
  private constructor(
    private readonly path: string,
    private handle: FileHandle,
  ) {}

  static async open(path: string): Promise<LogFile> {
    return new LogFile(path, await opened(path))
  }

  async write(events: readonly AuditEvent[]): Promise<void> {
    const [is, was] = [await stat(this.path).catch(() => undefined), await this.handle.stat()]
    if (is?.ino !== was.ino || is.dev !== was.dev) {
      const rotated = await opened(this.path)
      await this.handle.close()
      this.handle = rotated
    }
    await this.handle.appendFile(events.map((event) => `${logLine(event)}\n`).join(''))
  }

  close(): Promise<void> {
    return this.handle.close()
  }
}

/**
 * The file, open to append lines to. One that root makes belongs to the owner of its folder: the daemon, which has
 * another user, must be able to write what a command of root has begun. A part of a line, which a full disk has left,
 * is ended.
 */
async function opened(path: string): Promise<FileHandle> {
  const handle = await open(path, 'a+', 0o600)
  try {
    const { size } = await handle.stat()
    if (size > 0) {
      const { buffer } = await handle.read(Buffer.alloc(1), 0, 1, size - 1)
      if (buffer.toString() !== '\n') await handle.appendFile('\n')
    } else if (process.getuid?.() === 0) {
      const { uid, gid } = await stat(dirname(path))
      await handle.chown(uid, gid)
    }
    return handle
  } catch (error) {
    await handle.close()
    throw error
  }
}

/** Messages of RFC 5424 by UDP (RFC 5426). */
class SyslogServer implements Target {
  private constructor(private readonly socket: Socket) {}

  static async open({ host, port }: { readonly host: string; readonly port: number }): Promise<SyslogServer> {
    const { address, family } = await lookup(host)
    const socket = createSocket(family === 6 ? 'udp6' : 'udp4').unref()
    // Without a listener, the answer of a host where nothing listens would end the process.
    socket.on('error', () => undefined)
    await new Promise<void>((resolve, reject) => {
      socket.once('error', reject).connect(port, address, () => resolve())
    })
    return new SyslogServer(socket)
  }

  async write(events: readonly AuditEvent[]): Promise<void> {
    for (const event of events) {
      const message = Buffer.from(syslogMessage(event)).subarray(0, maxMessage)
      await new Promise<void>((resolve, reject) => {
        this.socket.send(message, (error) => (error === null ? resolve() : reject(error)))
      })
    }
  }

  async close(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.socket.close(() => resolve())
    })
  }
}

/** The facility "log audit" (RFC 5424 §6.2.1), and the severities of results. */
const facility = 13
const severities = { done: 6, refused: 4, failed: 3 } as const

function syslogMessage(event: AuditEvent): string {
  const priority = facility * 8 + severities[event.result]
  const time = new Date(event.time).toISOString()
  return `<${priority}>1 ${time} ${hostname()} tidegate ${process.pid} ${event.kind} - ${logText(event)}`
}
