/** The connection of a worker to its primary process, which keeps the locks and passes notices on. */
import { GatewayError } from '../base/errors.js'
import type { HeldLocks, PathClaim, ProcessChannel } from '../database/engine.js'
import type { Topic } from '../database/topics.js'
import { OutgoingMessages, type ToPrimary, type ToWorker } from './worker-messages.js'

interface Waiting {
  readonly resolve: () => void
  readonly reject: (error: GatewayError) => void
}

/** The functions that a worker calls when the primary asks for them. */
interface Handlers {
  readonly stop: () => void
  readonly reload: () => void
  /** Resolves if the worker is healthy. */
  readonly check: () => Promise<unknown>
}

export class PrimaryChannel implements ProcessChannel {
  readonly spansMachines = false
  readonly #waiting = new Map<number, Waiting>()
  readonly #outgoing = new OutgoingMessages<ToPrimary>((messages) => process.send?.(messages))
  /** The numbers of changes that workers have committed. */
  #counts: ReadonlyMap<Topic, number> = new Map()
  #lastId = 0
  #noticed: (notice: string | undefined) => void = () => undefined

  #handlers: Handlers = {
    stop: () => process.exit(0),
    reload: () => undefined,
    check: () => Promise.reject(new Error('the worker is starting')),
  }

  constructor() {
    process.on('message', (messages: readonly ToWorker[]) => messages.forEach((message) => this.#receive(message)))
    // A worker without its primary holds no locks.
    process.once('disconnect', () => process.exit(1))
  }

  /** From now on, these answer the primary. */
  start(handlers: Handlers): void {
    this.#handlers = handlers
  }

  async acquire(claims: readonly PathClaim[]): Promise<HeldLocks> {
    const id = ++this.#lastId
    await this.#ask(id, { kind: 'acquire', id, claims })
    return {
      counts: this.#counts,
      // Messages arrive in their order: what this worker asks for next is granted after the release.
      release: async (notices) => {
        this.#outgoing.sendLater({ kind: 'release', id, notices })
        return true
      },
    }
  }

  async changed(counts: ReadonlyMap<Topic, number>): Promise<void> {
    const id = ++this.#lastId
    await this.#ask(id, { kind: 'changed', id, counts: [...counts] })
  }

  async notify(notices: readonly string[]): Promise<void> {
    this.send({ kind: 'notify', notices })
  }

  onNotice(listener: (notice: string | undefined) => void): void {
    this.#noticed = listener
  }

  send(message: ToPrimary): void {
    this.#outgoing.send(message)
  }

  #ask(id: number, message: ToPrimary): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      this.send(message)
    })
  }

  #receive(message: ToWorker): void {
    switch (message.kind) {
      case 'granted':
      case 'counted':
        this.#answered(message.id)?.resolve()
        break
      case 'refused':
        this.#answered(message.id)?.reject(new GatewayError('busy', { reason: message.reason, retryAfter: 1 }))
        break
      case 'changed':
        this.#counts = new Map(message.counts)
        break
      case 'notice':
        this.#noticed(message.notice)
        break
      case 'check':
        this.#handlers.check().then(
          () => this.send({ kind: 'healthy' }),
          () => undefined,
        )
        break
      case 'reload':
        this.#handlers.reload()
        break
      case 'stop':
        this.#handlers.stop()
    }
  }

  #answered(id: number): Waiting | undefined {
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    return waiting
  }
}
