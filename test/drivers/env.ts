/** A driver environment for tests that belongs to no gateway. */
import { localFields, localType } from '../../drivers/local/index.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import type { OptionsOf } from '../../src/contract/driver-type.js'
import { GatewayError } from '../../src/base/errors.js'
import { thisInstance } from '../../src/installation/instance.js'
import { EgressGuard } from '../../src/net/egress.js'
import { checkOptions } from '../../src/mounts/fields.js'
import { memoryState } from './lib/cloud/vendor.js'

export function testEnv(over: Partial<DriverEnv> = {}): DriverEnv {
  const silent = () => undefined
  return {
    log: { debug: silent, info: silent, warn: silent, error: silent },
    signal: new AbortController().signal,
    instance: thisInstance(),
    own: { data: '/nowhere', protectedPaths: [] },
    spansMachines: false,
    save: async () => undefined,
    state: memoryState().state,
    resumableUploads: async () => [],
    tree: () => {
      throw new GatewayError('unsupported')
    },
    egress: new EgressGuard(() => ''),
    changed: () => undefined,
    assertCurrent: () => undefined,
    onChangeElsewhere: () => undefined,
    report: () => undefined,
    ...over,
  }
}

/** A Local driver on this folder, opened as for an admin's storage. */
export function openLocal(
  folder: string,
  options: Partial<OptionsOf<typeof localFields>> = {},
  env: Partial<DriverEnv> = {},
) {
  return localType.open(checkOptions(localFields, { root_folder_path: folder, ...options }), testEnv(env))
}
