/** How the parts that have been opened are closed: each before those that were opened earlier. */
export class Closing {
  readonly #steps: (() => unknown)[] = []

  /** `close`: closes the part that was opened last. */
  add(close: () => unknown): void {
    this.#steps.push(close)
  }

  /** Closes all parts, one after another. If some fail, the others are closed too, and it rejects with an error. */
  async close(): Promise<void> {
    const step = this.#steps.pop()
    try {
      await step?.()
    } finally {
      if (step) await this.close()
    }
  }
}
