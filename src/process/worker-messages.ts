/** What the primary process and its workers send to each other. */
import type { Addresses } from '../gateway/config.js'
import type { PathClaim } from '../store/engine.js'

export type ToPrimary =
  /** The worker accepts connections. */
  | { readonly kind: 'ready'; readonly addresses: Addresses }
  /** Asks for locks. The answer is `granted` or `refused` with the same id. */
  | { readonly kind: 'acquire'; readonly id: number; readonly claims: readonly PathClaim[] }
  /** Tells the other workers about changes, and releases locks. The answer is `done`. */
  | { readonly kind: 'release'; readonly id: number; readonly notices: readonly string[] }
  /** Tells the other workers about changes. */
  | { readonly kind: 'notify'; readonly notices: readonly string[] }
  /** The answer to `check`: the worker runs, and its database responds. */
  | { readonly kind: 'healthy' }

export type ToWorker =
  | { readonly kind: 'granted' | 'done'; readonly id: number }
  | { readonly kind: 'refused'; readonly id: number; readonly reason: string }
  /** A change by another worker; undefined if some were missed. */
  | { readonly kind: 'notice'; readonly notice: string | undefined }
  | { readonly kind: 'check' }
  /** The worker must stop, and end. */
  | { readonly kind: 'stop' }
