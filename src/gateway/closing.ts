/** How the parts that have been opened are closed: each before those that were opened earlier. */
export class Closing {
  readonly #steps: (() => unknown)[] = []
  #closed: Promise<void> | undefined

  /** `close`: closes the part that was opened last. */
  add(close: () => unknown): void {
    this.#steps.push(close)
  }

  /**
   * Closes all parts, one after another. If some fail, the others are closed too, and it rejects with an error. Later
   * calls get the same promise.
   */
  close(): Promise<void> {
    return (this.#closed ??= this.#closeNext())
  }

  async #closeNext(): Promise<void> {
    const step = this.#steps.pop()
    try {
      await step?.()
    } finally {
      if (step) await this.#closeNext()
    }
  }
}
