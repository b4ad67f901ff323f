/**
 * Imported first. While modules load nearly everything survives, and V8 answers by growing the space for young objects to its
 * limit of 32 MiB, which it never gives back. Held small until the start is over, the idle process is a tenth smaller.
 */
import { setFlagsFromString } from 'node:v8'

setFlagsFromString('--semi-space-growth-factor=1')

/** The start is over: from here on the space grows with the work there is. */
export function letHeapGrow(): void {
  setFlagsFromString('--semi-space-growth-factor=2')
}
