/** The cookie of the account: which one is valid, and how answers renew it. */
import { randomUUID } from 'node:crypto'
import { refusals, type QuarkVendor } from './vendor.js'

/** Cookies by which the vendor knows the session. */
type SessionCookie = '__pus' | '__puus'
type SessionCookies = Record<SessionCookie, string>

export class QuarkSession {
  #current: SessionCookies = { __pus: newValue(), __puus: newValue() }
  /** Sent to the client; from its first use on, the old one is void. */
  #next: SessionCookies | undefined
  #isEnded = false
  #renewals = 0

  constructor(private readonly vendor: QuarkVendor) {}

  /** The cookie as an admin copies it from a browser. */
  get cookie(): string {
    const { __pus, __puus } = this.#next ?? this.#current
    return `b-user-id=7f; __pus=${__pus}; __puus=${__puus}; theme=dark`
  }

  /** Number of renewed cookies that the client has used. */
  get renewals(): number {
    return this.#renewals
  }

  /** From now on, no cookie is valid. */
  end(): void {
    this.#isEnded = true
  }

  /** The next answers renew these cookies, until the client uses the new ones. */
  renew(names: readonly SessionCookie[] = ['__puus']): void {
    this.#next = { ...this.#current }
    for (const name of names) this.#next[name] = newValue()
  }

  /** The `Set-Cookie` headers of an answer. */
  setCookies(): readonly string[] {
    const next = this.#next
    if (!next) return []
    return (['__pus', '__puus'] as const)
      .filter((name) => next[name] !== this.#current[name])
      .map((name) => `${name}=${next[name]}; Domain=${this.vendor.domain}; Path=/; Max-Age=7776000; HttpOnly; Secure`)
  }

  /** Throws unless the cookie is valid and has no parts but those that the browser had. */
  verify(header = ''): void {
    const cookies = new Map(header.split('; ').map((part) => split(part)))
    const names = ['b-user-id', '__pus', '__puus', 'theme']
    const isForeign = [...cookies.keys()].some((name) => !names.includes(name))
    const isOf = (values: SessionCookies) =>
      cookies.get('__pus') === values.__pus && cookies.get('__puus') === values.__puus
    if (this.#isEnded || isForeign) throw refusals.notSignedIn()
    if (this.#next && isOf(this.#next)) {
      this.#current = this.#next
      this.#next = undefined
      this.#renewals++
    } else if (!isOf(this.#current)) throw refusals.notSignedIn()
  }
}

function newValue(): string {
  return randomUUID().replaceAll('-', '')
}

function split(part: string): readonly [string, string] {
  const at = part.indexOf('=')
  return [part.slice(0, at), part.slice(at + 1)]
}
