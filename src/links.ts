/** Signatures of download links. Whoever holds one may read that one path: no user, no permission stands behind it. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { GatewayError } from './errors.js'
import { root, type Path } from './path.js'
import type { Principal } from './principal.js'
import type { Settings } from './settings.js'

/** How many characters of paths and signatures are remembered, about twice that in bytes. */
const memoryLimit = 16 * 1024 * 1024

export interface LinksOptions {
  readonly settings: Pick<Settings, 'get' | 'bool' | 'number' | 'onChange'>
  /**
   * Whether a storage's option or a folder rule asks for a signature of this path of the whole tree, the setting
   * `sign_all` apart.
   */
  readonly needsSignature: (path: Path) => boolean
  /** Milliseconds since 1970. */
  readonly now?: () => number
}

export class Links {
  readonly #settings: LinksOptions['settings']
  readonly #needsSignature: (path: Path) => boolean
  readonly #now: () => number
  /** Signatures that never expire, while nothing changes. */
  readonly #remembered = new Map<Path, string>()
  #rememberedSize = 0
  #key: string
  #authority = newAuthority()
  readonly #unsubscribe: () => void

  constructor({ settings, needsSignature, now = Date.now }: LinksOptions) {
    this.#settings = settings
    this.#needsSignature = needsSignature
    this.#now = now
    this.#key = settings.get('token')
    this.#unsubscribe = settings.onChange(() => this.#takeKey())
  }

  /** Signatures are no longer dropped when the token changes. */
  close(): void {
    this.#unsubscribe()
  }

  /** Signature of a path of the whole tree: base64url HMAC, `:`, expiry. Empty while there is no key. */
  sign(path: Path): string {
    if (this.#key === '') return ''
    const hours = this.#settings.number('link_expiration')
    if (hours > 0) return this.#signature(path, Math.floor(this.#now() / 1000 + hours * 3600))
    const known = this.#remembered.get(path)
    if (known !== undefined) return known
    const signature = this.#signature(path, 0)
    this.#rememberedSize += path.length + signature.length
    if (this.#rememberedSize > memoryLimit) this.#forget(path.length + signature.length)
    this.#remembered.set(path, signature)
    return signature
  }

  /** A principal that may read this one path. `unauthenticated` with the wire's words unless the signature fits. */
  verify(path: Path, signature: string | undefined): Principal {
    const text = signature ?? ''
    const expiry = text.slice(text.lastIndexOf(':') + 1)
    if (expiry === '') throw refused('expire missing')
    const seconds = Number(expiry)
    if (!/^-?\d+$/.test(expiry) || !Number.isSafeInteger(seconds)) throw refused('expire invalid')
    if (seconds !== 0 && seconds < this.#now() / 1000) throw refused('sign expired')
    // Without a key anybody could sign.
    if (this.#key === '') throw refused('sign invalid')
    const known = seconds === 0 ? this.#remembered.get(path) : undefined
    const expected = Buffer.from(known ?? this.#signature(path, seconds))
    const given = Buffer.from(text)
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) throw refused('sign invalid')
    return this.#reader(path)
  }

  /** The same without a signature: only where neither a setting, nor the storage, nor a rule asks for one; else `unauthenticated`. */
  async open(path: Path, signature: string | undefined): Promise<Principal> {
    if (this.#settings.bool('sign_all') || this.#needsSignature(path)) return this.verify(path, signature)
    return this.#reader(path)
  }

  #signature(path: Path, expiry: number): string {
    const digest = createHmac('sha256', this.#key).update(`${path}:${expiry}`).digest('base64')
    return `${digest.replaceAll('+', '-').replaceAll('/', '_')}:${expiry}`
  }

  #reader(path: Path): Principal {
    return {
      userId: 0,
      username: '',
      role: 'guest',
      permissions: 0,
      base: root,
      door: 'http',
      onlyPath: path,
      signal: this.#authority.signal,
    }
  }

  #takeKey(): void {
    const key = this.#settings.get('token')
    if (key === this.#key) return
    this.#key = key
    this.#forget(0)
    this.#authority.abort(refused('sign invalid'))
    this.#authority = newAuthority()
  }

  #forget(size: number): void {
    this.#remembered.clear()
    this.#rememberedSize = size
  }
}

function newAuthority(): AbortController {
  const controller = new AbortController()
  // Every request that a link allows listens to it.
  setMaxListeners(0, controller.signal)
  return controller
}

function refused(reason: string): GatewayError {
  return new GatewayError('unauthenticated', { op: 'open link', reason })
}
