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
  async open(options) {
    const { MemoryDriver } = await import('./memory.js')
    return new MemoryDriver(options.size_limit)
  },
}
