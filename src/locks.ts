import type { Path } from './path.js'

export interface LockRequest {
  readonly scope: 'exclusive' | 'shared'
  /** true: everything below is locked too. */
  readonly deep: boolean
  /** The `owner` element as the client sent it, XML text; empty for none. */
  readonly owner: string
  /** How long it shall stand; the core caps it. */
  readonly seconds: number
}

export interface Lock extends Omit<LockRequest, 'seconds'> {
  /** `urn:uuid:…` */
  readonly token: string
  /** The root of the lock. */
  readonly path: Path
  readonly userId: number
  readonly username: string
  readonly expires: Date
}
