/**
 * Thumbnails that are loaded take turns. A browser has six connections to a server of HTTP/1.1: what the user does next
 * must not wait until all pictures in view are made.
 */

/** Thumbnails that are loaded at once. */
const atOnce = 4

let loading = 0
/** In the order in which they came. */
const waiting = new Set<() => void>()

/** Calls `begin` when it is its turn, now or later. Returns a function that ends the turn, or the wait for it. */
export function takeTurn(begin: () => void): () => void {
  let isLoading = false
  const start = () => {
    waiting.delete(start)
    loading++
    isLoading = true
    begin()
  }
  waiting.add(start)
  admit()
  return () => {
    waiting.delete(start)
    if (!isLoading) return
    isLoading = false
    loading--
    admit()
  }
}

function admit(): void {
  for (const start of waiting) {
    if (loading >= atOnce) return
    start()
  }
}
