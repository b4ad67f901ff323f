/** A driver behind what surrounds its calls, without the rest of a storage. */
import type { Driver } from '../../src/contract/driver.js'
import { defaultTraits, type Traits } from '../../src/contract/traits.js'
import type { DriverLog } from '../../src/base/log.js'
import { asPath } from '../../src/base/path.js'
import { Backend, type DriverMethod } from '../../src/storage/backend.js'
import type { FileRecords } from '../../src/database/tables.js'

/** The backend of a storage at `mountPoint`, which keeps no empty folders. */
export function newBackend(
  driver: Driver,
  traits: Partial<Traits> = {},
  log: Pick<DriverLog, 'warn'> = { warn: () => undefined },
  mountPoint = '/mnt',
): Backend {
  return new Backend({
    driver,
    traits: { ...defaultTraits, ...traits, emptyFolders: true },
    mountPoint: asPath(mountPoint),
    folders: {} as FileRecords['folders'],
    bandwidth: undefined,
    log: log as DriverLog,
  })
}

/** The backend as a driver, without the methods that its own driver lacks. */
export function asDriver(backend: Backend): Driver {
  return new Proxy(backend, {
    get: (target, key) => {
      if (key === 'traits') return backend.driver.traits
      const value: unknown = Reflect.get(target, key)
      if (typeof value !== 'function') return value
      return backend.can(key as DriverMethod) ? (value.bind(backend) as unknown) : undefined
    },
  })
}
