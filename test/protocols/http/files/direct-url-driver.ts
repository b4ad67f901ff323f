/** A driver whose files have direct URLs, like those of an object store. */
import { MemoryDriver } from '../../../../drivers/memory/memory.js'
import type { DirectUrl } from '../../../../src/contract/capabilities.js'
import type { AnyDriverType } from '../../../../src/contract/driver-type.js'
import { GatewayError } from '../../../../src/base/errors.js'
import type { Path } from '../../../../src/base/path.js'

/** The direct URL of a file, and the number of calls. */
export interface DirectUrls {
  directUrl: (path: Path) => DirectUrl
  asked: number
}

/** A driver type `DirectUrls`, in memory. Missing files and folders have no direct URL. */
export function directUrlType(directUrls: DirectUrls): AnyDriverType {
  return {
    name: 'DirectUrls',
    fields: {},
    facts: { directUrls: 'preferred' },
    open: async () => {
      const driver = new MemoryDriver(0)
      return Object.assign(driver, {
        directUrl: async (path: Path): Promise<DirectUrl> => {
          directUrls.asked++
          if ((await driver.stat(path)).kind === 'folder') throw new GatewayError('is_folder')
          return directUrls.directUrl(path)
        },
      })
    },
  }
}
