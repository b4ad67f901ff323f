/**
 * Buffers for bytes on their way to the disk, used again and again: to make new ones, and to find out that nobody needs the
 * old ones, costs more than to copy what they hold.
 */

/** Bytes of each. */
export const slabSize = 128 * 1024
/** Unused ones that are kept for the next body, and while no body is on its way in. */
const mostFree = 128
const mostIdle = 16

const free: Buffer[] = []

/** A buffer of `slabSize` that holds anything. Whoever takes it gives it back when nothing reads it any more. */
export function takeSlab(): Buffer {
  return free.pop() ?? Buffer.allocUnsafeSlow(slabSize)
}

/** `idle`: no body is on its way in. */
export function giveBack(slabs: readonly Buffer[], idle: boolean): void {
  free.push(...slabs)
  free.length = Math.min(free.length, idle ? mostIdle : mostFree)
}
