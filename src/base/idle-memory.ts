/** Memory that saves work while the process is busy, and is released while it is idle. */

const releases = new Set<() => void>()

/** Calls `release` whenever the process has become idle. Returns a function that ends that. */
export function releaseWhenIdle(release: () => void): () => void {
  releases.add(release)
  return () => releases.delete(release)
}

/** Calls every function that was given to `releaseWhenIdle`. To be called when the process has become idle. */
export function releaseIdleMemory(): void {
  for (const release of releases) release()
}
