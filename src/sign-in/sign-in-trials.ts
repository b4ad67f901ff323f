/** Trials of settings of single sign-on and LDAP: the provider or directory is asked, and nothing is stored. */
import { Attempts } from '../base/attempts.js'
import { throwIfAborted } from '../base/cancellation.js'
import { hasDetail, isGatewayError, type GatewayError } from '../base/errors.js'
import type { EgressGuard } from '../net/egress.js'
import { isCertificateFault } from '../net/web-address.js'
import type { Settings } from '../settings/settings.js'
import { LdapDirectory } from './ldap-directory.js'
import { directorySettings } from './ldap-sign-in.js'
import { providerFacts } from './provider-facts.js'

/** What a trial can find. Of those that a list of causes allows, the first one is told. */
export const trialOutcomes = [
  'works',
  /** The provider is one, but does not tell whether it has such a client. */
  'unconfirmed',
  /** A setting is missing or cannot be used. */
  'incomplete',
  'network_refused',
  'certificate',
  'silent',
  'unreachable',
  /** The client at the provider, or the account that searches in the directory. */
  'account_refused',
  /** The base of the search is not in the directory, or not for the account that searches. */
  'base_missing',
  'nobody_found',
  /** Something else was answered than a provider or directory would. */
  'other_answer',
] as const

export interface Trial {
  readonly outcome: (typeof trialOutcomes)[number]
  /** Why, for admins; empty if there is no more to say. */
  readonly reason: string
  /** The person in the directory who was looked for, by the name of the account here. */
  readonly person?: { readonly name: string; readonly groups: readonly string[] }
}

type TriedSettings = Pick<Settings, 'bool' | 'get' | 'number'>

const limits = { atOnce: 4, time: 30_000, busy: 'other settings are being tested' }

export class SignInTrials {
  readonly #attempts = new Attempts(limits)

  constructor(private readonly egress: Pick<EgressGuard, 'agentFor' | 'assertAllowed' | 'connect'>) {}

  /**
   * Asks the provider for its metadata, and whether it has this client, also while single sign-on is off.
   * `redirectUri`: that of a sign-in. Rejects with `busy` during other trials, and with the reason of the signal.
   */
  ofProvider(settings: TriedSettings, redirectUri: string, signal?: AbortSignal): Promise<Trial> {
    return this.#trial(async (signal) => {
      const facts = providerFacts({
        get: (key) => settings.get(key),
        number: (key) => settings.number(key),
        bool: (key) => key === 'sso_login_enabled' || settings.bool(key),
      })
      const { Provider } = await import('./provider.js')
      const isAccepted = await new Provider(this.egress, Date.now).acceptsClient(facts, redirectUri, signal)
      if (isAccepted === undefined) return found('unconfirmed')
      return found(isAccepted ? 'works' : 'account_refused')
    }, signal)
  }

  /**
   * Asks the directory for the person of this name, without a password; for anybody if the name is empty. Rejects as
   * `ofProvider`.
   */
  ofDirectory(settings: TriedSettings, name: string, signal?: AbortSignal): Promise<Trial> {
    return this.#trial(async () => {
      const directory = new LdapDirectory(directorySettings(settings), this.egress)
      if (name === '') return found((await directory.findsAnybody()) ? 'works' : 'nobody_found')
      const person = await directory.find({ name })
      if (person === undefined) return found('nobody_found')
      return { ...found('works'), person: { name: person.name || name, groups: [...person.groups] } }
    }, signal)
  }

  async #trial(ask: (signal: AbortSignal) => Promise<Trial>, signal?: AbortSignal): Promise<Trial> {
    try {
      return await this.#attempts.run(ask, signal)
    } catch (error) {
      if (signal) throwIfAborted(signal)
      if (!isGatewayError(error) || error.code === 'busy') throw error
      return { outcome: outcomeOf(error), reason: error.reason }
    }
  }
}

function found(outcome: Trial['outcome']): Trial {
  return { outcome, reason: '' }
}

/** The codes of results of LDAP (RFC 4511 §4.1.9). */
const [noSuchObject, inappropriateAuthentication, invalidCredentials] = [32, 48, 49]

function outcomeOf(error: GatewayError): Trial['outcome'] {
  const causes: unknown[] = []
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) causes.push(cause)
  const codes = causes.map((cause) => (cause as { readonly code?: unknown }).code)
  if (causes.some(isCertificateFault)) return 'certificate'
  if (codes.includes('denied')) return 'network_refused'
  if (codes.includes('timeout')) return 'silent'
  if (codes.some((code) => typeof code === 'string' && /^E(?!RR_)[A-Z_]+$/.test(code))) return 'unreachable'
  if (codes.includes(invalidCredentials) || codes.includes(inappropriateAuthentication)) return 'account_refused'
  if (codes.includes(noSuchObject)) return 'base_missing'
  const isAnswer = hasDetail(error, 'provider_failed') || codes.some((code) => typeof code === 'number')
  return codes.includes('invalid') && !isAnswer ? 'incomplete' : 'other_answer'
}
