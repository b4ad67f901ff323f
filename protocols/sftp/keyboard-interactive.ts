/** Prompts of keyboard-interactive authentication (RFC 4256 §3.2), one per request. */
import type { KeyboardAuthContext } from 'ssh2'
import { GatewayError } from '../../src/contract/errors.js'

export class KeyboardInteractive {
  #aborted = false

  constructor(private readonly context: KeyboardAuthContext) {
    context.once('abort', () => (this.#aborted = true))
  }

  /**
   * Sends a prompt and resolves to the response. `shown`: the client may echo the input. Rejects with `aborted` if the
   * client starts another authentication request, with `unauthenticated` for a malformed response.
   */
  async prompt(prompt: string, { shown }: { readonly shown: boolean }): Promise<string> {
    this.assertNotAborted()
    const responses = await new Promise<unknown>((resolve) =>
      this.context.prompt([{ prompt, echo: shown }], (value: unknown) => resolve(value)),
    )
    this.assertNotAborted()
    const [response] = Array.isArray(responses) && responses.length === 1 ? (responses as readonly unknown[]) : []
    // RFC 4256 §3.4: the number of responses must match the number of prompts.
    if (typeof response !== 'string') throw new GatewayError('unauthenticated', { op: 'sign in' })
    return response
  }

  /**
   * Throws `aborted` if the client has started another authentication request, which abandons this one (RFC 4252 §5.1).
   */
  assertNotAborted(): void {
    if (this.#aborted) {
      throw new GatewayError('aborted', { op: 'sign in', reason: 'superseded by another authentication request' })
    }
  }
}
