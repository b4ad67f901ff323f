/**
 * Sign-ins at backends by QR codes, for a storage that is about to be saved. The client keeps what a sign-in needs, so
 * that any node can go on with it, and nothing is left if it does not.
 */
import { GatewayError } from '../base/errors.js'
import type { CallOptions } from '../contract/call-options.js'
import type { DriverEnv } from '../contract/driver-env.js'
import type { QrAnswer, QrCode, QrSignIn } from '../contract/driver-type.js'
import { Attempts } from '../base/attempts.js'
import { parseAddition } from './fields.js'
import { driverTypeNamed } from './storage-admin.js'
import { trialEnv, type TrialDependencies } from './storage-trials.js'

/** An answer of a backend may take some seconds, while it waits for the user of the app. */
const limits = { atOnce: 8, time: 30_000, busy: 'others sign in by QR codes' }

export class StorageSignIns {
  readonly #attempts = new Attempts(limits)

  constructor(private readonly dependencies: TrialDependencies) {}

  /**
   * Asks the backend of a driver for a code. `addition`: the options so far, as JSON. Rejects with `invalid` if there
   * is no such driver, `unsupported` if it has no such sign-in, `busy`, `timeout`, and as the driver.
   */
  begin(driver: string, addition: string, { signal }: CallOptions = {}): Promise<QrCode> {
    return this.#run(driver, (signIn, env) => signIn.begin(parseAddition(addition), env), signal)
  }

  /** What became of the code. Rejects as `begin`. */
  ask(driver: string, ticket: string, { signal }: CallOptions = {}): Promise<QrAnswer> {
    return this.#run(driver, (signIn, env) => signIn.ask(ticket, env), signal)
  }

  async #run<Result>(
    driver: string,
    work: (signIn: QrSignIn, env: DriverEnv) => Promise<Result>,
    signal: AbortSignal | undefined,
  ): Promise<Result> {
    const { qrSignIn, name } = driverTypeNamed(driver, this.dependencies.driverTypes)
    if (!qrSignIn) throw new GatewayError('unsupported', { reason: `${name} has no sign-in by QR code` })
    return this.#attempts.run(
      async (signal) => work(qrSignIn, trialEnv(this.dependencies, name, undefined, signal)),
      signal,
    )
  }
}
