/**
 * Tunes V8's garbage collector. Its defaults suit pages and scripts; here most bytes pass once, outside the heap, from
 * a socket to a disk. Must be imported before anything large is loaded: until `afterStartup` the young generation stays
 * small, because the objects of a start are long-lived, and V8 does not return the space later.
 */
import { setFlagsFromString } from 'node:v8'

setFlagsFromString('--semi-space-growth-factor=1')
setFlagsFromString('--heap-growing-percent=40')

/** Call once, when everything is loaded. */
export function afterStartup(): void {
  setFlagsFromString('--semi-space-growth-factor=2')
  // External buffers count as heap growth. By default they trigger about thirty full collections per GiB of transferred
  // bytes. If the heap may grow by 200 %, minor collections free the buffers first.
  setFlagsFromString('--heap-growing-percent=200')
}
