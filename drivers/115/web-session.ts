/**
 * The sign-in of a storage to 115's web API, and its calls: with the cookie, the User-Agent of 115's browser, and,
 * where the API wants it, in the envelope `m115`.
 */
import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import { GatewayError, isGatewayError, toGatewayError } from '../../src/base/errors.js'
import { ApiClient, type ApiAnswer, type ApiCall } from '../lib/json-api/api-client.js'
import { BoundState } from '../lib/json-api/bound-state.js'
import { openCookieSession } from '../lib/cloud/cookie-session.js'
import { field, parseJson, textOf } from '../lib/json-api/lenient.js'
import { RateGate } from '../lib/json-api/rate-gate.js'
import { HttpClient } from '../lib/http/http-client.js'
import { accountCookies, credentialNames, userOf } from './account-cookies.js'
import { Answer115, meaningOf, protocolViolation, serverName, signedOutReason, signInCheck } from './errors.js'
import { M115 } from './m115.js'

/** The options of the sign-in, which both drivers have. */
export interface CookieOptions {
  readonly cookie: string
  readonly qrcode_token: string
  readonly qrcode_source: string
  readonly limit_rate: number
}

/** The credentials for which a QR code was exchanged. */
interface ExchangedCode {
  readonly cookie: string
  /** Digest of the option `cookie` at that time: another one was typed later. */
  readonly typedThen: string
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

type ClientOptions = Omit<ConstructorParameters<typeof ApiClient<string>>[0], 'credentials'>

export class WebSession {
  private constructor(
    private readonly options: ClientOptions,
    private readonly env: DriverEnv,
    readonly appVersion: string,
    /** The client, without cookie until the sign-in. */
    private client: ApiClient<string>,
  ) {}

  /** `scope`: whom the server limits, such as a kind of storage and an account. */
  static async connect(
    { limit_rate }: Pick<CookieOptions, 'limit_rate'>,
    env: DriverEnv,
    scope: string,
  ): Promise<WebSession> {
    const options: ClientOptions = {
      server: serverName,
      http: new HttpClient({ server: serverName, address, domains, verifiesCertificate: true, egress: env.egress }),
      gate: await RateGate.open({ server: serverName, perSecond: limit_rate, scope, state: env.state }),
      meaningOf: (answer, call: Call115) => (call.accepts?.(answer.data) === true ? 'ok' : meaningOf(answer, call)),
    }
    const client = new ApiClient<string>(options)
    try {
      return new WebSession(options, env, await appVersionOf(client, env.signal), client)
    } catch (error) {
      await client.close()
      throw toGatewayError(error)
    }
  }

  get userAgent(): string {
    return browserAgent(this.appVersion)
  }

  /** The client for requests that are not calls: without cookie, and not limited. */
  get http(): HttpClient {
    return this.client.http
  }

  /**
   * Signs in: by the cookie, or by a QR code that a user has confirmed, which the server exchanges once. Rejects with
   * `invalid` if the options have no credentials, and with `denied`.
   */
  async signIn(options: CookieOptions): Promise<void> {
    const cookie = options.qrcode_token === '' ? options.cookie : await this.#cookieOfCode(options)
    const credentials = await openCookieSession({
      state: this.env.state,
      typed: accountCookies(cookie).header(),
      replaceable: credentialNames,
      accepts: (before, after) => {
        const isSame = userOf(before) === userOf(after)
        if (!isSame) this.env.log.warn({}, `the ${serverName} sent the cookie of another account, which is not used`)
        return isSame
      },
      refusal: signedOutReason,
    })
    this.client = new ApiClient({ ...this.options, credentials })
    const url = new URL(signInCheck)
    url.searchParams.set('_', String(Date.now()))
    await this.call({ url, signal: this.env.signal })
  }

  /** Like `ApiClient.call`, as 115's browser. */
  call(call: Call115): Promise<ApiAnswer> {
    return this.client.call({ ...call, headers: { 'user-agent': this.userAgent, ...call.headers } })
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
   * The cookie for a QR code. It is stored before it is used, as the server exchanges a code once, and becomes the
   * option `cookie`. A cookie that was typed since then replaces it.
   */
  async #cookieOfCode({ qrcode_token: code, qrcode_source, cookie: typed }: CookieOptions): Promise<string> {
    const { env } = this
    const cookie = await env.state.exclusively(`QR code ${digestOf(code)}`, async () => {
      const exchanged = await BoundState.open<ExchangedCode>(env.state, 'exchanged QR code', code)
      const earlier = exchanged.value
      const isTypedSince = earlier !== undefined && typed !== '' && digestOf(typed) !== earlier.typedThen
      if (earlier) return isTypedSince ? typed : earlier.cookie
      const fresh = await this.exchange(code, qrcode_source)
      await exchanged.set({ cookie: fresh, typedThen: digestOf(typed) })
      return fresh
    })
    await env.save({ cookie, qrcode_token: '' })
    return cookie
  }

  /**
   * Signs in as a device of this kind by a confirmed QR code, which is used up. Resolves to the cookie. Rejects with
   * `denied` if the code or the kind is not accepted.
   */
  async exchange(code: string, kind: string): Promise<string> {
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
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

function browserAgent(version: string): string {
  return `Mozilla/5.0 115Browser/${version}`
}

async function appVersionOf(client: ApiClient<string>, signal: AbortSignal): Promise<string> {
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
