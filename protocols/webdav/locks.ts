/** The properties lockdiscovery and supportedlock (RFC 4918 §15.8, §15.10). */
import { childOf, isWithin, type Path } from '../../src/base/path.js'
import type { Lock } from '../../src/locks/webdav-locks.js'
import { hrefOf } from './location.js'
import { escapeText } from './xml.js'

const entryOf = (scope: string): string =>
  `<D:lockentry><D:lockscope><D:${scope}/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>`

export const supportedLock = `<D:supportedlock>${entryOf('exclusive')}${entryOf('shared')}</D:supportedlock>`

/** Maximum characters of a lockdiscovery element, after which it names no further locks. */
const maxDiscovery = 16 * 1024

/**
 * Renders `locks` as a lockdiscovery element. Of very many locks only the first ones are named, because a response
 * repeats them for each resource (RFC 4918 §15.8: a server may withhold locks). `now`: milliseconds since the epoch, to
 * compute the remaining time.
 */
export function lockDiscovery(locks: readonly Lock[], prefix: string, now: number): string {
  if (locks.length === 0) return '<D:lockdiscovery/>'
  let text = ''
  for (const lock of locks) {
    if (text.length >= maxDiscovery) break
    text += activeLock(lock, prefix, now)
  }
  return `<D:lockdiscovery>${text}</D:lockdiscovery>`
}

function activeLock(lock: Lock, prefix: string, now: number): string {
  const seconds = Math.max(0, Math.ceil((lock.expires.getTime() - now) / 1000))
  return (
    `<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:${lock.scope}/></D:lockscope>` +
    `<D:depth>${lock.deep ? 'infinity' : '0'}</D:depth>${lock.owner}<D:timeout>Second-${seconds}</D:timeout>` +
    `<D:locktoken><D:href>${escapeText(lock.token)}</D:href></D:locktoken>` +
    `<D:lockroot><D:href>${hrefOf(prefix, lock.path, false)}</D:href></D:lockroot></D:activelock>`
  )
}

/** Index of the locks of a folder and its members. */
export class LockTable {
  readonly #byRoot = new Map<Path, Lock[]>()
  /** Locks that cover every member. */
  readonly #onAll: readonly Lock[]

  constructor(
    private readonly folder: Path,
    locks: readonly Lock[],
  ) {
    this.#onAll = locks.filter((lock) => lock.deep && isWithin(lock.path, folder))
    for (const lock of locks) {
      const locksOfPath = this.#byRoot.get(lock.path)
      if (locksOfPath) locksOfPath.push(lock)
      else this.#byRoot.set(lock.path, [lock])
    }
  }

  /** The locks that cover the member of this name. */
  covering(name: string): readonly Lock[] {
    const own = this.#byRoot.size > 0 ? this.#byRoot.get(childOf(this.folder, name)) : undefined
    return own ? [...this.#onAll, ...own] : this.#onAll
  }
}
