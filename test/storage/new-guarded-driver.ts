/** A driver behind what surrounds its calls, without the rest of a storage. */
import type { Driver } from '../../src/contract/driver.js'
import { defaultTraits, type Traits } from '../../src/contract/traits.js'
import type { DriverLog } from '../../src/base/log.js'
import { asPath } from '../../src/base/path.js'
import { GuardedDriver, type DriverMethod } from '../../src/storage/guarded-driver.js'
import type { FileRecords } from '../../src/database/tables.js'

/** The guarded driver of a storage at `mountPoint`, which keeps no empty folders. */
export function newGuardedDriver(
  driver: Driver,
  traits: Partial<Traits> = {},
  log: Pick<DriverLog, 'warn'> = { warn: () => undefined },
  mountPoint = '/mnt',
): GuardedDriver {
  return new GuardedDriver({
    driver,
    traits: { ...defaultTraits, ...traits, emptyFolders: true },
    mountPoint: asPath(mountPoint),
    folders: {} as FileRecords['folders'],
    bandwidth: undefined,
    log: log as DriverLog,
  })
}

/** The guarded driver as one that lacks the methods that its own driver lacks. */
export function asDriver(guarded: GuardedDriver): Driver {
  return new Proxy(guarded, {
    get: (target, key) => {
      if (key === 'traits') return guarded.driver.traits
      const value: unknown = Reflect.get(target, key)
      if (typeof value !== 'function') return value
      return guarded.can(key as DriverMethod) ? (value.bind(guarded) as unknown) : undefined
    },
  })
}
