/** Accounts of people whom a provider or directory has proved: found by their identities, or made for them. */
import { createHash } from 'node:crypto'
import { isGatewayError } from '../base/errors.js'
import type { Audit } from '../audit/audit.js'
import { ownActor } from '../database/audit-rows.js'
import type { Log } from '../base/log.js'
import { cleanPath, foldCase, type Path } from '../base/path.js'
import type { Accounts } from './accounts.js'
import { identityRefused } from './errors.js'
import type { IdentityRow, ShownIdentity } from './identities.js'
import { allPermissions } from './principal.js'
import { applyProvidedGroups, type ProvidedGroups } from './provided-groups.js'
import { spellingOf } from './spelling.js'

/** A person, as a provider or directory has just described it. */
export interface ProvidedPerson {
  readonly identity: ShownIdentity
  /** The names of its groups there. Undefined: the provider does not say; it is taken to be in none that lets it in. */
  readonly groups: readonly string[] | undefined
}

/** The settings on groups of the provider or directory. */
export interface ProvidedRules extends ProvidedGroups {
  /** The names of groups there: who is in none of them may not enter. Empty: everybody may. */
  readonly required: readonly string[]
}

export interface NewAccount {
  /** The names that it can have, the best first. */
  readonly names: Iterable<string>
  /** The base folder of a new account, in which `{username}` and `{sub}` each become one segment, or a part of one. */
  readonly folder: string
  /** Permission bits. */
  readonly permission: number
}

interface ProvidedAccountsOptions {
  readonly accounts: Pick<Accounts, 'ended' | 'groups' | 'identities' | 'reload' | 'users'>
  readonly log: Pick<Log, 'info'>
  readonly audit: Pick<Audit, 'record'>
}

export class ProvidedAccounts {
  constructor(private readonly options: ProvidedAccountsOptions) {}

  /**
   * The identity of somebody who has just signed in there, whose account has the groups of there now. `first` is called
   * for an identity that no account has; resolves to undefined if there is still none. Who may not enter any more has
   * ended there: rejects with the detail `identity_refused`.
   */
  async signedIn(
    { identity: shown, groups }: ProvidedPerson,
    rules: ProvidedRules,
    first: () => Promise<unknown>,
  ): Promise<IdentityRow | undefined> {
    const { identities } = this.options.accounts
    const find = () => identities.find(shown.issuer, shown.subject)
    const known = find()
    if (!mayEnter(groups, rules)) {
      if (known !== undefined) await this.ended(known, rules)
      throw identityRefused('sign-in here is for members of a group at the provider of which you are none')
    }
    if (known === undefined) await first()
    const identity = find()
    if (identity === undefined) return undefined
    await identities.signedIn(identity)
    await this.#provideGroups(identity, groups, rules)
    return identity
  }

  /**
   * Records what a look-up without a sign-in has found. `person`: undefined if no such person exists. Returns whether
   * the person may enter.
   */
  async lookedUp(identity: IdentityRow, person: ProvidedPerson | undefined, rules: ProvidedRules): Promise<boolean> {
    if (person === undefined || !mayEnter(person.groups, rules)) {
      await this.ended(identity, rules)
      return false
    }
    // If this rejects, the look-up stays due, and is made again.
    await this.#provideGroups(identity, person.groups, rules)
    await this.options.accounts.identities.lookedUp(identity, true)
    return true
  }

  /** Ends what an account has by an identity whose person is gone there, or may not enter. */
  async ended(identity: IdentityRow, groups: ProvidedGroups): Promise<void> {
    await this.options.accounts.ended(identity)
    await this.#provideGroups(identity, undefined, groups)
  }

  /**
   * Makes the account of an identity that none has. Resolves to false if every name is taken: also by another spelling
   * of it, because the folders of both could be one.
   */
  async create(shown: ShownIdentity, { names, folder, permission }: NewAccount): Promise<boolean> {
    const { accounts, log } = this.options
    const { users, identities } = accounts
    const { kind, issuer, subject } = shown
    const exists = () => identities.find(issuer, subject) !== undefined
    const folded = (name: string) => foldCase(spellingOf(name))
    const taken = new Set(users.list().map(({ username }) => folded(username)))
    for (const username of names) {
      if (taken.has(folded(username))) continue
      try {
        const { id } = await users.create({
          username,
          basePath: folderOf(folder, { username, sub: subject }),
          role: 'general',
          permission: permission & allPermissions,
          disabled: false,
          ssoId: kind === 'ldap' ? '' : subject,
          identity: identities.newRow(shown, true),
        })
        log.info({ account: username, issuer }, 'an account was created at its first sign-in')
        await this.record(id, ['username', 'identity'])
        return true
      } catch (error) {
        if (!isGatewayError(error, 'exists')) throw error
        // A concurrent sign-in of the same identity may have created it, also on another node.
        await accounts.reload()
        if (exists()) return true
      }
    }
    return exists()
  }

  /**
   * Records in the audit that a sign-in or a look-up has changed these fields of an account. The actor is the gateway
   * itself, because no user asked for it.
   */
  async record(userId: number, fields: readonly string[]): Promise<void> {
    const subject = this.options.accounts.users.get(userId)?.username
    await this.options.audit.record({ kind: 'admin.user', actor: { name: ownActor }, subject, fields, result: 'done' })
  }

  async #provideGroups(
    identity: IdentityRow,
    groups: ProvidedPerson['groups'],
    provided: ProvidedGroups,
  ): Promise<void> {
    const { userId } = identity
    const isAdmin = () => this.options.accounts.groups.of(userId).isAdmin
    const wasAdmin = isAdmin()
    try {
      await applyProvidedGroups(this.options.accounts, identity, groups, provided)
    } finally {
      if (isAdmin() !== wasAdmin) await this.record(userId, [wasAdmin ? 'is admin no more' : 'becomes admin'])
    }
  }
}

function mayEnter(groups: ProvidedPerson['groups'], { required }: ProvidedRules): boolean {
  return required.length === 0 || required.some((name) => groups?.includes(name) === true)
}

/** Characters, and bytes, of a name that is made of a text from elsewhere: a number or a digest is added to it. */
const maxName = { characters: 100, bytes: 200 }

/** The text as a name of a user, or as one segment of a path. */
export function cleanName(text: string): string {
  const clean = text.normalize('NFC').replace(/[\p{Cc}\p{Cf}\p{Cs}\ufffd:/\\]/gu, '_')
  const bytes = Buffer.alloc(maxName.bytes)
  const { written } = new TextEncoder().encodeInto(Array.from(clean).slice(0, maxName.characters).join(''), bytes)
  const cut = bytes.toString('utf8', 0, written).trim()
  return /^\.{1,2}$/.test(cut) ? '_' : cut
}

/** The base folder of a new account. A value that has to be changed is told from others by a digest. */
function folderOf(template: string, values: Readonly<Record<'username' | 'sub', string>>): Path {
  const segment = (value: string): string => {
    const clean = cleanName(value)
    return clean === value ? clean : `${clean}-${createHash('sha256').update(value).digest('hex').slice(0, 16)}`
  }
  return cleanPath(template.replace(/\{(username|sub)\}/g, (_, key: 'username' | 'sub') => segment(values[key])) || '/')
}
