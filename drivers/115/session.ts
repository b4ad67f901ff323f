/**
 * The sign-in of a storage to 115's web API, and its calls: with the cookie, the User-Agent of 115's browser, and, where the
 * API wants it, in the envelope `m115`.
 */
import type { IncomingHttpHeaders } from 'node:http'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import { GatewayError, isGatewayError, toGatewayError } from '../../src/contract/errors.js'
import { ApiClient, type ApiAnswer, type ApiCall } from '../lib/api/api-client.js'
import { BoundState } from '../lib/api/bound-state.js'
import type { Cookies } from '../lib/api/cookies.js'
import { field, parseJson, textOf } from '../lib/api/lenient.js'
import { RateGate } from '../lib/api/rate-gate.js'
import { HttpClient } from '../lib/http-client.js'
import { accountCookies, credentialNames } from './account-cookies.js'
import { Answer115, errorOf, isSignedOut, isSuccess, judge, protocolViolation, serverName } from './errors.js'
import { M115 } from './m115.js'

/** The options of the sign-in, which both drivers have. */
export interface SignInOptions {
  readonly cookie: string
  readonly qrcode_token: string
  readonly qrcode_source: string
  readonly limit_rate: number
}

export interface Call115 extends ApiCall {
  /** Whether an answer is accepted that says that the call has failed. */
  readonly accepts?: (data: unknown) => boolean
}

interface SealedAnswer {
  readonly data: unknown
  readonly headers: IncomingHttpHeaders
}

interface SealedOptions {
  readonly userAgent?: string | undefined
  readonly repeatable?: boolean
  readonly signal?: AbortSignal | undefined
}

const address = new URL('https://webapi.115.com/')
/** Domains of the vendor, its download servers, and its object store. */
const domains = ['115.com', '115cdn.com', '115cdn.net', 'anxia.com', 'aliyuncs.com']
/** The version of the app, if the server does not say it. */
const defaultVersion = '35.6.0.3'
/** Milliseconds to wait for the version. */
const versionTimeout = 10_000
/** Milliseconds without calls after the server has said that the storage is signed out. */
const signedOutTime = 5 * 60_000

export class Session {
  #cookies: Cookies | undefined
  #stored: BoundState<string> | undefined
  /** The end of the last change of the stored cookie. */
  #storing: Promise<void> = Promise.resolve()
  #signedOut: { readonly error: GatewayError; readonly until: number } | undefined

  private constructor(
    private readonly client: ApiClient,
    readonly appVersion: string,
    private readonly env: DriverEnv,
  ) {}

  /** `scope`: whom the server limits, such as a kind of storage and an account. */
  static async connect(options: SignInOptions, env: DriverEnv, scope: string): Promise<Session> {
    const { limit_rate: perSecond } = options
    const http = new HttpClient({ server: serverName, address, domains, verifiesCertificate: true, egress: env.egress })
    const gate = await RateGate.open({ server: serverName, perSecond, scope, state: env.state })
    const client = new ApiClient({
      server: serverName,
      http,
      gate,
      judge: (answer, call: Call115) => (call.accepts?.(answer.data) === true ? 'ok' : judge(answer)),
    })
    try {
      return new Session(client, await appVersionOf(client, env.signal), env)
    } catch (error) {
      await client.close()
      throw toGatewayError(error)
    }
  }

  get userAgent(): string {
    return browserAgent(this.appVersion)
  }

  /** For requests that are not calls: without cookie, and not limited. */
  get http(): HttpClient {
    return this.client.http
  }

  /**
   * Signs in: by the cookie, or by a QR code that a user has confirmed, which the server exchanges once. Rejects with
   * `invalid` if the options have no credentials, and with `denied`.
   */
  async signIn(options: SignInOptions): Promise<void> {
    const cookie = options.qrcode_token.trim() === '' ? options.cookie : await this.#cookieOfCode(options)
    this.#stored = await BoundState.open<string>(this.env.state, 'cookie', cookie)
    this.#cookies = accountCookies(this.#stored.value ?? cookie)
    const url = new URL('https://my.115.com/?ct=guide&ac=status')
    url.searchParams.set('_', String(Date.now()))
    const { data } = await this.call({ url, accepts: () => true, signal: this.env.signal })
    if (!isSuccess(data)) throw errorOf({ errno: 99 })
  }

  /** As `ApiClient.call`, with the cookie. What the server changes of it is stored before it is used. */
  async call(call: Call115): Promise<ApiAnswer> {
    if (this.#signedOut && performance.now() < this.#signedOut.until) throw this.#signedOut.error
    const cookie = call.isAnonymous === true ? undefined : this.#cookies?.header()
    const headers = { 'user-agent': this.userAgent, ...(cookie !== undefined && { cookie }), ...call.headers }
    try {
      const answer = await this.client.call({ ...call, headers })
      if (cookie !== undefined) await this.#renew(answer.headers['set-cookie'])
      return answer
    } catch (error) {
      if (cookie !== undefined && isSignedOut(error)) {
        this.#signedOut = { error: error as GatewayError, until: performance.now() + signedOutTime }
      }
      throw error
    }
  }

  /** A call in the envelope. `userAgent`: that of the client which will use the answer. */
  async sealedCall(address: string, payload: object, options: SealedOptions = {}): Promise<SealedAnswer> {
    const { userAgent, repeatable = false, signal } = options
    const envelope = new M115()
    const url = new URL(address)
    url.searchParams.set('t', String(Math.floor(Date.now() / 1000)))
    const { data, headers } = await this.call({
      url,
      form: { data: envelope.seal(payload) },
      headers: userAgent === undefined ? {} : { 'user-agent': userAgent },
      repeatable,
      signal,
    })
    const sealed = field(data, 'data')
    return { data: typeof sealed === 'string' ? parsed(envelope.open(sealed)) : sealed, headers }
  }

  close(): Promise<void> {
    return this.client.close()
  }

  /**
   * The cookie for a QR code. It is stored before it is used, as the server exchanges a code once, and becomes the option
   * `cookie`. A cookie that was typed since then replaces it.
   */
  async #cookieOfCode({ qrcode_token, qrcode_source, cookie: typed }: SignInOptions): Promise<string> {
    const code = qrcode_token.trim()
    const exchanged = await BoundState.open<string>(this.env.state, 'exchanged QR code', code)
    const isTypedSince = exchanged.value !== undefined && typed.trim() !== ''
    const cookie = isTypedSince ? typed : (exchanged.value ?? (await this.#exchange(code, qrcode_source)))
    if (exchanged.value === undefined) await exchanged.set(cookie)
    await this.env.save({ cookie, qrcode_token: '' })
    return cookie
  }

  async #exchange(code: string, kind: string): Promise<string> {
    const url = new URL(`https://passportapi.115.com/app/1.0/${kind}/1.0/login/qrcode`)
    const form = { account: code, app: kind }
    try {
      const { data } = await this.call({ url, form, isAnonymous: true, signal: this.env.signal })
      const cookie = credentialNames.flatMap((name) => {
        const value = textOf(field(data, 'data', 'cookie', name))
        return value === '' ? [] : [`${name}=${value}`]
      })
      return accountCookies(cookie.join('; ')).header()
    } catch (error) {
      // A kind of device that 115 has withdrawn has no code of its own.
      if (!isGatewayError(error, 'unavailable') || !(error.cause instanceof Answer115)) throw error
      const reason = `the ${serverName} does not accept this QR code for the device "${kind}": scan a new one, or choose another qrcode_source`
      throw new GatewayError('denied', { reason, cause: error.cause })
    }
  }

  /** One change after the other: each is made of the one before. */
  #renew(setCookie: readonly string[] | undefined): Promise<void> {
    if (setCookie === undefined) return Promise.resolve()
    const renew = async () => {
      const renewed = this.#cookies?.after(setCookie, credentialNames)
      if (!renewed) return
      await this.#stored?.set(renewed.header())
      this.#cookies = renewed
    }
    this.#storing = this.#storing.then(renew, renew)
    return this.#storing
  }
}

function browserAgent(version: string): string {
  return `Mozilla/5.0 115Browser/${version}`
}

async function appVersionOf(client: ApiClient, signal: AbortSignal): Promise<string> {
  const url = new URL('https://appversion.115.com/1/web/1.0/api/chrome')
  const headers = { 'user-agent': browserAgent(defaultVersion) }
  try {
    const { data } = await client.call({ url, headers, repeatable: false, timeout: versionTimeout, signal })
    const version = textOf(field(data, 'data', 'win', 'version_code'))
    return /^\d+(\.\d+)+$/.test(version) ? version : defaultVersion
  } catch (error) {
    if (isGatewayError(error, 'aborted')) throw error
    return defaultVersion
  }
}

function parsed(text: string): unknown {
  try {
    return parseJson(text)
  } catch {
    throw protocolViolation('sent an envelope without JSON')
  }
}
