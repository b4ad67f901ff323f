/** Long work in steps, so that the document answers the console and the page stays smooth. */

/** Milliseconds of work between two pauses. */
const stepTime = 25

export class Steps {
  #start = performance.now()

  /** To be awaited often. It pauses only if the step has taken long enough. */
  async pause(): Promise<void> {
    if (performance.now() - this.#start < stepTime) return
    await new Promise((resolve) => setTimeout(resolve))
    this.#start = performance.now()
  }
}
