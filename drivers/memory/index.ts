/** Storages in memory: for tests, and for mounts that nobody will miss. */
import type { DriverType, OptionsOf } from '../../src/driver.js'

export const memoryFields = {
  size_limit: { type: 'number', default: 0, help: 'Bytes that all files may take up together; 0: no limit.' },
  case_sensitive: {
    type: 'bool',
    default: true,
    help: 'Off: names that differ only in case are one name, as on the disks of other systems.',
  },
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
  async open(options) {
    const { MemoryDriver } = await import('./memory.js')
    return new MemoryDriver(options.size_limit, options.case_sensitive)
  },
}
