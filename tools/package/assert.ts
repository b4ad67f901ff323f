/** What the checks of packages print, and how they end. */

/** Prints `what` if the condition holds, else throws. */
export function assert(condition: boolean, what: string): void {
  if (!condition) throw new Error(`not so: ${what}`)
  console.log(`ok  ${what}`)
}
