/**
 * Trials of configurations: the driver is opened as for a mount, asked for its root folder, and closed. Nothing is
 * stored: neither the configuration nor the state of the driver, and nothing of earlier runs is removed or continued.
 */
import { GatewayError } from '../base/errors.js'
import { root } from '../base/path.js'
import type { CallOptions } from '../contract/call-options.js'
import type { DriverEnv, DriverState } from '../contract/driver-env.js'
import type { AnyDriverType } from '../contract/driver-type.js'
import { Attempts } from '../base/attempts.js'
import { checkOptions, parseAddition } from './fields.js'
import { requireDriverType, type MountSupervisor } from './mount-supervisor.js'
import { checkConfiguration, type StorageConfiguration } from './storage-admin.js'

export type TrialDependencies = Pick<
  MountSupervisor['dependencies'],
  'driverTypes' | 'processes' | 'mounts' | 'store' | 'log' | 'instance' | 'own' | 'tree' | 'egress' | 'uploads'
>

interface TrialOptions extends CallOptions {
  /** The storage that is to get this configuration; undefined: a new one. What its driver knows is used. */
  readonly id?: number | undefined
}

/** A trial may hold a thread if its backend does not respond. */
const limits = { atOnce: 4, time: 30_000, busy: 'other storages are being tested' }

export class StorageTrials {
  readonly #attempts = new Attempts(limits)

  constructor(private readonly dependencies: TrialDependencies) {}

  /**
   * Resolves if a storage of this configuration would start and its root folder can be reached. Rejects with the error
   * of the driver, with `timeout`, with `busy` during other trials, as `checkConfiguration` and `checkOptions`, and
   * with `unsupported` if the trial would use up a value that the backend accepts once.
   */
  async run(configuration: StorageConfiguration, { id, signal }: TrialOptions = {}): Promise<void> {
    const { addition, driver } = checkConfiguration(configuration, this.dependencies.driverTypes)
    const type = requireDriverType(driver, this.dependencies)
    const options = checkOptions(type.fields, parseAddition(addition))
    const usedUp = Object.keys(type.fields).find(
      (name) => type.fields[name]?.singleUse === true && options[name] !== '',
    )
    if (usedUp !== undefined) {
      const reason = `the field ${usedUp} can be used once: the storage is tested when it is saved`
      throw new GatewayError('unsupported', { reason })
    }
    const { mounts } = this.dependencies
    const stored = mounts.rows().find((row) => row.id === id && row.driver === driver)
    await this.#attempts.run(
      (signal) => opened(type, options, trialEnv(this.dependencies, configuration.mountPath, stored?.id, signal)),
      signal,
    )
  }
}

async function opened(type: AnyDriverType, options: unknown, env: DriverEnv): Promise<void> {
  const driver = await type.open(options as never, env)
  try {
    await driver.stat(root, { signal: env.signal })
  } finally {
    await driver.close?.()
  }
}

/**
 * What a driver may use that is asked about a storage at `mountPath`. `id`: the stored storage whose state it reads.
 * `signal` ends what it does.
 */
export function trialEnv(
  dependencies: TrialDependencies,
  mountPath: string,
  id: number | undefined,
  signal: AbortSignal,
): DriverEnv {
  const { log, instance, own, tree, egress, uploads } = dependencies
  return {
    log: log.child({ storage: mountPath, trial: true }),
    signal,
    // What other runs have left stays.
    instance: { ...instance, isOver: () => false },
    own,
    // The folder of a storage gets no marker.
    spansMachines: false,
    save: () => Promise.resolve(),
    state: trialState(dependencies, id),
    resumableUploads: () => uploads.tokens(),
    tree,
    egress,
    changed: () => undefined,
    assertCurrent: () => undefined,
    onChangeElsewhere: () => undefined,
    report: () => undefined,
  }
}

/** The state of the stored storage, in which the trial sees its own changes, and nobody else. */
function trialState({ store: { driverState } }: TrialDependencies, id: number | undefined): DriverState {
  const changed = new Map<string, string | undefined>()
  return {
    get: (key) => (changed.has(key) || id === undefined ? Promise.resolve(changed.get(key)) : driverState.get(id, key)),
    set: (key, value) => Promise.resolve(void changed.set(key, value)),
    exclusively: (_key, work) => work(),
    journal: () => ({ entry: () => ({ set: () => Promise.resolve() }), adopt: () => Promise.resolve() }),
  }
}
