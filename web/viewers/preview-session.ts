/** The talk with a preview document in a frame. It ends when the document does not answer, or is no longer there. */
import { reportOf, type Order, type Report } from '../preview/messages.ts'

/** Milliseconds between two questions whether the document answers. */
const pingInterval = 5000
/** Questions without an answer after which it is given up. */
const mostUnanswered = 4

interface Listeners {
  readonly onReport: (report: Report) => void
  /** Called when the document does not answer. */
  readonly onSilence: () => void
}

export class PreviewSession {
  readonly #port: MessagePort
  readonly #frame: HTMLIFrameElement
  readonly #loaded: Promise<void>
  readonly #listeners: Listeners
  readonly #ended = new AbortController()
  #unanswered = 0

  /** The document is being loaded into `frame`. */
  constructor(frame: HTMLIFrameElement, listeners: Listeners) {
    this.#frame = frame
    this.#listeners = listeners
    const { port1, port2 } = new MessageChannel()
    this.#port = port1
    port1.onmessage = ({ data }) => this.#receive(data)
    const { signal } = this.#ended
    this.#loaded = new Promise((resolve) => {
      let isLoaded = false
      const onLoad = () => {
        // Another document in its place is not ours.
        if (isLoaded) {
          this.#giveUp()
          return
        }
        isLoaded = true
        const timer = setInterval(() => this.#ping(), pingInterval)
        signal.addEventListener('abort', () => clearInterval(timer))
        // The origin of the document is opaque: there is no other name for it.
        frame.contentWindow?.postMessage(null, '*', [port2])
        resolve()
      }
      frame.addEventListener('load', onLoad, { signal })
    })
    signal.addEventListener('abort', () => port1.close())
  }

  async send(order: Order, transferred: readonly Transferable[] = []): Promise<void> {
    await this.#loaded
    if (!this.#ended.signal.aborted) this.#port.postMessage(order, [...transferred])
  }

  end(): void {
    this.#ended.abort()
  }

  #receive(sent: unknown): void {
    this.#unanswered = 0
    const report = reportOf(sent)
    if (report) this.#listeners.onReport(report)
  }

  #ping(): void {
    if (this.#unanswered >= mostUnanswered) this.#giveUp()
    else {
      this.#unanswered++
      void this.send({ kind: 'ping' })
    }
  }

  #giveUp(): void {
    if (this.#ended.signal.aborted) return
    this.end()
    // What runs in it ends.
    this.#frame.remove()
    this.#listeners.onSilence()
  }
}
