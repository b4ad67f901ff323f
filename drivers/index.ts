/** Every driver there is: one line each. Nothing happens on import. */
import type { AnyDriverType } from '../src/driver.js'

export const driverTypes: readonly AnyDriverType[] = []
