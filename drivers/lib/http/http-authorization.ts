/**
 * HTTP authentication with user name and password: Basic (RFC 7617) and Digest (RFC 7616, and RFC 2069 for old
 * servers), as the server requests.
 */
import { createHash, randomBytes } from 'node:crypto'

export interface HttpCredentials {
  readonly username: string
  readonly password: string
}

interface Challenge {
  readonly scheme: string
  readonly parameters: ReadonlyMap<string, string>
}

const digestAlgorithms: Readonly<Record<string, string>> = {
  MD5: 'md5',
  'SHA-256': 'sha256',
  'SHA-512-256': 'sha512-256',
}

export class HttpAuthorization {
  #challenge: Challenge | undefined
  #uses = 0

  constructor(private readonly credentials: HttpCredentials) {}

  /**
   * The `Authorization` header of a request; undefined until a challenge was received, so that the password is sent
   * only to servers that request it.
   */
  header(method: string, target: string): string | undefined {
    if (!this.#challenge) return undefined
    const { username, password } = this.credentials
    if (this.#challenge.scheme === 'basic') return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
    return digestHeader(this.#challenge.parameters, this.credentials, { method, target, count: ++this.#uses })
  }

  /**
   * Processes the `WWW-Authenticate` header of the response to a request with the header `sent`. Returns why to repeat
   * the request: its nonce was `stale`, or there is a `new` challenge, because nothing was sent or because another
   * request has received it. `rejected`: the credentials were.
   */
  acceptChallenge(header: string | undefined, sent: string | undefined): 'stale' | 'new' | 'rejected' {
    const challenges = parseChallenges(header ?? '')
    const digest = challenges.find(
      ({ scheme, parameters }) => scheme === 'digest' && algorithmOf(parameters) !== undefined,
    )
    const offered = digest ?? challenges.find(({ scheme }) => scheme === 'basic')
    if (!offered) return 'rejected'
    const current = this.#challenge?.parameters.get('nonce')
    const isStale = offered.parameters.get('stale')?.toLowerCase() === 'true'
    const isSuperseded =
      sent?.startsWith('Digest ') === true && current !== undefined && !sent.includes(`nonce="${current}"`)
    // A concurrent request may have received a newer challenge.
    if (!isSuperseded) {
      this.#challenge = offered
      this.#uses = 0
    }
    if (sent !== undefined && isStale) return 'stale'
    return sent === undefined || isSuperseded ? 'new' : 'rejected'
  }
}

/** `scheme name=value, name="value", scheme …` (RFC 9110 §11.6.1). */
function parseChallenges(header: string): Challenge[] {
  const challenges: { scheme: string; parameters: Map<string, string> }[] = []
  const token = /([\w!#$%&'*+.^`|~-]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+)))?/g
  for (const [, name = '', quoted, plain] of header.matchAll(token)) {
    const value = quoted?.replaceAll(/\\(.)/g, '$1') ?? plain
    if (value === undefined) challenges.push({ scheme: name.toLowerCase(), parameters: new Map() })
    else challenges.at(-1)?.parameters.set(name.toLowerCase(), value)
  }
  return challenges
}

function algorithmOf(parameters: ReadonlyMap<string, string>): { hash: string; isSession: boolean } | undefined {
  const name = (parameters.get('algorithm') ?? 'MD5').toUpperCase()
  const isSession = name.endsWith('-SESS')
  const hash = digestAlgorithms[isSession ? name.slice(0, -'-SESS'.length) : name]
  const protections = parameters
    .get('qop')
    ?.split(',')
    .map((each) => each.trim())
  if (hash === undefined || !parameters.has('nonce')) return undefined
  return protections === undefined || protections.includes('auth') ? { hash, isSession } : undefined
}

function digestHeader(
  parameters: ReadonlyMap<string, string>,
  { username, password }: HttpCredentials,
  { method, target, count }: { readonly method: string; readonly target: string; readonly count: number },
): string {
  const { hash = 'md5', isSession = false } = algorithmOf(parameters) ?? {}
  const digest = (...parts: readonly string[]) => createHash(hash).update(parts.join(':')).digest('hex')
  const [realm = '', nonce = ''] = [parameters.get('realm'), parameters.get('nonce')]
  const client = randomBytes(16).toString('hex')
  const uses = count.toString(16).padStart(8, '0')
  const account = digest(username, realm, password)
  const secret = isSession ? digest(account, nonce, client) : account
  const subject = digest(method, target)
  const hasProtection = parameters.has('qop')
  const response = hasProtection ? digest(secret, nonce, uses, client, 'auth', subject) : digest(secret, nonce, subject)
  const fields = [
    ...[`username="${escaped(username)}"`, `realm="${escaped(realm)}"`, `nonce="${escaped(nonce)}"`],
    ...[`uri="${target}"`, `response="${response}"`],
    ...(parameters.has('algorithm') ? [`algorithm=${parameters.get('algorithm') ?? ''}`] : []),
    ...(parameters.has('opaque') ? [`opaque="${escaped(parameters.get('opaque') ?? '')}"`] : []),
    ...(hasProtection ? [`qop=auth, nc=${uses}`] : []),
    ...(hasProtection || isSession ? [`cnonce="${client}"`] : []),
  ]
  // Non-ASCII names are sent as UTF-8. Node writes each character of a header as one byte.
  return Buffer.from(`Digest ${fields.join(', ')}`).toString('latin1')
}

function escaped(text: string): string {
  return text.replaceAll(/["\\]/g, '\\$&')
}
