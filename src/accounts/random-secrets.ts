/**
 * Secrets that the server makes: app passwords, and those of console sessions. They have 160 random bits, so that a
 * fast hash suffices and attempts need not be limited; see docs/decisions/0008.
 */
import { createHash, randomBytes } from 'node:crypto'
import { timingSafeEqualText } from './timing-safe-text.js'

/** 32 characters of five bits each, without look-alikes. */
export const alphabet = 'abcdefghijkmnpqrstuvwxyz23456789'
const prefixLength = 8
const secretLength = 32

/** The stored part of a secret. */
export interface StoredSecret {
  /** The unique readable prefix of the secret, used to look it up. */
  readonly prefix: string
  /** SHA-256 of the whole secret, in hexadecimal. */
  readonly digest: string
}

/** Secrets of one kind: `KIND-PREFIX-RANDOM`. */
export class RandomSecrets {
  readonly #shape: RegExp

  /** `kind`: lower-case letters, by which people recognize the kind of secret. */
  constructor(private readonly kind: string) {
    this.#shape = new RegExp(`^${kind}-([${alphabet}]{${prefixLength}})-[${alphabet}]{${secretLength}}$`)
  }

  /** A new secret, with a prefix for which `isTaken` returns false. */
  create(isTaken: (prefix: string) => boolean): StoredSecret & { readonly secret: string } {
    let prefix = random(prefixLength)
    while (isTaken(prefix)) prefix = random(prefixLength)
    const secret = `${this.kind}-${prefix}-${random(secretLength)}`
    return { secret, prefix, digest: digestOf(secret) }
  }

  /**
   * Returns the row that `byPrefix` returns for the prefix of a presented secret, if the digest of the secret is that
   * of the row; otherwise undefined.
   */
  find<Row extends StoredSecret>(presented: string, byPrefix: (prefix: string) => Row | undefined): Row | undefined {
    const prefix = this.#shape.exec(presented)?.[1]
    const row = prefix === undefined ? undefined : byPrefix(prefix)
    return row !== undefined && timingSafeEqualText(digestOf(presented), row.digest) ? row : undefined
  }
}

/** A secret of 256 random bits, in base64url. */
export function newSecret(): string {
  return randomBytes(32).toString('base64url')
}

/** The SHA-256 of a secret that has too much entropy to guess, in hexadecimal: what is stored of it. */
export function digestOf(secret: string): string {
  return createHash('sha256').update(secret).digest('hex')
}

/** Random characters of the alphabet, five bits each. */
export function random(length: number): string {
  return Array.from(randomBytes(length), (byte) => alphabet.charAt(byte & 31)).join('')
}
