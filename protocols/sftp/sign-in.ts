/** Authentication with the methods of RFC 4252. Each one resolves to a Principal or rejects. */
import type { AuthContext, AuthenticationType, KeyboardAuthContext, PublicKeyAuthContext } from 'ssh2'
import type { Credentials } from '../../src/accounts/password-check.js'
import type { Principal } from '../../src/accounts/principal.js'
import { GatewayError, hasDetail } from '../../src/base/errors.js'
import { isDecoded } from '../../src/base/utf8.js'
import type { ProtocolGateway } from '../../src/gateway/protocol-gateway.js'
import { sftp } from './index.js'
import { verifySignature } from '../../src/accounts/signatures.js'

/** The parts of the gateway that sign-in uses. */
export interface SignInDependencies {
  readonly accounts: Pick<ProtocolGateway['accounts'], 'principals' | 'signIn'>
  readonly settings: Pick<ProtocolGateway['settings'], 'bool' | 'get'>
}

/** 'offered': the key is acceptable, but the request has no signature yet (RFC 4252 §7). */
type SignInResult = { readonly principal: Principal } | 'offered'

/** Available authentication methods, in order of preference. */
export function methodsOf({ settings }: Pick<SignInDependencies, 'settings'>): AuthenticationType[] {
  return settings.bool('sftp_disable_password_login')
    ? ['publickey']
    : ['publickey', 'keyboard-interactive', 'password']
}

/** The client's address, without port, and a signal that aborts when it has disconnected. */
type SignInClient = Pick<Credentials, 'address' | 'signal'>

/** Signs a client in. Rejects with `unauthenticated`, `denied`, `throttled` or `aborted`. */
export async function signIn(
  dependencies: SignInDependencies,
  context: AuthContext,
  client: SignInClient,
): Promise<SignInResult> {
  const result = await checked(dependencies, context, client)
  return result === 'offered' ? result : { principal: result.principal.from(client.address) }
}

async function checked(
  dependencies: SignInDependencies,
  context: AuthContext,
  client: SignInClient,
): Promise<SignInResult> {
  assertDecoded(context.username)
  switch (context.method) {
    case 'publickey':
      return byKey(dependencies, context, client)
    case 'password': {
      const { username, password } = context
      // ssh2 passes a request to change the password as an object (ssh2: lib/protocol/handlers.misc.js).
      if (typeof password !== 'string' || !methodsOf(dependencies).includes('password')) throw refused()
      assertDecoded(password)
      const credentials = { username, password: { plain: password }, ...client }
      return { principal: await dependencies.accounts.signIn.byPassword(credentials, sftp, assertMayUse) }
    }
    case 'keyboard-interactive':
      if (!methodsOf(dependencies).includes('keyboard-interactive')) throw refused()
      return byPrompts(dependencies, context, client)
    case 'none': {
      const principal = dependencies.accounts.principals.guest(sftp, client.address)
      if (principal.username !== context.username) throw refused()
      assertMayUse(principal)
      return { principal }
    }
    default:
      throw refused()
  }
}

/**
 * Looks the key up for a query, and signs in only with a valid signature. Whether the account can be used is asked
 * after that: a query is answered alike for all.
 */
async function byKey(
  { accounts }: SignInDependencies,
  context: PublicKeyAuthContext,
  { address }: SignInClient,
): Promise<SignInResult> {
  if (algorithmOf(context) === undefined) throw refused('key_refused')
  const key = accounts.signIn.findKey(context.username, context.key.data)
  if (key?.type !== context.key.algo) throw refused('key_refused')
  if (!context.signature) return 'offered'
  if (!hasValidSignature(context)) throw refused('key_refused')
  return { principal: await accounts.signIn.byKey(key, sftp, address, assertMayUse) }
}

/**
 * Prompts for the password or an app password, then for the one-time code if the account has two-step verification. As
 * in every protocol, the code is requested only after a correct password, and a wrong code is reported like a wrong
 * password.
 */
async function byPrompts(
  dependencies: SignInDependencies,
  context: KeyboardAuthContext,
  client: SignInClient,
): Promise<SignInResult> {
  const { accounts } = dependencies
  const prompts = new KeyboardInteractive(context)
  const plain = await prompts.prompt('Password: ', { shown: false })
  // The setting may have changed while the prompt was open.
  if (!methodsOf(dependencies).includes('keyboard-interactive')) throw refused()
  const credentials = { username: context.username, password: { plain }, ...client }
  let principal: Principal
  try {
    principal = await accounts.signIn.byPassword(credentials, sftp, assertMayUse)
  } catch (error) {
    if (!hasDetail(error, 'code_required')) throw error
    // Authenticator apps show codes in two groups.
    const code = (await prompts.prompt('One-time code: ', { shown: true })).replaceAll(' ', '')
    principal = await accounts.signIn.byPassword({ ...credentials, code }, sftp, assertMayUse)
  }
  prompts.assertNotAborted()
  return { principal }
}

function assertMayUse({ mayUseProtocol }: Principal): void {
  if (mayUseProtocol) return
  const reason = 'this account may not use SFTP'
  throw new GatewayError('denied', { op: 'sign in', detail: 'protocol_denied', reason })
}

/** Throws `unauthenticated` if ssh2 has replaced bytes that are not UTF-8. */
function assertDecoded(text: string): void {
  if (isDecoded(text)) return
  throw new GatewayError('unauthenticated', { op: 'sign in', reason: 'names and passwords must be UTF-8' })
}

function refused(detail: 'method_refused' | 'key_refused' = 'method_refused'): GatewayError {
  return new GatewayError('unauthenticated', { op: 'sign in', detail })
}

/** Prompts of keyboard-interactive authentication (RFC 4256 §3.2), one per request. */
class KeyboardInteractive {
  #aborted = false

  constructor(private readonly context: KeyboardAuthContext) {
    context.once('abort', () => (this.#aborted = true))
  }

  /**
   * Sends a prompt and resolves to the response. `shown`: the client may echo the input. Rejects with `aborted` if the
   * client starts another authentication request, with `unauthenticated` for a malformed response.
   */
  async prompt(prompt: string, { shown }: { readonly shown: boolean }): Promise<string> {
    this.assertNotAborted()
    const responses = await new Promise<unknown>((resolve) =>
      this.context.prompt([{ prompt, echo: shown }], (value: unknown) => resolve(value)),
    )
    this.assertNotAborted()
    const [response] = Array.isArray(responses) && responses.length === 1 ? (responses as readonly unknown[]) : []
    // RFC 4256 §3.4: the number of responses must match the number of prompts.
    if (typeof response !== 'string') throw new GatewayError('unauthenticated', { op: 'sign in' })
    assertDecoded(response)
    return response
  }

  /**
   * Throws `aborted` if the client has started another authentication request, which abandons this one (RFC 4252 §5.1).
   */
  assertNotAborted(): void {
    if (this.#aborted) {
      throw new GatewayError('aborted', { op: 'sign in', reason: 'superseded by another authentication request' })
    }
  }
}

/** Length of the flags and counter after the signature of a security key, in bytes. */
const securityKeySuffixLength = 5

/** The fields of a public key authentication request. */
export type KeyRequest = Pick<PublicKeyAuthContext, 'key' | 'hashAlgo' | 'blob' | 'signature'>

/** The signature algorithm of the request. Undefined for an insecure one: RSA without a SHA-2 hash (RFC 8332). */
function algorithmOf({ key, hashAlgo }: Pick<KeyRequest, 'key' | 'hashAlgo'>): string | undefined {
  if (key.algo !== 'ssh-rsa') return hashAlgo === undefined ? key.algo : undefined
  return hashAlgo === 'sha256' ? 'rsa-sha2-256' : hashAlgo === 'sha512' ? 'rsa-sha2-512' : undefined
}

/** Whether the request has a valid signature by its key (RFC 4252 §7). */
export function hasValidSignature(context: KeyRequest): boolean {
  const algorithm = algorithmOf(context)
  const { blob, signature, key } = context
  if (algorithm === undefined || !blob || !signature) return false
  const encoded = encodeSignature(algorithm, signature)
  return encoded !== undefined && verifySignature(key.data, blob, encoded)
}

/**
 * Encodes a signature as in RFC 4253 §6.6. ssh2 strips the algorithm and the length, and converts ECDSA signatures to
 * DER (ssh2: lib/protocol/handlers.misc.js). Returns undefined for a malformed signature.
 */
export function encodeSignature(algorithm: string, signature: Buffer): Buffer | undefined {
  if (algorithm.startsWith('sk-')) {
    const end = signature.length - securityKeySuffixLength
    if (end < 0) return undefined
    return Buffer.concat([string(algorithm), string(signature.subarray(0, end)), signature.subarray(end)])
  }
  if (!algorithm.startsWith('ecdsa-')) return Buffer.concat([string(algorithm), string(signature)])
  const numbers = derNumbers(signature)
  return numbers && Buffer.concat([string(algorithm), string(Buffer.concat(numbers.map(string)))])
}

function string(value: string | Buffer): Buffer {
  const bytes = Buffer.from(value)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(bytes.length)
  return Buffer.concat([length, bytes])
}

/** The integers r and s of a DER-encoded ECDSA signature. */
function derNumbers(der: Buffer): [Buffer, Buffer] | undefined {
  const sequence = derElement(der, 0, 0x30)
  const r = sequence && derElement(sequence.content, 0, 0x02)
  const s = r && derElement(sequence.content, r.end, 0x02)
  return s?.end === sequence?.content.length && s ? [r.content, s.content] : undefined
}

/** The DER element with `tag` at offset `at`. Supports lengths up to 255, which is enough for signatures. */
function derElement(der: Buffer, at: number, tag: number): { content: Buffer; end: number } | undefined {
  if (der[at] !== tag) return undefined
  const short = der[at + 1] ?? 0
  const long = short === 0x81
  const start = at + (long ? 3 : 2)
  const length = long ? (der[at + 2] ?? 0) : short
  if (!long && short >= 0x80) return undefined
  const end = start + length
  return end <= der.length ? { content: der.subarray(start, end), end } : undefined
}
