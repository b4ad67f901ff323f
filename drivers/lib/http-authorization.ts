/** HTTP authentication by name and password: Basic (RFC 7617) and Digest (RFC 7616, and RFC 2069 of old servers), as the server asks. */
import { createHash, randomBytes } from 'node:crypto'

export interface Credentials {
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
  #chosen: Challenge | undefined
  #uses = 0

  constructor(private readonly credentials: Credentials) {}

  /** The header of a request; undefined until the server has asked for one: nobody is told a password who does not ask. */
  header(method: string, target: string): string | undefined {
    if (!this.#chosen) return undefined
    const { username, password } = this.credentials
    if (this.#chosen.scheme === 'basic') return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
    return digestHeader(this.#chosen.parameters, this.credentials, { method, target, count: ++this.#uses })
  }

  /**
   * Takes the `WWW-Authenticate` of an answer to a request that bore `sent`. Tells whether to ask again: where nothing had been sent,
   * where the server says that its challenge has become stale, or where another one is in force by now; not where the name or
   * the password are wrong.
   */
  isWorthAnotherTry(header: string | undefined, sent: string | undefined): boolean {
    const challenges = parseChallenges(header ?? '')
    const digest = challenges.find(
      ({ scheme, parameters }) => scheme === 'digest' && algorithmOf(parameters) !== undefined,
    )
    const asked = digest ?? challenges.find(({ scheme }) => scheme === 'basic')
    if (!asked) return false
    const current = this.#chosen?.parameters.get('nonce')
    const isStale = asked.parameters.get('stale')?.toLowerCase() === 'true'
    const isOfAnother =
      sent?.startsWith('Digest ') === true && current !== undefined && !sent.includes(`nonce="${current}"`)
    // Others may have taken a newer challenge while this request was on its way.
    if (!isOfAnother) {
      this.#chosen = asked
      this.#uses = 0
    }
    return sent === undefined || isStale || isOfAnother
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
  const qualities = parameters
    .get('qop')
    ?.split(',')
    .map((each) => each.trim())
  if (hash === undefined || !parameters.has('nonce')) return undefined
  return qualities === undefined || qualities.includes('auth') ? { hash, isSession } : undefined
}

function digestHeader(
  parameters: ReadonlyMap<string, string>,
  { username, password }: Credentials,
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
  const hasQuality = parameters.has('qop')
  const response = hasQuality ? digest(secret, nonce, uses, client, 'auth', subject) : digest(secret, nonce, subject)
  const fields = [
    ...[`username="${escaped(username)}"`, `realm="${escaped(realm)}"`, `nonce="${escaped(nonce)}"`],
    ...[`uri="${target}"`, `response="${response}"`],
    ...(parameters.has('algorithm') ? [`algorithm=${parameters.get('algorithm') ?? ''}`] : []),
    ...(parameters.has('opaque') ? [`opaque="${escaped(parameters.get('opaque') ?? '')}"`] : []),
    ...(hasQuality ? [`qop=auth, nc=${uses}`] : []),
    ...(hasQuality || isSession ? [`cnonce="${client}"`] : []),
  ]
  // Names of any script go as the bytes of UTF-8, each of which is a character to Node.
  return Buffer.from(`Digest ${fields.join(', ')}`).toString('latin1')
}

function escaped(text: string): string {
  return text.replaceAll(/["\\]/g, '\\$&')
}
