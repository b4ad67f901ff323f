/** The accounts of those who sign in at a provider: linked, created, and with the groups that the provider names. */
import type { Accounts } from '../accounts/accounts.js'
import type { Audit } from '../audit/audit.js'
import { identityRefused } from '../accounts/errors.js'
import type { IdentityRow, ShownIdentity } from '../accounts/identities.js'
import { cleanName, ProvidedAccounts } from '../accounts/provided-accounts.js'
import { namesIn } from '../accounts/provided-groups.js'
import { nameFault, type UserRow } from '../accounts/users.js'
import { GatewayError, isGatewayError } from '../base/errors.js'
import type { Log } from '../base/log.js'
import type { OpenProviderSession } from '../database/identities.js'
import { groupMap } from '../settings/sign-in-settings.js'
import { claimAt } from './claims.js'
import type { ProviderAnswer } from './provider.js'
import type { ProviderFacts, SsoSettings } from './provider-facts.js'

interface ProviderAccountsOptions {
  readonly accounts: Pick<Accounts, 'ended' | 'groups' | 'identities' | 'reload' | 'users'>
  readonly settings: SsoSettings
  readonly log: Pick<Log, 'info' | 'warn'>
  readonly audit: Pick<Audit, 'record'>
}

/** Maximum number of names that are tried for a new account: with a number after the first one. */
const maxNames = 100

export class ProviderAccounts {
  readonly #provided: ProvidedAccounts

  constructor(private readonly options: ProviderAccountsOptions) {
    this.#provided = new ProvidedAccounts(options)
  }

  /**
   * The identity, whose account has the groups that the provider names now. Links the identity, or creates the account,
   * if the settings say so. Rejects with the details `identity_unknown` and `identity_refused`.
   */
  async signedIn(facts: ProviderFacts, answer: ProviderAnswer): Promise<IdentityRow> {
    const { accounts, settings } = this.options
    const identity = shownIdentity(answer)
    const isFirst = accounts.identities.find(identity.issuer, identity.subject) === undefined
    const isMapped = isFirst || settings.bool('sso_update_on_login')
    const rules = {
      required: namesIn(settings.get('sso_required_groups')),
      map: groupMap(isMapped ? settings.get('sso_group_map') : ''),
      admins: namesIn(settings.get('sso_admin_groups')),
    }
    const person = { identity, groups: groupsOf(facts, answer) }
    const found = await this.#provided.signedIn(person, rules, () => this.#firstTime(facts, answer, identity))
    if (found === undefined) throw new GatewayError('denied', { op: 'sign in', detail: 'identity_unknown' })
    return found
  }

  /** Links the identity to a user who is signed in. Rejects with `identity_refused` if another one has it. */
  async link(userId: number, shown: ShownIdentity): Promise<void> {
    const { accounts, log } = this.options
    if (accounts.identities.find(shown.issuer, shown.subject)?.userId === userId) return
    try {
      await accounts.identities.link(userId, shown)
    } catch (error) {
      if (!isGatewayError(error, 'exists')) throw error
      throw identityRefused('this identity is linked to another account')
    }
    await accounts.users.update(userId, { ssoId: shown.subject })
    log.info({ userId, issuer: shown.issuer }, 'an identity was linked')
  }

  /**
   * The identities that `unlink` would unlink: one of the user, or all of providers. Throws `not_found`, and the detail
   * `identity_refused` for that with which the account was created: only its provider can say whether it still exists.
   */
  unlinkable(userId: number, id?: number): readonly number[] {
    const rows = this.options.accounts.identities.of(userId)
    const chosen = rows.filter((row) => (id === undefined ? row.kind !== 'ldap' : row.id === id))
    if (id !== undefined && chosen.length === 0) throw new GatewayError('not_found', { reason: 'identity not found' })
    if (chosen.some(({ provisioned }) => provisioned)) {
      throw identityRefused('the account was created with this identity, which cannot be unlinked')
    }
    return chosen.map((row) => row.id)
  }

  /** Resolves to the sessions that began by them, which the caller ends. Rejects as `unlinkable` throws. */
  async unlink(userId: number, id?: number): Promise<readonly OpenProviderSession[]> {
    const { identities, users } = this.options.accounts
    const sessions: OpenProviderSession[] = []
    for (const each of this.unlinkable(userId, id)) sessions.push(...(await identities.unlink(userId, each)))
    const isLast = identities.of(userId).every(({ kind }) => kind === 'ldap')
    if (isLast && users.get(userId)?.ssoId !== '') await users.update(userId, { ssoId: '' })
    return sessions
  }

  async #firstTime(facts: ProviderFacts, answer: ProviderAnswer, shown: ShownIdentity): Promise<void> {
    const { settings, log } = this.options
    const former = this.#formerUser(facts, answer) ?? this.#userByEmail(answer)
    if (former !== undefined) {
      await this.link(former.id, shown)
      log.warn({ account: former.username, issuer: answer.issuer }, 'an identity was linked at its first sign-in')
      await this.#provided.record(former.id, ['identity'])
      return
    }
    if (!settings.bool('sso_auto_register')) return
    const name = this.#newName(answer)
    const isMade = await this.#provided.create(shown, {
      names: Array.from({ length: maxNames }, (_, index) => (index === 0 ? name : `${name}-${index + 1}`)),
      folder: settings.get('sso_default_dir'),
      permission: settings.number('sso_default_permission'),
    })
    if (!isMade) throw identityRefused('an account cannot be created: too many have this name')
  }

  /**
   * The user whose `sso_id` an earlier program has stored, if the provider guarantees the claim: it is the subject, or
   * a verified e-mail address. Anybody can choose other claims, such as names.
   */
  #formerUser({ kind, formerIdClaim: claim }: ProviderFacts, { claims, subject }: ProviderAnswer): UserRow | undefined {
    const isVerified = claim === 'email' && claims.email_verified === true
    if (kind === 'oidc' && claim !== 'sub' && claim !== 'oid' && !isVerified) return undefined
    const value = kind === 'oauth' || claim === 'sub' ? subject : claims[claim]
    return typeof value === 'string' ? this.#only(({ ssoId }) => value !== '' && ssoId === value) : undefined
  }

  /** The user whose name is the verified e-mail address, if the setting permits that. */
  #userByEmail({ claims: { email, email_verified: isVerified } }: ProviderAnswer): UserRow | undefined {
    if (!this.options.settings.bool('sso_link_by_email') || isVerified !== true) return undefined
    const admin = this.options.accounts.users.byUniqueRole('admin')
    return this.#only((user) => user !== admin && user.username === email)
  }

  /** The only user who matches, if it has no identity. Never the guest. */
  #only(matches: (user: UserRow) => boolean): UserRow | undefined {
    const { users, identities } = this.options.accounts
    const [user, ...others] = users.list().filter(matches)
    if (user === users.byUniqueRole('guest')) return undefined
    return user !== undefined && others.length === 0 && identities.of(user.id).length === 0 ? user : undefined
  }

  #newName({ claims, subject }: ProviderAnswer): string {
    const key = this.options.settings.get('sso_oidc_username_key')
    const { preferred_username: preferred, email, name } = claims
    const local = typeof email === 'string' ? email.split('@')[0] : undefined
    const chosen = key === 'name' ? undefined : claimAt(claims, key)
    const texts = [chosen, preferred, local, name, subject].filter((text) => typeof text === 'string')
    const cleaned = texts.map((text) => cleanName(text)).find((text) => text !== '' && nameFault(text) === undefined)
    return cleaned ?? 'user'
  }
}

/**
 * The groups of the user at the provider. Undefined without the claim, or if it is elsewhere (OpenID Connect Core 1.0
 * §5.6.2): Entra ID does not send more than 200.
 */
function groupsOf({ groupsClaim }: ProviderFacts, { claims }: ProviderAnswer): readonly string[] | undefined {
  const value = claimAt(claims, groupsClaim)
  if (typeof value === 'string') return [value]
  if (!Array.isArray(value) || claimAt(claims, `_claim_names.${groupsClaim}`) !== undefined) return undefined
  return value.filter((each): each is string => typeof each === 'string').slice(0, 10_000)
}

/** The identity as it is stored. Throws `denied` with the detail `identity_refused` for a subject that cannot be. */
export function shownIdentity({ kind, issuer, subject, claims }: ProviderAnswer): ShownIdentity {
  // OpenID Connect Core 1.0 §2: at most 255 ASCII characters.
  if (!/^[\x20-\x7e]{1,255}$/.test(subject)) throw identityRefused('the subject of this identity is not valid')
  const names = [claims.preferred_username, claims.name, claims.email, subject]
  const name = names.find((text): text is string => typeof text === 'string' && text !== '') ?? subject
  return { kind, issuer, subject, name: cleanName(name) }
}
