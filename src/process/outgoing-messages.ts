/** Messages to another process. Several are sent together, because each write to a pipe wakes the other process. */

/** The longest time in milliseconds that `sendLater` keeps a message. */
const latest = 2

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
