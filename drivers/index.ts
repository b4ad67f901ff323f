/** Every driver there is: one line each. Nothing happens on import. */
import type { AnyDriverType } from '../src/driver.js'
import { localType } from './local/index.js'
import { memoryType } from './memory/index.js'
import { s3Type } from './s3/index.js'

export const driverTypes: readonly AnyDriverType[] = [localType, memoryType, s3Type]
