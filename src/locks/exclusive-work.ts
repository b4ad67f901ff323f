/** Work of drivers that one node at a time does (`DriverState.exclusively`). */
import { createHash } from 'node:crypto'
import { asPath, reservedPrefix } from '../base/path.js'
import type { PathLocks } from './path-locks.js'

/** Does the work under the lock of a path which no storage shows. */
export async function runExclusively<T>(
  locks: Pick<PathLocks, 'acquire'>,
  key: string,
  work: () => Promise<T>,
): Promise<T> {
  const digest = createHash('sha256').update(key).digest('hex')
  const claim = { path: asPath(`/${reservedPrefix}exclusive-${digest}`), tree: false }
  // The caller may hold any number of locks. The work needs no further ones.
  const release = await locks.acquire([claim], undefined, { level: Infinity })
  try {
    return await work()
  } finally {
    release()
  }
}
