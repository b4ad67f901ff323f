/** The driver type of storages in memory: for tests and disposable data. */
import type { DriverType } from '../../src/contract/driver-type.js'

const memoryFields = {
  size_limit: { type: 'number', default: 0, basic: true, help: 'Maximum total bytes of all files; 0: no limit.' },
  case_sensitive: {
    type: 'bool',
    default: true,
    help: 'Off: names that differ only in case are the same name, as on Windows and macOS.',
  },
} as const

export const memoryType: DriverType<typeof memoryFields> = {
  name: 'Memory',
  fields: memoryFields,
  facts: { uncached: true, perProcess: true, warning: 'All files are lost when the storage stops.' },
  async open(options) {
    const { MemoryDriver } = await import('./memory.js')
    return new MemoryDriver(options.size_limit, options.case_sensitive)
  },
}
