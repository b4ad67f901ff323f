import { finder, finderWithoutSideFiles } from './finder.js'
import type { Trace } from './trace.js'
import { windows } from './windows.js'

export const traces: readonly Trace[] = [windows, finder, finderWithoutSideFiles]
