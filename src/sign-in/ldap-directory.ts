/** People in an LDAP directory: found by a search, and proved by a bind with their password (RFC 4513 §5.1.3). */
import type { Client, Entry, Filter } from 'ldapts'
import { GatewayError } from '../base/errors.js'
import { inDirectory, type DirectoryEgress, type DirectoryServer } from './ldap-connection.js'

export interface DirectorySettings extends DirectoryServer {
  /** The entry that searches bind as. An empty DN or password: searches are anonymous. */
  readonly manager: { readonly dn: string; readonly password: string }
  /** The DN below which people are searched. */
  readonly base: string
  /** Finds the entry of a name, which replaces each `%s` (RFC 4515). */
  readonly filter: string
  /** The attribute with the name of the account. */
  readonly nameAttribute: string
  /** The DN below which groups are searched by their members; empty: those of the attribute `memberOf` are used. */
  readonly groupBase: string
  /** Whether a group counts if it is reached through others: by a matching rule of Active Directory. */
  readonly nestedGroups: boolean
}

/** The person that a search looks for: by a name, or by the subject of an identity. */
export type Wanted =
  { readonly name: string; readonly subject?: never } | { readonly subject: string; readonly name?: never }

export interface Person {
  /** Identifies the entry for ever, also when it is renamed: an attribute and its value, as `entryUUID=VALUE`. */
  readonly subject: string
  /** The name of the account there; empty if the entry has none. */
  readonly name: string
  /** The DNs of its groups, as `plainDn` writes them. */
  readonly groups: ReadonlySet<string>
}

/** The reason for which the directory refuses a right password. */
export type PersonRefusal = 'account_disabled' | 'account_expired'

/** Attributes that never change while an entry exists: RFC 4530, Active Directory, 389 Directory Server. */
const stableIds = ['entryUUID', 'objectGUID', 'nsUniqueId'] as const
const states = ['userAccountControl', 'accountExpires', 'nsAccountLock', 'pwdAccountLockedTime'] as const
/** LDAP_MATCHING_RULE_IN_CHAIN. */
const inChain = '1.2.840.113556.1.4.1941'

/**
 * The answers to a bind by which the server refuses the credentials: RFC 4511 §4.1.9, appendix A. After any other
 * answer, nothing was compared.
 */
const refusals = {
  constraintViolation: 19,
  noSuchObject: 32,
  inappropriateAuthentication: 48,
  invalidCredentials: 49,
  unwillingToPerform: 53,
} as const
/** The reasons for which Active Directory refuses a right password, by `data` in the text of its answer. */
const refusalOfData: Readonly<Record<string, PersonRefusal>> = { 533: 'account_disabled', 701: 'account_expired' }

/** A connection, with the library and the settings for the requests on it. */
interface Asking {
  readonly client: Client
  readonly library: typeof import('ldapts')
  readonly settings: DirectorySettings
}

export class LdapDirectory {
  #isReached = false

  constructor(
    private readonly settings: DirectorySettings,
    private readonly egress: DirectoryEgress,
  ) {}

  /** Whether it has answered the one who searches, since it was asked last: what fails then is about what was asked. */
  get isReached(): boolean {
    return this.#isReached
  }

  /**
   * Returns the person that `wanted` leads to, if this is its password; undefined for a wrong password, and if no
   * person or several match. Rejects as `inDirectory` does, and as `guess` does, which is called with the subject of
   * the person before the password is sent. An empty password, which directories take for an anonymous bind, is wrong.
   */
  async prove(
    wanted: Wanted,
    password: string,
    guess: (subject: string | undefined) => Promise<void> = () => Promise.resolve(),
  ): Promise<Person | PersonRefusal | undefined> {
    return this.#ask(async (asking) => {
      const entry = await findEntry(asking, wanted)
      await guess(entry && subjectOf(entry))
      if (entry === undefined || password === '') return undefined
      const proof = await provesPassword(asking, entry.dn, password)
      if (proof !== true) return proof
      // The user may not be allowed to search.
      if (searchesGroups(asking.settings) || memberOfPart(entry) !== undefined) await bindManager(asking)
      return personOf(asking, entry)
    })
  }

  /** The only person who is wanted, without a proof. */
  async find(wanted: Wanted): Promise<Person | undefined> {
    return this.#ask(async (asking) => {
      const entry = await findEntry(asking, wanted)
      return entry && personOf(asking, entry)
    })
  }

  /** The person of an identity, without a proof; undefined if there is none, or its account cannot be used. */
  async lookUp(subject: string): Promise<Person | undefined> {
    return this.#ask(async (asking) => {
      const entry = await findEntry(asking, { subject })
      return entry === undefined || isDisabled(entry) ? undefined : personOf(asking, entry)
    })
  }

  /** Whether the search finds anybody, whatever the name. */
  async findsAnybody(): Promise<boolean> {
    return this.#ask(async (asking) => {
      const { client, settings } = asking
      const filter = namedFilter(asking, '*')
      const { searchEntries } = await client.search(settings.base, { filter, sizeLimit: 1, attributes: ['1.1'] })
      return searchEntries.length > 0
    })
  }

  #ask<T>(ask: (asking: Asking) => Promise<T>): Promise<T> {
    const { settings } = this
    this.#isReached = false
    return inDirectory(settings, this.egress, async (client) => {
      const asking = { client, library: await import('ldapts'), settings }
      if (!(await bindManager(asking))) await askAnything(asking)
      this.#isReached = true
      return ask(asking)
    })
  }
}

/** Binds as the manager. Returns false, and sends no bind, if no manager or no password is set. */
async function bindManager({ client, settings: { manager } }: Asking): Promise<boolean> {
  if (manager.dn === '' || manager.password === '') return false
  await client.bind(manager.dn, manager.password)
  return true
}

/** Resolves when the directory has answered, if only that it says nothing of itself (RFC 4512 §5.1). */
async function askAnything({ client, library: { ResultCodeError } }: Asking): Promise<void> {
  try {
    await client.search('', { scope: 'base', filter: '(objectClass=*)', attributes: ['1.1'] })
  } catch (error) {
    if (!(error instanceof ResultCodeError)) throw error
  }
}

/** True if it is the password of the entry, undefined if not. */
async function provesPassword(
  { client, library: { ResultCodeError } }: Asking,
  dn: string,
  password: string,
): Promise<true | PersonRefusal | undefined> {
  try {
    await client.bind(dn, password)
    return true
  } catch (error) {
    const isNo = error instanceof ResultCodeError && (Object.values(refusals) as number[]).includes(error.code)
    if (!isNo) throw error
    return refusalOfData[/\bdata ([0-9a-f]{3})\b/.exec(error.message)?.[1] ?? '']
  }
}

/** The only entry. References to other servers, which a directory may send too, are not followed. */
async function findEntry(asking: Asking, wanted: Wanted): Promise<Entry | undefined> {
  const { client, settings } = asking
  const { searchEntries } = await client.search(settings.base, {
    filter: filterOf(asking, wanted),
    sizeLimit: 2,
    attributes: [...stableIds, ...states, settings.nameAttribute, searchesGroups(settings) ? 'uid' : 'memberOf'],
    explicitBufferAttributes: ['objectGUID'],
  })
  const [entry, ...others] = searchEntries
  // A bind without a DN is anonymous, whatever the password.
  return others.length === 0 && entry?.dn !== '' ? entry : undefined
}

function filterOf(asking: Asking, wanted: Wanted): Filter {
  const { AndFilter, EqualityFilter } = asking.library
  if (wanted.name !== undefined) return namedFilter(asking, escaped(wanted.name))
  const [attribute = '', value = ''] = wanted.subject.split('=')
  const isGuid = attribute === 'objectGUID'
  const ofSubject = new EqualityFilter({ attribute, value: isGuid ? Buffer.from(value, 'hex') : value })
  return new AndFilter({ filters: [ofSubject, namedFilter(asking, '*')] })
}

/** The filter of the search for a user. `value`: what replaces each `%s`. */
function namedFilter({ library, settings: { filter } }: Asking, value: string): Filter {
  try {
    return library.FilterParser.parseString(filter.replaceAll('%s', () => value))
  } catch (error) {
    throw new GatewayError('invalid', { reason: 'the filter of the search for a user is malformed', cause: error })
  }
}

/** The text as a value of a filter (RFC 4515 §3). */
function escaped(text: string): string {
  return text.replace(/[*()\\\0]/g, (special) => `\\${Buffer.from(special).toString('hex')}`)
}

async function personOf(asking: Asking, entry: Entry): Promise<Person> {
  const subject = subjectOf(entry)
  if (subject === undefined) {
    throw new GatewayError('invalid', { reason: `the directory shows none of ${stableIds.join(', ')}` })
  }
  const name = textsOf(entry, asking.settings.nameAttribute)[0] ?? ''
  const groups = await (searchesGroups(asking.settings) ? searchGroups(asking, entry) : memberOf(asking, entry))
  return { subject, name, groups: new Set(groups.map(plainDn)) }
}

function searchesGroups({ groupBase, nestedGroups }: DirectorySettings): boolean {
  return groupBase !== '' || nestedGroups
}

async function memberOf({ client }: Asking, entry: Entry): Promise<string[]> {
  const groups = textsOf(entry, 'memberOf')
  for (let part = memberOfPart(entry); part !== undefined;) {
    for (const group of part.groups) groups.push(group)
    if (part.next === undefined) break
    const { searchEntries } = await client.search(entry.dn, {
      scope: 'base',
      filter: '(objectClass=*)',
      attributes: [`memberOf;range=${part.next}-*`],
    })
    const [rest] = searchEntries
    part = rest && memberOfPart(rest, part.next)
    if (part === undefined) throw new GatewayError('invalid', { reason: 'the directory does not send all groups' })
  }
  return groups
}

/**
 * A part of the groups, as Active Directory sends them if there are many (MS-ADTS §3.1.1.3.1.3.3): as an attribute
 * `memberOf;range=0-1499`, and the last part as `memberOf;range=1500-*`. `from`: where it begins. `next`: where the
 * following part begins.
 */
function memberOfPart(
  entry: Entry,
  from = 0,
): { readonly groups: readonly string[]; readonly next: number | undefined } | undefined {
  for (const attribute of Object.keys(entry)) {
    const [, first, last = ''] = /^memberOf;range=(\d{1,9})-(\d{1,9}|\*)$/i.exec(attribute) ?? []
    const groups = textsOf(entry, attribute)
    // Attributes that were asked for, and not sent, are empty.
    if (groups.length > 0 && Number(first) === from)
      return { groups, next: last === '*' ? undefined : Number(last) + 1 }
  }
  return undefined
}

async function searchGroups({ client, library, settings }: Asking, entry: Entry): Promise<string[]> {
  const { dn } = entry
  const { EqualityFilter, ExtensibleFilter, OrFilter } = library
  const has = (attribute: string, value: string) => new EqualityFilter({ attribute, value })
  // Groups of POSIX name their members by `uid` (RFC 2307), and by no attribute that people may write themselves.
  const ofUids = textsOf(entry, 'uid').map((uid) => has('memberUid', uid))
  const filters = [has('member', dn), has('uniqueMember', dn), ...ofUids]
  const nested = new ExtensibleFilter({ matchType: 'member', rule: inChain, value: dn })
  const { searchEntries } = await client.search(settings.groupBase || settings.base, {
    filter: settings.nestedGroups ? nested : new OrFilter({ filters }),
    // Without a limit of its own: the library would take what a limit has cut off for complete.
    attributes: ['1.1'],
  })
  return searchEntries.map((group) => group.dn)
}

/** A DN in a form that spellings of one DN share: as far as they differ in case and in spaces between the parts. */
export function plainDn(dn: string): string {
  const parts = dn.split(/(?<!\\)([,=+])/)
  return parts
    .map((part) => part.trim())
    .join('')
    .toLowerCase()
}

function subjectOf(entry: Entry): string | undefined {
  for (const attribute of stableIds) {
    const [value] = valuesOf(entry, attribute)
    if (value === undefined) continue
    const text = attribute === 'objectGUID' ? Buffer.from(value as string).toString('hex') : String(value)
    return `${attribute}=${text}`
  }
  return undefined
}

/** Whether the account is disabled or expired, by what directories tell of it. */
function isDisabled(entry: Entry): boolean {
  const [control, expires, lock, lockedTime] = states.map((state) => textsOf(entry, state)[0] ?? '')
  const accountDisable = 2
  // Intervals of 100 ns since 1601; 0 and the largest number: never.
  const end = Number(expires) / 10_000 - 11_644_473_600_000
  return (
    (Number(control) & accountDisable) !== 0 ||
    (Number(expires) > 0 && end < Date.now()) ||
    lock?.toLowerCase() === 'true' ||
    // Locked for ever (draft-behera-ldap-password-policy §5.3.3).
    lockedTime === '000001010000Z'
  )
}

function textsOf(entry: Entry, attribute: string): string[] {
  return valuesOf(entry, attribute).filter((value) => typeof value === 'string')
}

/** The values of an attribute, whose name a server may spell in another case. */
function valuesOf(entry: Entry, attribute: string): (string | Buffer)[] {
  const name = attribute.toLowerCase()
  const [, values = []] = Object.entries(entry).find(([key]) => key.toLowerCase() === name) ?? []
  return Array.isArray(values) ? values : [values]
}
