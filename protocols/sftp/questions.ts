/** Questions of a sign-in (RFC 4256 §3.2), one at a time. */
import type { KeyboardAuthContext } from 'ssh2'
import { GatewayError } from '../../src/errors.js'

export class Questions {
  #dropped = false

  constructor(private readonly context: KeyboardAuthContext) {
    context.once('abort', () => (this.#dropped = true))
  }

  /** The answer; `shown`: the client may show what is typed. Rejects with `aborted` where the client began anew meanwhile. */
  async ask(prompt: string, { shown }: { readonly shown: boolean }): Promise<string> {
    this.assertStanding()
    const answers = await new Promise<unknown>((resolve) =>
      this.context.prompt([{ prompt, echo: shown }], (given: unknown) => resolve(given)),
    )
    this.assertStanding()
    const [answer] = Array.isArray(answers) && answers.length === 1 ? (answers as readonly unknown[]) : []
    // RFC 4256 §3.4: as many answers as there were questions, or it has failed.
    if (typeof answer !== 'string') throw new GatewayError('unauthenticated', { op: 'sign in' })
    return answer
  }

  /** Throws `aborted` where the client has asked for another way to sign in: this one must not open anything then. */
  assertStanding(): void {
    if (this.#dropped) throw new GatewayError('aborted', { op: 'sign in', reason: 'the client began anew' })
  }
}
