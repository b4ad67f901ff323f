/**
 * An authenticator of passkeys in software: P-256 keys, attestation "none" (WebAuthn Level 3). Tests can have it do
 * what no honest one does.
 */
import { createHash, generateKeyPairSync, randomBytes, sign, type KeyObject } from 'node:crypto'

/** The options of `navigator.credentials.create`, and `get`, as JSON: what of them the authenticator reads. */
export interface CreationOptions {
  readonly rp: { readonly id: string }
  readonly user: { readonly id: string }
  readonly challenge: string
  readonly excludeCredentials?: readonly { readonly id: string }[]
}
export interface RequestOptions {
  readonly rpId: string
  readonly challenge: string
  readonly allowCredentials?: readonly { readonly id: string }[]
}

/** What differs from an honest answer. */
export interface Lies {
  readonly origin?: string
  readonly rpId?: string
  readonly challenge?: string
  readonly userVerified?: boolean
  readonly type?: string
  /** The value of the signature counter, instead of the next one. */
  readonly counter?: number
  /** The credential is synchronized to other devices. */
  readonly backedUp?: boolean
  readonly crossOrigin?: boolean
  /** The format of the attestation statement. */
  readonly format?: string
}

interface Held {
  readonly id: string
  readonly key: KeyObject
  /** The public key in the form of COSE. */
  readonly cose: Buffer
  readonly rpId: string
  readonly userHandle: string
  counter: number
}

const flagBits = { userPresent: 1, userVerified: 4, backupEligible: 8, backedUp: 16, attested: 64 }

export class Authenticator {
  readonly #held: Held[] = []

  /**
   * `origin`: that of the page in which the browser runs. `counts`: whether it has a signature counter. `id`: of the
   * credentials that it makes, in base64url; by default a new one for each.
   */
  constructor(
    readonly origin: string,
    private readonly counts = true,
    private readonly id?: string,
  ) {}

  /** The ids of its credentials. */
  get ids(): readonly string[] {
    return this.#held.map(({ id }) => id)
  }

  /** The public keys of its credentials, in the form of COSE. */
  get keys(): readonly Buffer[] {
    return this.#held.map(({ cose }) => cose)
  }

  /** A copy with the same keys and counters. */
  clone(): Authenticator {
    const copy = new Authenticator(this.origin, this.counts)
    copy.#held.push(...this.#held.map((held) => ({ ...held })))
    return copy
  }

  /** Makes a credential. Returns what `PublicKeyCredential.toJSON()` of a browser does. */
  create(options: CreationOptions, lies: Lies = {}) {
    if (options.excludeCredentials?.some(({ id }) => this.ids.includes(id)) === true)
      throw new Error('InvalidStateError')
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const id = this.id === undefined ? randomBytes(32) : Buffer.from(this.id, 'base64url')
    const { x = '', y = '' } = publicKey.export({ format: 'jwk' })
    const cose = cbor(
      new Map<number, Cbor>([
        [1, 2],
        [3, -7],
        [-1, 1],
        [-2, Buffer.from(x, 'base64url')],
        [-3, Buffer.from(y, 'base64url')],
      ]),
    )
    const held = {
      id: id.toString('base64url'),
      key: privateKey,
      cose,
      rpId: options.rp.id,
      userHandle: options.user.id,
      counter: 0,
    }
    this.#held.push(held)
    const length = Buffer.alloc(2)
    length.writeUInt16BE(id.length)
    const data = this.#data(held, lies, [Buffer.alloc(16), length, id, cose])
    const object = cbor(
      new Map<string, Cbor>([
        ['fmt', lies.format ?? 'none'],
        ['attStmt', new Map()],
        ['authData', data],
      ]),
    )
    return {
      ...this.#common(held.id),
      response: {
        clientDataJSON: this.#clientData('webauthn.create', options.challenge, lies).toString('base64url'),
        attestationObject: object.toString('base64url'),
        transports: ['internal'],
      },
    }
  }

  /** Signs a challenge with a credential that the options allow. Returns what `toJSON()` of a browser does. */
  get(options: RequestOptions, lies: Lies = {}) {
    const allowed = options.allowCredentials?.map(({ id }) => id)
    const held = this.#held.find(({ id, rpId }) => rpId === options.rpId && (allowed ?? [id]).includes(id))
    if (held === undefined) throw new Error('NotAllowedError')
    if (this.counts) held.counter = lies.counter ?? held.counter + 1
    const data = this.#data(held, lies)
    const clientData = this.#clientData('webauthn.get', options.challenge, lies)
    const signed = Buffer.concat([data, createHash('sha256').update(clientData).digest()])
    return {
      ...this.#common(held.id),
      response: {
        clientDataJSON: clientData.toString('base64url'),
        authenticatorData: data.toString('base64url'),
        signature: sign('sha256', signed, held.key).toString('base64url'),
        userHandle: held.userHandle,
      },
    }
  }

  #common(id: string) {
    const attachment = 'platform'
    return { id, rawId: id, type: 'public-key', authenticatorAttachment: attachment, clientExtensionResults: {} }
  }

  #clientData(type: string, challenge: string, { origin = this.origin, crossOrigin = false, ...lies }: Lies): Buffer {
    const data = { type: lies.type ?? type, challenge: lies.challenge ?? challenge, origin, crossOrigin }
    return Buffer.from(JSON.stringify(data))
  }

  /** The authenticator data (§6.1). */
  #data({ rpId, counter }: Held, lies: Lies, attested?: readonly Buffer[]): Buffer {
    const { userVerified = true, backedUp = false } = lies
    const flags =
      flagBits.userPresent |
      (userVerified ? flagBits.userVerified : 0) |
      (backedUp ? flagBits.backupEligible | flagBits.backedUp : 0) |
      (attested ? flagBits.attested : 0)
    const fixed = Buffer.alloc(5)
    fixed.writeUInt8(flags)
    fixed.writeUInt32BE(counter, 1)
    const hash = createHash('sha256')
      .update(lies.rpId ?? rpId)
      .digest()
    return Buffer.concat([hash, fixed, ...(attested ?? [])])
  }
}

type Cbor = number | string | Buffer | ReadonlyMap<number | string, Cbor>

/** CBOR (RFC 8949) of small values. */
function cbor(value: Cbor): Buffer {
  if (typeof value === 'number') return value < 0 ? head(1, -1 - value) : head(0, value)
  if (Buffer.isBuffer(value)) return Buffer.concat([head(2, value.length), value])
  if (typeof value === 'string') return Buffer.concat([head(3, Buffer.byteLength(value)), Buffer.from(value)])
  return Buffer.concat([head(5, value.size), ...[...value].flatMap(([key, of]) => [cbor(key), cbor(of)])])
}

/** The type and the number with which an item begins. */
function head(type: number, number: number): Buffer {
  if (number < 24) return Buffer.from([(type << 5) | number])
  return number < 256
    ? Buffer.from([(type << 5) | 24, number])
    : Buffer.from([(type << 5) | 25, number >> 8, number & 255])
}
