/** The accounts of those who sign in at a provider: linked, created, and with the groups that the provider names. */
import type { Accounts } from '../accounts/accounts.js'
import type { IdentityRow, ShownIdentity } from '../accounts/identities.js'
import { allPermissions } from '../accounts/principal.js'
import { applyProvidedGroups, namesIn } from '../accounts/provided-groups.js'
import { nameFault, type UserRow } from '../accounts/users.js'
import { GatewayError, isGatewayError } from '../base/errors.js'
import type { Log } from '../base/log.js'
import { cleanPath } from '../base/path.js'
import { groupMap } from '../settings/sign-in-settings.js'
import { claimAt } from './claims.js'
import type { ProviderAnswer } from './provider.js'
import type { ProviderFacts, SsoSettings } from './provider-facts.js'

interface ProviderAccountsOptions {
  readonly accounts: Pick<Accounts, 'groups' | 'identities' | 'reload' | 'users'>
  readonly settings: SsoSettings
  readonly log: Pick<Log, 'info' | 'warn'>
}

/** Names that are tried for a new account: with a number after the first one. */
const maxNames = 100
/** Characters of the name of a new account, without the number. */
const maxName = 100

export class ProviderAccounts {
  constructor(private readonly options: ProviderAccountsOptions) {}

  /**
   * The identity and its user, with the groups that the provider names now. Links the identity, or creates the user, if
   * the settings say so. Rejects with the details `identity_unknown` and `identity_refused`. Who is in none of the
   * required groups any more has ended at the provider.
   */
  async signedIn(
    facts: ProviderFacts,
    answer: ProviderAnswer,
  ): Promise<{ readonly identity: IdentityRow; readonly user: UserRow }> {
    const { accounts, settings } = this.options
    const values = this.#groupsOf(facts, answer)
    const required = namesIn(settings.get('sso_required_groups'))
    const mayEnter = required.length === 0 || required.some((name) => values.includes(name))
    const known = accounts.identities.find(answer.issuer, answer.subject)
    const identity = known ?? (mayEnter ? await this.#firstTime(facts, answer) : undefined)
    if (identity !== undefined) {
      if (mayEnter) await accounts.identities.signedIn(identity)
      else await accounts.identities.lookedUp(identity, false)
      const isMapped = known === undefined || settings.bool('sso_update_on_login')
      const map = groupMap(isMapped ? settings.get('sso_group_map') : '')
      const admins = namesIn(settings.get('sso_admin_groups'))
      await applyProvidedGroups(accounts, identity.userId, values, { map, admins })
    }
    if (identity === undefined || !mayEnter) {
      throw refused('sign-in here is for members of a group at the provider of which you are none')
    }
    const user = accounts.users.get(identity.userId)
    if (user === undefined) throw new GatewayError('denied', { op: 'sign in', detail: 'identity_unknown' })
    return { identity, user }
  }

  /** Links the identity to a user who is signed in. Rejects with `identity_refused` if another one has it. */
  async link(userId: number, shown: ShownIdentity): Promise<void> {
    const { accounts, log } = this.options
    if (accounts.identities.find(shown.issuer, shown.subject)?.userId === userId) return
    try {
      await accounts.identities.link(userId, shown)
    } catch (error) {
      if (!isGatewayError(error, 'exists')) throw error
      throw refused('this identity is linked to another account')
    }
    await accounts.users.update(userId, { ssoId: shown.subject })
    log.info({ userId, issuer: shown.issuer }, 'an identity was linked')
  }

  /**
   * Unlinks one identity of the user, or all of providers. Rejects with `not_found`, and with the detail
   * `identity_refused` for that with which the account was created: only its provider can say whether it still exists.
   */
  async unlink(userId: number, id?: number): Promise<void> {
    const { accounts } = this.options
    const ofProviders = accounts.identities.of(userId).filter(({ kind }) => kind !== 'ldap')
    const ids = id === undefined ? ofProviders.map((row) => row.id) : [id]
    if (accounts.identities.of(userId).some((row) => row.provisioned && ids.includes(row.id))) {
      throw refused('the account was created with this identity, which cannot be unlinked')
    }
    for (const each of ids) await accounts.identities.unlink(userId, each)
    const isLast = ofProviders.every((row) => ids.includes(row.id))
    if (isLast && accounts.users.get(userId)?.ssoId !== '') await accounts.users.update(userId, { ssoId: '' })
  }

  /** The groups of the user at the provider. Without the claim, it is in none. */
  #groupsOf({ groupsClaim }: ProviderFacts, { claims }: ProviderAnswer): readonly string[] {
    const value = claimAt(claims, groupsClaim)
    if (typeof value === 'string') return [value]
    return Array.isArray(value) ? value.filter((each): each is string => typeof each === 'string').slice(0, 10_000) : []
  }

  async #firstTime(facts: ProviderFacts, answer: ProviderAnswer): Promise<IdentityRow> {
    const { accounts, settings, log } = this.options
    const former = this.#formerUser(facts, answer) ?? this.#userByEmail(answer)
    if (former !== undefined) {
      await this.link(former.id, shownIdentity(answer))
      log.warn({ account: former.username, issuer: answer.issuer }, 'an identity was linked at its first sign-in')
    } else if (settings.bool('sso_auto_register')) {
      await this.#create(answer)
    }
    const identity = accounts.identities.find(answer.issuer, answer.subject)
    if (identity === undefined) throw new GatewayError('denied', { op: 'sign in', detail: 'identity_unknown' })
    return identity
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

  async #create(answer: ProviderAnswer): Promise<void> {
    const { accounts, settings, log } = this.options
    const { users, identities } = accounts
    const name = this.#newName(answer)
    const shown = shownIdentity(answer)
    for (let number = 1; number <= maxNames; number++) {
      const username = number === 1 ? name : `${name}-${number}`
      if (users.byName(username) !== undefined) continue
      try {
        await users.create({
          username,
          basePath: baseFolder(settings.get('sso_default_dir'), { username, sub: answer.subject }),
          role: 'general',
          permission: settings.number('sso_default_permission') & allPermissions,
          disabled: false,
          ssoId: shown.subject,
          identity: identities.newRow(shown, true),
        })
        log.info({ account: username, issuer: answer.issuer }, 'an account was created at its first sign-in')
        return
      } catch (error) {
        if (!isGatewayError(error, 'exists')) throw error
        // A concurrent sign-in of the same identity may have created it, also on another node.
        await accounts.reload()
        if (identities.find(shown.issuer, shown.subject) !== undefined) return
      }
    }
    throw refused('an account cannot be created: too many have this name')
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

/** The text as a name of a user, or as one segment of a path. */
function cleanName(text: string): string {
  const characters = Array.from(text.normalize('NFC').replace(/[\p{Cc}\p{Cf}\p{Cs}\ufffd:/\\]/gu, '_'))
  const cut = characters.slice(0, maxName).join('').trim()
  return /^\.{1,2}$/.test(cut) ? '_' : cut
}

/** The folder of a new account: `{username}` and `{sub}` each become one segment, or a part of one. */
function baseFolder(template: string, values: Readonly<Record<'username' | 'sub', string>>): string {
  return cleanPath(
    template.replace(/\{(username|sub)\}/g, (_, key: 'username' | 'sub') => cleanName(values[key])) || '/',
  )
}

/** The identity as it is stored. Throws `denied` with the detail `identity_refused` for a subject that cannot be. */
export function shownIdentity({ kind, issuer, subject, claims }: ProviderAnswer): ShownIdentity {
  // OpenID Connect Core 1.0 §2: at most 255 ASCII characters.
  if (!/^[\x20-\x7e]{1,255}$/.test(subject)) throw refused('the subject of this identity is not valid')
  const names = [claims.preferred_username, claims.name, claims.email, subject]
  const name = names.find((text): text is string => typeof text === 'string' && text !== '') ?? subject
  return { kind, issuer, subject, name: cleanName(name) }
}

function refused(reason: string): GatewayError {
  return new GatewayError('denied', { op: 'sign in', detail: 'identity_refused', reason })
}
