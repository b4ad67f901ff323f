/** Single sign-on: sign-ins at a provider, from the first request of a browser to its session. */
import type { Accounts } from '../accounts/accounts.js'
import type { Audit } from '../audit/audit.js'
import { FairQueue } from '../accounts/fair-queue.js'
import type { ConsoleSessionRow } from '../accounts/console-sessions.js'
import type { SignInProof, Proved } from '../accounts/proof.js'
import { identityRefused, providerSignInExpired } from '../accounts/errors.js'
import { digestOf, newSecret } from '../accounts/random-secrets.js'
import { GatewayError, isGatewayError, hasDetail } from '../base/errors.js'
import type { Log } from '../base/log.js'
import type { Egress } from '../contract/driver-env.js'
import type { IdentityRow } from '../database/identities.js'
import type { Store } from '../database/tables.js'
import { networkOf } from '../net/addresses.js'
import {
  BrowserSignIns,
  pendingTime,
  type AwaitingCode,
  type Begun,
  type SsoBrowser,
  type SsoMethod,
} from './browser-sign-ins.js'
import { isTwoStep } from './claims.js'
import { ProviderAccounts, shownIdentity } from './provider-accounts.js'
import { providerFacts, type SsoSettings } from './provider-facts.js'
import { ProviderSessions } from './provider-sessions.js'
import type { Provider, ProviderAnswer, SignInChecks } from './provider.js'

type Beginning = Pick<Begun, 'method' | 'redirectUri' | 'session' | 'after'>

interface BegunPage {
  /** The page at which the user signs in at the provider. */
  readonly page: URL
  /** The value of the cookie that the browser must have. */
  readonly secret: string
}

export type SsoOutcome = { readonly method: SsoMethod; readonly after: string } & (
  | { readonly kind: 'token'; readonly token: string }
  | { readonly kind: 'session'; readonly session: Awaited<ReturnType<Accounts['signIn']['openConsoleSession']>> }
  | { readonly kind: 'linkable'; readonly id: string }
  | { readonly kind: 'linked' | 'confirmed' }
  /** The account asks for a code. `secret`: what the browser sends with it. */
  | { readonly kind: 'code'; readonly secret: string }
)

/** Maximum numbers of codes that are redeemed at the provider at once: of all, and of one network. Others wait. */
const maxRunning = { all: 8, network: 4 }
/** The beginning of the ids by which identities are linked, which no subject of an identity is taken for. */
export const linkPrefix = 'link-'

/** Details of errors whose reason is for admins. */
const reasoned: ReadonlySet<string> = new Set(['provider_settings', 'provider_failed', 'identity_refused'])

interface SingleSignOnOptions {
  readonly accounts: Accounts
  readonly settings: SsoSettings
  readonly store: Pick<Store, 'pendingSignIns' | 'providerSessions' | 'revokedTokens'>
  readonly egress: Pick<Egress, 'agentFor'>
  readonly log: Pick<Log, 'info' | 'warn'>
  readonly audit: Pick<Audit, 'record'>
  /** Milliseconds since 1970. */
  readonly now?: () => number
}

export class SingleSignOn {
  #provider: Provider | undefined
  readonly #accounts: ProviderAccounts
  readonly #pending: BrowserSignIns
  readonly #sessions: ProviderSessions
  readonly #now: () => number
  readonly #queue = new FairQueue(undefined, maxRunning.all, maxRunning.network)

  constructor(private readonly options: SingleSignOnOptions) {
    this.#now = options.now ?? Date.now
    this.#pending = new BrowserSignIns(options.store.pendingSignIns, this.#now)
    this.#accounts = new ProviderAccounts(options)
    this.#sessions = new ProviderSessions(options)
  }

  /**
   * Begins a sign-in. `session`: that of the console whose user links an identity, or confirms it, or that which a new
   * one ends. `fresh`: the user must sign in at the provider, if that was more than ten minutes ago; also for a
   * confirmation. Rejects with the details `provider_off` and `provider_failed`, with `throttled` if the network has
   * begun too many, and with `aborted`.
   */
  begin(begin: Beginning, browser: SsoBrowser, fresh: boolean, signal?: AbortSignal): Promise<BegunPage> {
    return this.#logged(browser, () => this.#begin(begin, browser, fresh, signal))
  }

  async #begin(
    { method, redirectUri, session, after }: Beginning,
    browser: SsoBrowser,
    fresh: boolean,
    signal: AbortSignal | undefined,
  ): Promise<BegunPage> {
    this.#pending.count(browser)
    const facts = providerFacts(this.options.settings)
    if (method === 'confirm' && facts.kind === 'oauth') {
      const reason = 'GitHub does not say when it has asked for a password'
      throw new GatewayError('invalid', { op: 'sign in', detail: 'provider_failed', reason })
    }
    const secret = browser.secret ?? newSecret()
    const checks: SignInChecks = { state: newSecret(), nonce: newSecret(), verifier: newSecret() }
    const provider = await this.#loaded()
    const page = await provider.signInPage(facts, redirectUri, checks, { fresh: fresh || method === 'confirm', signal })
    const [{ issuer }, { nonce, verifier }] = [facts, checks]
    const begun: Begun = { method, issuer, redirectUri, nonce, verifier, browser: digestOf(secret), session, after }
    await this.#pending.keep('provider', browser, begun, checks.state)
    return { page, secret }
  }

  /**
   * Completes a sign-in. `query`: that of the request to which the provider has led the browser. Rejects with the
   * details `provider_sign_in_expired`, `provider_failed`, `identity_unknown` and `identity_refused`, with `aborted`,
   * and as `SignIn.issueToken`.
   */
  complete(query: URLSearchParams, browser: SsoBrowser, signal?: AbortSignal): Promise<SsoOutcome> {
    return this.#logged(browser, () => this.#complete(query, browser, signal))
  }

  async #complete(query: URLSearchParams, browser: SsoBrowser, signal: AbortSignal | undefined): Promise<SsoOutcome> {
    const facts = providerFacts(this.options.settings)
    const state = query.get('state') ?? ''
    const begun = await this.#pending.take('provider', state, browser)
    const { method, after, issuer, nonce, verifier, redirectUri } = begun
    // The code would be sent to another provider than the one that has made it.
    if (issuer !== facts.issuer) throw providerSignInExpired()
    const callback = new URL(redirectUri)
    callback.search = query.toString()
    const provider = await this.#loaded()
    const party = { network: networkOf(browser.address) }
    const checks = { state, nonce, verifier }
    const redeem = () => this.#queue.run({ party, signal }, () => provider.redeem(facts, callback, checks, signal))
    if (method === 'link') {
      const shown = shownIdentity(await redeem())
      const { id, userId } = await this.#sessionOf(begun, browser)
      await this.#accounts.link(userId, shown)
      const name = this.options.accounts.users.get(userId)?.username ?? ''
      const actor = { userId, name, protocol: 'http', address: browser.address, credential: `console:${id}` }
      await this.options.audit.record({
        kind: 'admin.user',
        actor,
        subject: name,
        fields: ['identity'],
        result: 'done',
      })
      return { method, after, kind: 'linked' }
    }
    if (method === 'get_sso_id') {
      const shown = shownIdentity(await redeem())
      const id = linkPrefix + newSecret()
      await this.#pending.keep('provider-link', browser, { browser: begun.browser, shown }, id)
      return { method, after, kind: 'linkable', id }
    }
    let awaiting: Omit<AwaitingCode, 'begun'> | undefined
    const prove = async () => {
      const answer = await redeem()
      // Before an account is made or linked.
      if (method === 'confirm') await this.#assertOwn(answer, begun, browser)
      const identity = await this.#accounts.signedIn(facts, answer)
      // The code of the account, if one is asked, may come as late as the answer.
      const end = new Date(this.#now() + 2 * pendingTime)
      const reserved = method === 'confirm' ? undefined : await this.#sessions.reserve(identity.id, answer, end)
      awaiting = { identityId: identity.id, authTime: answer.authTime?.getTime(), reserved }
      return this.#proved(awaiting, isTwoStep(answer.claims))
    }
    return this.#signIn(begun, browser, { kind: facts.kind, prove }, () => awaiting)
  }

  /** Completes a sign-in with the code of the account. `secret`: what `complete` has resolved to. Rejects as that. */
  async completeWithCode(secret: string, code: string, browser: SsoBrowser): Promise<SsoOutcome> {
    const awaiting = await this.#pending.take('provider-code', secret, browser)
    const { kind } = this.#identity(awaiting)
    const prove = () => Promise.resolve(this.#proved(awaiting, false))
    return this.#signIn(awaiting.begun, browser, { kind, prove, code }, () => awaiting)
  }

  async #signIn(
    begun: Begun,
    browser: SsoBrowser,
    how: Pick<SignInProof, 'kind' | 'prove' | 'code'>,
    awaiting: () => Omit<AwaitingCode, 'begun'> | undefined,
  ): Promise<SsoOutcome> {
    const { method, after } = begun
    const { consoleSessions, signIn } = this.options.accounts
    const proof = { ...how, username: '', address: browser.address }
    try {
      if (method === 'confirm') {
        await signIn.confirmConsoleSession(await this.#sessionOf(begun, browser), proof)
        return { method, after, kind: 'confirmed' }
      }
      if (method !== 'console') return { method, after, kind: 'token', token: await signIn.issueToken(proof) }
      const session = await signIn.openConsoleSession(proof, browser)
      // Browsers do not send its cookie when another site leads them here.
      if (begun.session !== undefined) await consoleSessions.end(session.row.userId, begun.session)
      return { method, after, kind: 'session', session }
    } catch (error) {
      const known = awaiting()
      if (!isGatewayError(error) || !hasDetail(error, 'code_required') || known === undefined) throw error
      const secret = await this.#pending.keep('provider-code', browser, { begun, ...known })
      return { method, after, kind: 'code', secret }
    }
  }

  #proved({ identityId, authTime, reserved }: Omit<AwaitingCode, 'begun'>, hasTwoStep: boolean): Proved {
    const identity = this.#identity({ identityId })
    const user = this.options.accounts.users.get(identity.userId)
    if (user === undefined) throw new GatewayError('denied', { op: 'sign in', detail: 'identity_unknown' })
    return {
      user,
      hasTwoStep,
      // A provider that does not say when is not taken for one that has just asked. GitHub never says it.
      at: new Date(authTime ?? 0),
      onSession: reserved === undefined ? undefined : (session) => this.#sessions.open(reserved, user.id, session),
    }
  }

  /** The session of the console that has begun it. Rejects with `provider_sign_in_expired` if that has ended. */
  async #sessionOf({ session = 0 }: Begun, { address }: SsoBrowser): Promise<ConsoleSessionRow> {
    const { admission, consoleSessions, users } = this.options.accounts
    // Another node may have opened it just now.
    if (consoleSessions.get(session) === undefined) await consoleSessions.readThoseOfOthers()
    const row = consoleSessions.get(session)
    const user = row && users.get(row.userId)
    const isOpen = user?.passwordTime === row?.passwordTime && (row?.expires.getTime() ?? 0) > this.#now()
    const visit = { address, hasTwoStep: row?.twoStep }
    if (row === undefined || user === undefined || !isOpen || admission.sessionRefusal(user, visit) !== undefined) {
      throw providerSignInExpired()
    }
    return row
  }

  /** Rejects with `identity_refused` unless the user who confirms a session has this identity. */
  async #assertOwn({ issuer, subject }: ProviderAnswer, begun: Begun, browser: SsoBrowser): Promise<void> {
    const { userId } = await this.#sessionOf(begun, browser)
    if (this.options.accounts.identities.find(issuer, subject)?.userId === userId) return
    throw identityRefused('this identity is not that of the user who is signed in')
  }

  /** Logs the error of `work`, unless it is logged as a refused sign-in, or the client gets all of it. */
  async #logged<T>({ address }: SsoBrowser, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      const { accounts, log } = this.options
      const { detail = '', reason = '' } = isGatewayError(error) ? error : {}
      if (reasoned.has(detail) && !accounts.signIn.hasRecorded(error as GatewayError)) {
        log.warn({ address, error: detail, reason }, 'single sign-on refused')
      }
      throw error
    }
  }

  #identity({ identityId }: Pick<AwaitingCode, 'identityId'>): IdentityRow {
    const identity = this.options.accounts.identities.get(identityId)
    if (identity === undefined) throw new GatewayError('denied', { op: 'sign in', detail: 'identity_unknown' })
    return identity
  }

  /**
   * Links the identity that the browser of this user has proved, by the id that it got. Rejects with the details
   * `provider_sign_in_expired` and `identity_refused`.
   */
  async link(userId: number, id: string, browser: SsoBrowser): Promise<void> {
    const { shown } = await this.#pending.take('provider-link', id, browser)
    await this.#accounts.link(userId, shown)
  }

  /**
   * Unlinks an identity of the user, by default all of providers, and ends the sessions that began by it. Rejects with
   * `not_found`, and with the detail `identity_refused` for that with which the account was created.
   */
  async unlink(userId: number, id?: number): Promise<void> {
    // If a session cannot be ended, the identity stays, so that the user can try again.
    for (const each of this.#accounts.unlinkable(userId, id)) await this.#sessions.end({ identityId: each })
    // A sign-in may have opened others meanwhile.
    await this.#sessions.endAll(await this.#accounts.unlink(userId, id))
  }

  /**
   * The page of the provider that ends its session, for the session of this credential; undefined if it did not begin
   * there, the provider has no such page, or the settings do not ask for it. `after`: where it leads then.
   */
  async signOutPage(credential: string, after: string): Promise<URL | undefined> {
    const { settings, log } = this.options
    if (!settings.bool('sso_logout_provider')) return undefined
    const session = await this.#sessions.ofCredential(credential)
    if (session === undefined) return undefined
    try {
      const facts = providerFacts(settings)
      const provider = await this.#loaded()
      const issuer = this.options.accounts.identities.get(session.identityId)?.issuer
      return await provider.signOutPage(facts, { issuer, idToken: session.idToken }, after)
    } catch (error) {
      log.warn({ err: error }, 'the session at the provider was not ended')
      return undefined
    }
  }

  /** Ends the sessions that a logout token of the provider names. Rejects with the detail `provider_failed`. */
  async endByProvider(logoutToken: string): Promise<void> {
    const facts = providerFacts(this.options.settings)
    const request = await (await this.#loaded()).logoutRequest(facts, logoutToken)
    const sessions = await this.#sessions.endBy(request)
    this.options.log.info({ issuer: request.issuer, sessions }, 'the provider has ended sessions')
  }

  /**
   * Loads the provider at its first use: its libraries take ten megabytes. It keeps the metadata for an hour, for all
   * who need them. The keys are read for each code, and only some codes are redeemed at once.
   */
  async #loaded(): Promise<Provider> {
    const { Provider } = await import('./provider.js')
    return (this.#provider ??= new Provider(this.options.egress, this.#now))
  }
}
