/** A driver whose files have direct addresses, as those of an object store have. */
import { MemoryDriver } from '../../../drivers/memory/memory.js'
import type { DirectUrl } from '../../../src/contract/capabilities.js'
import type { AnyDriverType } from '../../../src/contract/driver-type.js'
import { GatewayError } from '../../../src/contract/errors.js'
import type { Path } from '../../../src/contract/path.js'

/** How the address of a file looks, and how often one was asked for. */
export interface Linking {
  link: (path: Path) => DirectUrl
  asked: number
}

/** A driver type `Linked`, in memory. Missing files and folders have no address. */
export function linkedType(linking: Linking): AnyDriverType {
  return {
    name: 'Linked',
    fields: {},
    facts: { directUrls: 'preferred' },
    open: async () => {
      const driver = new MemoryDriver(0)
      return Object.assign(driver, {
        directUrl: async (path: Path): Promise<DirectUrl> => {
          linking.asked++
          if ((await driver.stat(path)).kind === 'folder') throw new GatewayError('is_dir')
          return linking.link(path)
        },
      })
    },
  }
}
