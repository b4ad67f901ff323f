/**
 * Signatures of download URLs. That of a file permits reading one path, independently of any user or permission. That
 * of a selection permits one user's reading of the selected entries.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { LRUCache } from 'lru-cache'
import { Principal, type ProtocolFacts } from '../accounts/principal.js'
import { GatewayError, type ErrorDetail } from '../base/errors.js'
import { root, under, type Path } from '../base/path.js'
import { networkOf } from '../net/addresses.js'
import type { Settings } from '../settings/settings.js'

/** Maximum characters of cached paths and signatures; about twice as many bytes. */
const maxCacheSize = 16 * 1024 * 1024

/** Members of a folder. An empty list is all of them. */
interface Selection {
  readonly folder: Path
  readonly names: readonly string[]
}

interface SignedUrlsOptions {
  readonly settings: Pick<Settings, 'get' | 'bool' | 'number' | 'onChange'>
  /**
   * Whether a storage's option or a folder rule requires a signature for this path of the whole tree, regardless of the
   * setting `sign_all`.
   */
  readonly needsSignature: (path: Path) => boolean
  /** The time in milliseconds since 1970. */
  readonly now?: () => number
}

export class SignedUrls {
  readonly #settings: SignedUrlsOptions['settings']
  readonly #needsSignature: (path: Path) => boolean
  readonly #now: () => number
  /** Cached signatures without expiry. */
  readonly #cache = new LRUCache<Path, string>({
    maxSize: maxCacheSize,
    sizeCalculation: (signature, path) => path.length + signature.length,
    memoMethod: (path) => this.#signature(path, 0),
  })
  #key: string
  #controller = newController()
  readonly #unsubscribe: () => void

  constructor({ settings, needsSignature, now = Date.now }: SignedUrlsOptions) {
    this.#settings = settings
    this.#needsSignature = needsSignature
    this.#now = now
    this.#key = settings.get('token')
    this.#unsubscribe = settings.onChange(() => this.#updateKey())
  }

  /** Stops following changes of the token. */
  close(): void {
    this.#unsubscribe()
  }

  /**
   * Signs a path of the whole tree: base64url HMAC, `:`, and the expiry in Unix seconds, 0 for never. Empty while there
   * is no key.
   */
  sign(path: Path): string {
    if (this.#key === '') return ''
    const hours = this.#settings.number('link_expiration')
    return hours > 0 ? this.#signature(path, Math.floor(this.#now() / 1000 + hours * 3600)) : this.#cache.memo(path)
  }

  /**
   * Signs a path, as `sign` does, for so many seconds; 0: for ever. The setting `link_expiration` is a limit. `expires`
   * is undefined if the signature does not expire.
   */
  signFor(path: Path, seconds: number): { readonly signature: string; readonly expires: Date | undefined } {
    const limits = [seconds, this.#settings.number('link_expiration') * 3600].filter((limit) => limit > 0)
    if (limits.length === 0) return { signature: this.sign(path), expires: undefined }
    const expiry = Math.floor(this.#now() / 1000 + Math.min(...limits))
    return { signature: this.#signature(path, expiry), expires: new Date(expiry * 1000) }
  }

  /**
   * Returns a principal that may only read this path. Throws `unauthenticated` if the signature is not valid.
   * `address`: that of the client.
   */
  verify(path: Path, signature: string | undefined, protocol: ProtocolFacts, address?: string): Principal {
    this.#assertValid(
      signature ?? '',
      (expiry) => (expiry === 0 ? this.#cache.get(path) : undefined) ?? this.#signature(path, expiry),
    )
    return this.#reader(path, protocol, address)
  }

  /**
   * Signs a selection, whose folder is of the whole tree, for a user and so many seconds: the user's id, `:`, and a
   * signature as that of a path.
   */
  signSelection(
    userId: number,
    selection: Selection,
    seconds: number,
  ): { readonly signature: string; readonly expires: Date } {
    const expiry = Math.floor(this.#now() / 1000 + seconds)
    const signature = this.#signature(selectionText(userId, selection), expiry)
    return { signature: `${userId}:${signature}`, expires: new Date(expiry * 1000) }
  }

  /**
   * Returns the principal for whom this selection was signed. `principalOf`: that of a user's id. `folder` is relative
   * to the base of the principal. Throws `unauthenticated` if the signature is not valid, or for no user.
   */
  verifySelection(
    signature: string,
    { folder, names }: Selection,
    principalOf: (userId: number) => Principal,
  ): Principal {
    const [, id, text = ''] = /^(\d{1,15}):(.*)$/s.exec(signature) ?? []
    if (id === undefined) throw refused('signature_malformed')
    const userId = Number(id)
    let principal: Principal
    try {
      principal = principalOf(userId)
    } catch {
      // The error of a wrong signature, so that nothing is told of accounts.
      throw refused('signature_wrong')
    }
    const selection = { folder: under(principal.base, folder), names }
    this.#assertValid(text, (expiry) => this.#signature(selectionText(userId, selection), expiry))
    return principal
  }

  #assertValid(text: string, signatureFor: (expiry: number) => string): void {
    const expiry = text.slice(text.lastIndexOf(':') + 1)
    if (expiry === '') throw refused('signature_missing')
    const seconds = Number(expiry)
    if (!/^-?\d+$/.test(expiry) || !Number.isSafeInteger(seconds)) throw refused('signature_malformed')
    if (seconds !== 0 && seconds < this.#now() / 1000) throw refused('signature_expired')
    // An empty key would make signatures forgeable.
    if (this.#key === '') throw refused('signature_wrong')
    const expected = Buffer.from(signatureFor(seconds))
    const actual = Buffer.from(text)
    if (actual.length !== expected.length || !timingSafeEqual(actual, expected)) throw refused('signature_wrong')
  }

  /**
   * Authorizes a request as `verify` does, but ignores the signature if neither a setting nor the storage nor a rule
   * requires one.
   */
  async authorize(
    path: Path,
    signature: string | undefined,
    protocol: ProtocolFacts,
    address?: string,
  ): Promise<Principal> {
    const needsSignature = this.#settings.bool('sign_all') || this.#needsSignature(path)
    return needsSignature ? this.verify(path, signature, protocol, address) : this.#reader(path, protocol, address)
  }

  #signature(text: string, expiry: number): string {
    const digest = createHmac('sha256', this.#key).update(`${text}:${expiry}`).digest('base64')
    return `${digest.replaceAll('+', '-').replaceAll('/', '_')}:${expiry}`
  }

  #reader(path: Path, protocol: ProtocolFacts, address: string | undefined): Principal {
    return new Principal({
      userId: 0,
      username: '',
      role: 'guest',
      permissions: 0,
      base: root,
      protocol,
      onlyPath: path,
      holder: address === undefined ? undefined : networkOf(address),
      address,
      credential: 'signed URL',
      signal: this.#controller.signal,
    })
  }

  #updateKey(): void {
    const key = this.#settings.get('token')
    if (key === this.#key) return
    this.#key = key
    this.#cache.clear()
    this.#controller.abort(refused('signature_wrong'))
    this.#controller = newController()
  }
}

/** The text that is signed for a selection. It does not begin with a slash, so that it is never the text of a path. */
function selectionText(userId: number, { folder, names }: Selection): string {
  return `selection ${JSON.stringify([userId, folder, [...new Set(names)].sort()])}`
}

function newController(): AbortController {
  const controller = new AbortController()
  // Every request with a signed URL adds a listener.
  setMaxListeners(0, controller.signal)
  return controller
}

function refused(detail: ErrorDetail): GatewayError {
  return new GatewayError('unauthenticated', { op: 'open signed URL', detail })
}
