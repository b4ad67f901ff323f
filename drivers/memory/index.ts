<<<<<<< HEAD
/** A tree in memory, gone with the mount: for tests and for throw-away space. */
import type { DriverType } from '../../src/driver.js'

const fields = {
  size_limit: {
    type: 'number',
    default: 0,
    help: 'Bytes that all files together may hold; 0 for no limit but the memory of the machine.',
  },
} as const

export const memoryType: DriverType<typeof fields> = {
  name: 'Memory',
  fields,
  config: { local_sort: true, only_proxy: true },
=======
/** Storages in memory: for tests, and for mounts that nobody will miss. */
import type { DriverType, OptionsOf } from '../../src/driver.js'

export const memoryFields = {
  size_limit: { type: 'number', default: 0, help: 'Bytes that all files may take up together; 0: no limit.' },
} as const

export type MemoryOptions = OptionsOf<typeof memoryFields>

export const memoryType: DriverType<typeof memoryFields> = {
  name: 'Memory',
  fields: memoryFields,
  config: {
    local_sort: true,
    only_proxy: true,
    no_cache: true,
    alert: 'warning|Everything in here is gone when the storage stops.',
  },
>>>>>>> drivers
  async open(options) {
    const { MemoryDriver } = await import('./memory.js')
    return new MemoryDriver(options.size_limit)
  },
}
