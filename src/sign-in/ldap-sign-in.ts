/**
 * Accounts of people in an LDAP directory: signs them in by their password there, and ends the access of people whom
 * the directory does not have any more (docs/decisions/0048).
 */
import type { Accounts } from '../accounts/accounts.js'
import type { Audit } from '../audit/audit.js'
import { notAdmitted } from '../accounts/errors.js'
import { FairQueue } from '../accounts/fair-queue.js'
import type { IdentityRow } from '../accounts/identities.js'
import type { PasswordDirectory } from '../accounts/password-directory.js'
import { cleanName, ProvidedAccounts, type ProvidedPerson, type ProvidedRules } from '../accounts/provided-accounts.js'
import { nameFault, type UserRow } from '../accounts/users.js'
import { GatewayError, isGatewayError } from '../base/errors.js'
import type { Log } from '../base/log.js'
import { parseUrl } from '../net/web-address.js'
import type { Settings } from '../settings/settings.js'
import { groupMap } from '../settings/sign-in-settings.js'
import type { DirectoryEgress } from './ldap-connection.js'
import { LdapDirectory, plainDn, type DirectorySettings, type Person } from './ldap-directory.js'

interface LdapSignInOptions {
  readonly accounts: Pick<Accounts, 'ended' | 'groups' | 'identities' | 'reload' | 'users'>
  readonly settings: Pick<Settings, 'bool' | 'get' | 'number'>
  readonly egress: DirectoryEgress
  readonly log: Pick<Log, 'info' | 'warn'>
  readonly audit: Pick<Audit, 'record'>
  /** The time in milliseconds since 1970. */
  readonly now?: () => number
}

/**
 * The reason for which the directory could not be asked. `isReached`: the directory answered, but refused the request.
 */
interface Failure {
  readonly failure: GatewayError
  readonly isReached: boolean
}

/** Maximum number of connections to the directory at once. Others wait. */
const maxConnections = 4
/** Milliseconds for which a directory that did not answer is not asked. Then one sign-in asks it. */
const pause = 10_000
/** Milliseconds between look-ups of one person, and between two rounds of them. */
const [lookUpInterval, roundInterval] = [24 * 3600_000, 3600_000]

export class LdapSignIn implements PasswordDirectory {
  readonly refusalTime = 1000
  /** The numbers of requests that the directory has answered, has refused, and has not answered. */
  readonly counts = { answered: 0, refused: 0, silent: 0 }
  readonly #queue = new FairQueue(undefined, maxConnections)
  readonly #provided: ProvidedAccounts
  /** The server that did not answer, and until when it is not asked, in milliseconds of `performance.now()`. */
  #silent: { readonly server: string; readonly until: number } | undefined
  #timer: NodeJS.Timeout | undefined
  /** The round of look-ups that runs. */
  #round: Promise<void> | undefined
  #isClosed = false

  constructor(private readonly options: LdapSignInOptions) {
    this.#provided = new ProvidedAccounts(options)
  }

  /** Whether the settings name a directory. */
  get isOn(): boolean {
    const { settings } = this.options
    return settings.bool('ldap_login_enabled') && settings.get('ldap_server') !== ''
  }

  async check(
    ...[name, password, requester, guess]: Parameters<PasswordDirectory['check']>
  ): Promise<UserRow | undefined> {
    const user = this.options.accounts.users.byName(name)
    const identity = user && this.#identityOf(user)
    // The directory is asked for every name, so that the time and a failure tell nothing of the accounts here. Its word
    // counts for nobody who has an account of another kind.
    const isOther = user !== undefined && identity === undefined
    const wanted = identity ? { subject: identity.subject } : { name }
    const proved = await this.#queue.run(requester, () =>
      this.#answered((directory) =>
        isOther
          ? directory
              .find(wanted)
              .then(() => guess(undefined))
              .then(nobody)
          : directory.prove(wanted, password, guess),
      ),
    )
    if (proved === undefined) return undefined
    if (typeof proved === 'string') {
      if (identity !== undefined) await this.#provided.ended(identity, this.#rules)
      throw notAdmitted(proved)
    }
    return this.#accountOf(proved, name)
  }

  /**
   * Links the account to the person of this name; undefined if the directory has not exactly one. Rejects with `exists`
   * if the person is linked to any account, and with `unavailable`.
   */
  async link(userId: number, name: string): Promise<IdentityRow | undefined> {
    const person = await this.#answered((directory) => directory.find({ name }))
    if (person === undefined) return undefined
    return this.options.accounts.identities.link(userId, this.#shown(person, name).identity)
  }

  /** Looks up each hour who was not confirmed for a day. */
  start(): void {
    this.#timer = setInterval(() => {
      this.#round ??= this.lookUp().finally(() => (this.#round = undefined))
    }, roundInterval).unref()
  }

  /** Stops the rounds. Resolves when the look-up that is running has ended. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    this.#isClosed = true
    await this.#round
  }

  /**
   * Looks up in the directory, without passwords, the people who were not confirmed for a day. If a person is missing
   * there, or may not enter, its sessions end, and its app passwords and keys are refused until a look-up or a sign-in
   * confirms it again. Does not reject.
   */
  async lookUp(): Promise<void> {
    const { accounts, settings, log, now = Date.now } = this.options
    let failed = 0
    let reason: string | undefined
    for (const { id } of accounts.identities.list('ldap')) {
      // The settings may have changed meanwhile, and another process may have looked up this person already.
      const row = accounts.identities.get(id)
      const isDue = row?.issuer === this.#issuer && now() - row.checked.getTime() >= lookUpInterval
      if (!isDue || !this.isOn || this.#isClosed) continue
      // Each has a connection, and so its limits: one whose answer is slow or too large stops no others.
      const asked = await this.#ask((directory) => directory.lookUp(row.subject))
      // If the result cannot be stored, the person is looked up again in the next round.
      if ('result' in asked) {
        await this.#confirm(row, asked.result).catch((error: unknown) => {
          const account = accounts.users.get(row.userId)?.username
          log.warn({ account, err: error }, 'LDAP: what a look-up has found cannot be stored yet')
        })
      } else {
        failed++
        reason = asked.failure.reason
        if (!asked.isReached) break
      }
    }
    const server = settings.get('ldap_server')
    if (failed > 0) log.warn({ server, failed, reason }, 'LDAP: not everybody could be looked up')
  }

  /** Records the result of a look-up. `person`: undefined if no such person exists. */
  async #confirm(row: IdentityRow, person: Person | undefined): Promise<void> {
    const { accounts, log } = this.options
    if (await this.#provided.lookedUp(row, person && this.#shown(person, ''), this.#rules)) return
    const account = accounts.users.get(row.userId)?.username
    log.warn({ account }, 'LDAP: the directory has this user no more, or does not let it in')
  }

  /** The account of a person who was proved, with the groups of the directory; undefined if it cannot have one. */
  async #accountOf(person: Person, typedName: string): Promise<UserRow | undefined> {
    const shown = this.#shown(person, typedName)
    const identity = await this.#provided.signedIn(shown, this.#rules, () =>
      this.#create(shown, person.name || typedName),
    )
    return identity && this.options.accounts.users.get(identity.userId)
  }

  /** Creates an account, unless its name is taken: whoever has it must not lose it to the directory. */
  async #create({ identity }: ProvidedPerson, name: string): Promise<void> {
    const { settings, log } = this.options
    const isMade = await this.#provided.create(identity, {
      names: nameFault(name) === undefined ? [name] : [],
      folder: settings.get('ldap_default_dir'),
      permission: settings.number('ldap_default_permission'),
    })
    if (!isMade) log.warn({ account: name }, 'LDAP: no account was made, because its name is taken or not possible')
  }

  #shown({ subject, name, groups }: Person, typedName: string): ProvidedPerson {
    const shownName = cleanName(name || typedName)
    const identity = { kind: 'ldap', issuer: this.#issuer, subject, name: shownName } as const
    return { identity, groups: [...groups] }
  }

  get #rules(): ProvidedRules {
    const { settings } = this.options
    const dns = (key: string) => [plainDn(settings.get(key))].filter((dn) => dn !== '')
    const map = Object.entries(groupMap(settings.get('ldap_group_map')))
    return {
      required: dns('ldap_required_group_dn'),
      map: Object.fromEntries(map.map(([dn, name]) => [plainDn(dn), name])),
      admins: dns('ldap_admin_group_dn'),
    }
  }

  #identityOf({ id }: UserRow): IdentityRow | undefined {
    return this.options.accounts.identities.of(id).find(({ issuer }) => issuer === this.#issuer)
  }

  /** The issuer of identities: the domain of the directory, or its base, so that its servers can change. */
  get #issuer(): string {
    const base = plainDn(this.options.settings.get('ldap_user_search_base'))
    return `ldap:${/(?:^|,)(dc=.*)$/.exec(base)?.[1] ?? base}`
  }

  /** Asks the directory. Rejects with `unavailable` if it cannot be asked, and why is in the log. */
  async #answered<T>(ask: (directory: LdapDirectory) => Promise<T>): Promise<T> {
    const { settings, log } = this.options
    const server = settings.get('ldap_server')
    const isSilent = this.#silent?.server === server
    const silence = () => ({ server, until: performance.now() + pause })
    if (isSilent && performance.now() < (this.#silent?.until ?? 0)) throw unanswered()
    // Others do not ask while this one waits.
    if (isSilent) this.#silent = silence()
    const asked = await this.#ask(ask)
    if ('result' in asked) {
      this.#silent = undefined
      return asked.result
    }
    const { failure, isReached } = asked
    // A directory that answers, but not this, is asked for others: somebody may have chosen a name that takes long.
    this.#silent = isReached || failure.code === 'invalid' ? undefined : silence()
    log.warn({ server, reason: failure.reason }, 'LDAP: the directory cannot be asked')
    throw unanswered(failure)
  }

  /** Asks the directory, and counts the outcome. */
  async #ask<T>(ask: (directory: LdapDirectory) => Promise<T>): Promise<{ readonly result: T } | Failure> {
    const { settings, egress } = this.options
    let directory: LdapDirectory | undefined
    try {
      directory = new LdapDirectory(directorySettings(settings), egress)
      const result = await ask(directory)
      this.counts.answered++
      return { result }
    } catch (error) {
      if (!isGatewayError(error, 'unavailable', 'timeout', 'invalid')) {
        // A guess that was refused, or another failure here: the directory has answered.
        if (directory?.isReached === true) this.#silent = undefined
        throw error
      }
      this.counts[error.code === 'invalid' ? 'refused' : 'silent']++
      return { failure: error, isReached: directory?.isReached === true }
    }
  }
}

function unanswered(cause?: unknown): GatewayError {
  return new GatewayError('unavailable', { op: 'sign in', detail: 'directory_silent', retryAfter: pause / 1000, cause })
}

const nobody = () => undefined

/** Throws `invalid` if the address of the server cannot be read. */
export function directorySettings(settings: Pick<Settings, 'bool' | 'get'>): DirectorySettings {
  const url = parseUrl(settings.get('ldap_server'))
  if (url === undefined) throw new GatewayError('invalid', { reason: 'the address of the server is malformed' })
  return {
    url,
    startTls: settings.bool('ldap_start_tls'),
    verifiesCertificate: !settings.bool('ldap_skip_tls_verify'),
    caFile: settings.get('ldap_ca_file'),
    manager: { dn: settings.get('ldap_manager_dn'), password: settings.get('ldap_manager_password') },
    base: settings.get('ldap_user_search_base'),
    filter: settings.get('ldap_user_search_filter'),
    nameAttribute: settings.get('ldap_username_attribute'),
    groupBase: settings.get('ldap_group_search_base'),
    nestedGroups: settings.bool('ldap_nested_groups'),
  }
}
