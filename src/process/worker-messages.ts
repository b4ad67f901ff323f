/** What the primary process and its workers send to each other: arrays of messages. */
import type { Addresses } from '../installation/config.js'
import type { PathClaim } from '../database/engine.js'
import type { Topic } from '../database/topics.js'

/** The numbers of changes of topics, as in the table `change_counts`. */
export type Counts = readonly (readonly [Topic, number])[]

export type ToPrimary =
  /** The worker accepts connections. */
  | { readonly kind: 'ready'; readonly addresses: Addresses }
  /** Asks for locks. The answer is `granted` or `refused` with the same id. */
  | { readonly kind: 'acquire'; readonly id: number; readonly claims: readonly PathClaim[] }
  /** Tells the other workers about changes, and releases locks. */
  | { readonly kind: 'release'; readonly id: number; readonly notices: readonly string[] }
  /** Tells the other workers about changes. */
  | { readonly kind: 'notify'; readonly notices: readonly string[] }
  /**
   * The worker has committed changes of topics. The answer is `counted`, when no other worker is granted locks without
   * them.
   */
  | { readonly kind: 'changed'; readonly id: number; readonly counts: Counts }
  /** The answer to `check`: the worker runs, and its database responds. */
  | { readonly kind: 'healthy' }

export type ToWorker =
  | { readonly kind: 'granted' | 'counted'; readonly id: number }
  | { readonly kind: 'refused'; readonly id: number; readonly reason: string }
  /** A worker has committed changes of topics. */
  | { readonly kind: 'changed'; readonly counts: Counts }
  /** A change by another worker; undefined if some were missed. */
  | { readonly kind: 'notice'; readonly notice: string | undefined }
  | { readonly kind: 'check' }
  /** The worker reads the TLS certificate again. */
  | { readonly kind: 'reload' }
  /** The worker must stop, and end. */
  | { readonly kind: 'stop' }

/** The longest time in milliseconds that `sendLater` keeps a message. */
const latest = 2

/** Sends several messages together, because each write to a pipe wakes the other process. */
export class OutgoingMessages<Message> {
  #messages: Message[] = []
  #immediate: NodeJS.Immediate | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(private readonly write: (messages: readonly Message[]) => void) {}

  /** Sends the message with the others of this turn of the event loop. */
  send(message: Message): void {
    this.#messages.push(message)
    this.#immediate ??= setImmediate(() => this.#flush())
  }

  /** Sends a message that nothing waits for with the next one, or within 2 ms. */
  sendLater(message: Message): void {
    this.#messages.push(message)
    this.#timer ??= setTimeout(() => this.#flush(), latest)
  }

  #flush(): void {
    clearImmediate(this.#immediate)
    clearTimeout(this.#timer)
    this.#immediate = this.#timer = undefined
    const messages = this.#messages
    this.#messages = []
    this.write(messages)
  }
}
