/** Records operations of all clients, by one clock. */
import type { Action, Answer, Operation, Protocol } from './history.js'

export class Recorder {
  readonly operations: Operation[] = []
  #contents = 0

  /** Milliseconds since the start of this process. */
  now(): number {
    return performance.now()
  }

  /** An id that no other content has. */
  newContent(client: string): string {
    return `${client}.${++this.#contents}`
  }

  /** Performs an operation. One that fails has an open outcome. */
  async record(
    by: { readonly client: string; readonly protocol: Protocol; readonly presented?: string },
    action: Action,
    perform: () => Promise<Answer>,
  ): Promise<Operation> {
    const begin = this.now()
    const answer = await perform().catch((error: unknown): Answer => ({ outcome: 'open', text: String(error) }))
    const operation = { ...by, ...action, ...answer, begin, end: this.now() }
    this.operations.push(operation)
    return operation
  }
}
