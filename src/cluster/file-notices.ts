/** Tells the other nodes about changes of the tree, and applies theirs: what is cached of a changed path is dropped. */
import { GatewayError } from '../base/errors.js'
import type { Log } from '../base/log.js'
import { root, truncateTo } from '../base/path.js'
import { maxNotice, type SharedEngine } from '../database/engine.js'
import type { Events, TreeChange } from '../storage/events.js'

/** Milliseconds after which events are sent that no released path lock has taken along, and after a failure. */
const sendDelay = 10
const retryDelay = 1000
/** Maximum pending notices. More are replaced by one notice that everything has changed. */
const maxPending = 10_000

/** Asks the node that does the duty of this name. */
interface DutyRequest {
  readonly kind: string
  readonly request: unknown
}

const everything: TreeChange = { kind: 'changed elsewhere', path: root }

const kinds: ReadonlySet<string> = new Set<TreeChange['kind']>([
  'written',
  'folder made',
  'removed',
  'moved',
  'changed elsewhere',
])

export class FileNotices {
  #pending: string[] = []
  #timer: NodeJS.Timeout | undefined
  /** The functions that handle requests, by the names of the duties. */
  readonly #handlers = new Map<string, (request: unknown) => void>()
  readonly #unsubscribe: () => void

  constructor(
    private readonly shared: Pick<SharedEngine, 'notify' | 'onNotice'>,
    events: Events,
    private readonly log: Log,
  ) {
    this.#unsubscribe = events.on((event, origin) => {
      if (origin === 'here') this.#add(event)
    })
    shared.onNotice((notice) => {
      const told = notice === undefined ? undefined : (JSON.parse(notice) as TreeChange | DutyRequest)
      if (told && 'request' in told) this.#handlers.get(told.kind)?.(told.request)
      else events.emit(eventOf(told), 'elsewhere')
    })
  }

  /**
   * Sends a request to the other nodes. The one that does the duty handles it. Rejects with `invalid` if it is too long
   * for a notice.
   */
  async request(duty: string, request: unknown): Promise<void> {
    const text = JSON.stringify({ kind: duty, request })
    if (Buffer.byteLength(text) > maxNotice) {
      throw new GatewayError('invalid', { reason: 'the paths are too long for one request: update fewer at once' })
    }
    await this.shared.notify([text])
  }

  /** `handle` gets what other nodes `request` for the duty. Only the node that does the duty acts on it. */
  onRequest(duty: string, handle: (request: unknown) => void): void {
    this.#handlers.set(duty, handle)
  }

  /** Returns notices that could not be sent. They are sent again. */
  putBack(notices: readonly string[]): void {
    if (notices.length === 0) return
    this.#pending = [...notices, ...this.#pending]
    if (this.#pending.length > maxPending) this.#pending = [noticeOf(everything)]
    this.#sendAfter(retryDelay)
  }

  /** Removes and returns the notices that have not been sent. */
  take(): readonly string[] {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const taken = this.#pending
    this.#pending = []
    return taken
  }

  /** Sends no further events. Resolves when the pending ones are sent. */
  async close(): Promise<void> {
    this.#unsubscribe()
    const notices = this.take()
    if (notices.length > 0) await this.shared.notify(notices).catch(() => undefined)
  }

  #add(event: TreeChange): void {
    this.#pending.push(noticeOf(event))
    this.#sendAfter(sendDelay)
  }

  #sendAfter(delay: number): void {
    this.#timer ??= setTimeout(() => void this.#send(), delay).unref()
  }

  async #send(): Promise<void> {
    const notices = this.take()
    if (notices.length === 0) return
    try {
      await this.shared.notify(notices)
    } catch (error) {
      this.log.warn({ err: error }, 'other nodes could not be told of changes; retrying')
      this.putBack(notices)
    }
  }
}

function noticeOf(event: TreeChange): string {
  const text = JSON.stringify(event)
  if (Buffer.byteLength(text) <= maxNotice) return text
  // Too long for a notice: everything near the path has changed.
  const paths = event.kind === 'moved' ? [event.from, event.path] : [event.path]
  const [first = root, ...others] = paths.map((path) => truncateTo(path, 2))
  const path = others.every((other) => other === first) && Buffer.byteLength(first) < 1000 ? first : root
  return JSON.stringify({ kind: 'changed elsewhere', path })
}

/** Any change, if the notice was missed or is that of a newer program. */
function eventOf(notice: TreeChange | undefined): TreeChange {
  return notice !== undefined && kinds.has(notice.kind) ? notice : everything
}
