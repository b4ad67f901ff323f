/** A driver whose files have direct addresses, as those of an object store have. */
import { MemoryDriver } from '../../../drivers/memory/memory.js'
import type { AnyDriverType, Link } from '../../../src/driver.js'
import { GatewayError } from '../../../src/errors.js'
import type { Path } from '../../../src/path.js'

/** How the address of a file looks, and how often one was asked for. */
export interface Linking {
  link: (path: Path) => Link
  asked: number
}

/** A driver type `Linked`, in memory. Missing files and folders have no address. */
export function linkedType(linking: Linking): AnyDriverType {
  return {
    name: 'Linked',
    fields: {},
    open: async () => {
      const driver = new MemoryDriver(0)
      return Object.assign(driver, {
        link: async (path: Path): Promise<Link> => {
          linking.asked++
          if ((await driver.stat(path)).kind === 'folder') throw new GatewayError('is_dir')
          return linking.link(path)
        },
      })
    },
  }
}
