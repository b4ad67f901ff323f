/**
 * Explains to admins why a user may or may not do something at a path: the decision in words, its steps, and what else
 * to know. Asks no backend, so that it needs no running daemon.
 */
import type { Accounts } from '../accounts/accounts.js'
import {
  permissionBits,
  permissionName,
  type Permission,
  type Principal,
  type ProtocolFacts,
} from '../accounts/principal.js'
import { toGatewayError, type ErrorDetail } from '../base/errors.js'
import { foldCase, isWithin, type Path } from '../base/path.js'
import type { Right } from '../base/rights.js'
import type { DriverDescription } from '../contract/driver-type.js'
import type { Grant } from '../database/tables/grants.js'
import type { StorageRow } from '../database/tables/storages.js'
import { explainAccess, type ExplainedAccess } from './decisions.js'
import { shownElsewhere } from './denied-elsewhere.js'
import { maxNotes, type Explained, type NamedGrant, type NamedNote, type ToldStep } from './explained.js'
import type { Rule, Rules } from './folder-rules.js'
import type { Grants } from './grants.js'
import type { JudgedStep } from './policy/explanation.js'

export interface ExplainQuestion {
  readonly username: string
  /** A path of the whole tree, in the spelling of the backend. */
  readonly path: Path
  readonly right: Right
  readonly protocol: ProtocolFacts
  /** The address of the client; undefined: any. */
  readonly address?: string | undefined
}

interface Named {
  readonly users: Pick<Accounts['users'], 'get'>
  readonly groups: Pick<Accounts['groups'], 'get'>
}

/** The sources of an explanation. */
export interface ExplainSources {
  readonly accounts: Named & { readonly principals: Pick<Accounts['principals'], 'forExplanation'> }
  readonly rules: Rules
  readonly grants: Grants
  readonly storages: readonly StorageRow[]
  readonly driverTypes: readonly DriverDescription[]
}

/** Throws `not_found` if there is no such user. */
export function explain(sources: ExplainSources, question: ExplainQuestion): Explained {
  const { username, path, right, protocol, address } = question
  const principal = sources.accounts.principals.forExplanation(username, protocol, address)
  const access = explainAccess(sources, principal, right, path)
  const { refusal, decidedBy, steps } = access
  const words = new Words(sources, principal, access, path)
  const facts = [...words.notes(right), ...(address === undefined ? words.networks() : [])]
  return {
    allowed: refusal === undefined,
    error: refusal === undefined ? null : (words.admissionRefusal ?? refusal.code),
    decidedBy: words.step(decidedBy),
    steps: steps.map((step) => ({ ...words.step(step), refused: step.refused })),
    admin: !access.isSubjectToGrants,
    notes: facts.map(({ text }) => text),
    facts,
  }
}

/** The rights that are about a folder with everything in it. */
const wholeFolders: ReadonlySet<Right> = new Set<Right>(['rename', 'move', 'copy', 'remove'])

/** The words about one user and one path. */
class Words {
  constructor(
    private readonly sources: ExplainSources,
    private readonly principal: Principal,
    private readonly access: ExplainedAccess,
    private readonly path: Path,
  ) {}

  step(step: JudgedStep): ToldStep {
    const { kind, cause, right, rule, grants, permissions } = step
    const [grant] = grants
    const subject = grant && (grant.userId === undefined ? `group:${grant.groupId}` : `user:${grant.userId}`)
    const path = kind === 'base' ? this.principal.base : (grant ?? rule)?.path
    return {
      step: step.step,
      kind,
      id: (grant ?? rule)?.id ?? null,
      subject: subject ?? null,
      path: path ?? this.path,
      ...{ cause, right, permissions: bitsOf(permissions) },
      grants: grants.slice(0, maxNotes).map((each) => this.#named(each)),
      groups: (cause === 'permission' ? this.#givers(permissions) : [])
        .slice(0, maxNotes)
        .map((id) => this.#groupName(id)),
      text: this.#text(step),
    }
  }

  /** The reason for which the account cannot be used at all. */
  get admissionRefusal(): ErrorDetail | undefined {
    const { signal } = this.principal
    return signal.aborted ? toGatewayError(signal.reason).detail : undefined
  }

  /** The checks that were left out because no address was given. */
  networks(): readonly NamedNote[] {
    const { userId, username } = this.principal
    const networks = this.sources.accounts.users.get(userId)?.allowFrom ?? []
    if (networks.length === 0) return []
    const text = `no address was given, so it was not asked that ${username} may only come from ${networks.join(', ')}`
    return [note('networks', text, { networks: [...networks] })]
  }

  #text(step: JudgedStep): string {
    const { username, signal, base, protocol } = this.principal
    const { cause, refused, right, grants, rule, permissions } = step
    const needed = permissionNames(permissions)
    const byGrant = this.#grantOf(grants)
    const byRule = rule && ruleInWords(rule)
    switch (cause) {
      case 'credential':
        return refused ? toGatewayError(signal.reason).reason : `the account of ${username} can be used`
      case 'protocol':
        if (needed === '') return `every user may use ${protocol.name}`
        return `${protocol.name} needs ${needed}: ${username} ${refused ? 'lacks that' : 'has that'}`
      case 'base':
        return `${username} sees the folder ${base}${refused ? ', and nothing outside of it' : ''}`
      case 'no_grant':
        return this.#nothingMentions('see', 'the path is seen')
      case 'not_seen':
        return grants.length > 0
          ? `${byGrant} denies see: the path does not exist for ${username}`
          : this.#nothingMentions('see', `${username} sees only what is granted`)
      case 'way':
        if (!refused) return `it is seen as the way to ${grants.length > 0 ? byGrant : 'what is granted'}`
        return `only the way is seen, because ${grants.length > 0 ? `${byGrant} denies see` : 'no grant allows see'}`
      case 'grant':
        return `${byGrant} ${refused ? 'denies' : 'allows'} ${right}`
      case 'granted_only':
        return this.#nothingMentions(right, `${username} may only do what is granted`)
      case 'folder_of_grant':
        return `${byGrant} allows ${right} below its folder; for the folder itself it must be allowed above`
      case 'permission':
        if (needed === '') return this.#nothingMentions(right, 'no permission is needed')
        if (refused) return this.#nothingMentions(right, `${username} lacks the permission ${needed}`)
        return this.#nothingMentions(right, `${username} has the permission ${needed}${this.#originOf(permissions)}`)
      case 'rule_with_write':
        return this.#nothingMentions(right, `${byRule} lets everybody write`)
      case 'hidden':
        return rule && refused ? `${byRule} hides the name` : 'no folder rule hides the name'
      case 'read_users':
        if (rule && refused) return `${byRule} names others who may read`
        return 'no folder rule excludes this reader'
      case 'password':
        if (rule && refused) return `${byRule} requires a password`
        return 'no folder password is required'
      case 'write_users':
        if (rule && refused) return `${byRule} names others who may write`
        return 'no folder rule excludes this writer'
    }
  }

  #nothingMentions(right: Right, consequence: string): string {
    const why = this.access.isSubjectToGrants ? `no grant mentions ${right}` : 'no grant applies to an admin'
    return `${why}: ${consequence}`
  }

  /** The groups by which the user has permissions that are not its own. */
  #originOf(permissions: readonly Permission[]): string {
    const givers = this.#givers(permissions)
    return givers.length === 0
      ? ''
      : ` by ${givers.map((groupId) => nameOfSubject(this.sources.accounts, { groupId })).join(', ')}`
  }

  #givers(permissions: readonly Permission[]): readonly number[] {
    const { users, groups } = this.sources.accounts
    const { userId, membership } = this.principal
    const missing = bitsOf(permissions) & ~(users.get(userId)?.permission ?? 0)
    return membership.groups.filter((id) => ((groups.get(id)?.permission ?? 0) & missing) !== 0)
  }

  #named({ path, userId, groupId }: Grant): NamedGrant {
    const { users } = this.sources.accounts
    if (groupId !== undefined) return { path, user: null, group: this.#groupName(groupId) }
    return { path, user: userId === undefined ? null : (users.get(userId)?.username ?? String(userId)), group: null }
  }

  #groupName(id: number): string {
    return this.sources.accounts.groups.get(id)?.name ?? String(id)
  }

  #grantOf(grants: readonly Grant[]): string {
    return grantsInWords(grants, (grant) => nameOfSubject(this.sources.accounts, grant))
  }

  notes(right: Right): readonly NamedNote[] {
    const { principal, path } = this
    const ofFolder = this.#ofFolder(right)
    if (!this.access.isSubjectToGrants) return ofFolder
    const own = [{ userId: principal.userId }, ...principal.membership.groups.map((groupId) => ({ groupId }))]
    const grants = own.flatMap((subject) => this.sources.grants.of(subject))
    return [
      ...ofFolder,
      ...this.#withoutEffect(grants),
      ...this.#spellings(grants),
      ...this.#elsewhere(grants.filter((grant) => isWithin(grant.path, path) || isWithin(path, grant.path))),
    ]
  }

  /** The differences if there is a folder at the path. No step knows whether there is one. */
  #ofFolder(right: Right): readonly NamedNote[] {
    const { refusal, refusedPathBelow, mayList } = this.access
    if (refusal === undefined) {
      if (refusedPathBelow === undefined || !wholeFolders.has(right)) return []
      const text = `of a folder here ${right} is refused, because the grants at ${refusedPathBelow} do not allow it there`
      return [note('folder_refused', text, { rights: [right], paths: [refusedPathBelow] })]
    }
    if (right !== 'see' || !mayList) return []
    return [note('folder_seen', 'a folder here is seen: the rule that refuses is about files')]
  }

  #withoutEffect(grants: readonly Grant[]): readonly NamedNote[] {
    const { base } = this.principal
    const outside = grants.filter((grant) => !isWithin(base, grant.path) && !isWithin(grant.path, base))
    return outside.slice(0, maxNotes).map((grant) => {
      const text = `${this.#grantOf([grant])} has no effect: it is outside the base folder ${base}`
      return note('outside_base', text, { grants: [this.#named(grant)], paths: [base] })
    })
  }

  #spellings(grants: readonly Grant[]): readonly NamedNote[] {
    const asked = foldCase(this.path)
    const spellings = new Map<Path, Set<Path>>()
    for (const { path } of grants) {
      const folded = foldCase(path)
      if (!isWithin(folded, asked)) continue
      spellings.set(folded, (spellings.get(folded) ?? new Set()).add(path))
    }
    return [...spellings.values()]
      .filter(({ size }) => size > 1)
      .slice(0, maxNotes)
      .map((found) => {
        const paths = [...found]
        const text = `where the storage ignores case, the grants at ${paths.join(' and ')} are of one path`
        return note('spellings', text, { paths })
      })
  }

  #elsewhere(denials: readonly Grant[]): readonly NamedNote[] {
    const { grants, storages, driverTypes } = this.sources
    const { base } = this.principal
    const notes: NamedNote[] = []
    for (const { grant, path, driver, mountPoint } of shownElsewhere(denials, grants, storages, driverTypes)) {
      if (!isWithin(base, path) && !isWithin(path, base)) continue
      const text =
        `${this.#grantOf([grant])} denies ${grant.deny.join(', ')}, and the storage ${mountPoint} (${driver}) shows ` +
        `what is there at ${path} too`
      const values = { rights: [...grant.deny], grants: [this.#named(grant)], paths: [mountPoint, path] }
      notes.push(note('elsewhere', text, values))
      if (notes.length === maxNotes) break
    }
    return notes
  }
}

function note(name: NamedNote['name'], text: string, values: Partial<NamedNote> = {}): NamedNote {
  return { name, rights: [], grants: [], paths: [], networks: [], ...values, text }
}

function bitsOf(permissions: readonly Permission[]): number {
  return permissions.reduce((sum, permission) => sum | permissionBits[permission], 0)
}

/** The grants, the folder rule or the permissions that a step has looked at, in words for admins. */
export function decidingPart({ step, grants, rule, permissions }: JudgedStep, nameOf: NameOfSubject): string {
  if (grants.length > 0) return grantsInWords(grants, nameOf)
  if (rule !== undefined) return ruleInWords(rule)
  return permissions.length > 0 ? `the permission ${permissionNames(permissions)}` : step
}

type NameOfSubject = (grant: Pick<Grant, 'userId' | 'groupId'>) => string

function grantsInWords(grants: readonly Grant[], nameOf: NameOfSubject): string {
  if (grants.length === 0) return 'a grant'
  // Several are spellings of one path.
  const paths = [...new Set(grants.map(({ path }) => path))]
  const ofPath = (at: Path) => {
    const subjects = grants.filter(({ path }) => path === at).map(nameOf)
    return `the grant of ${subjects.slice(0, maxNotes).join(', ')} at ${at}`
  }
  return paths.map(ofPath).join(' and ')
}

function ruleInWords({ path }: Pick<Rule, 'path'>): string {
  return `the folder rule at ${path}`
}

function permissionNames(permissions: readonly Permission[]): string {
  return permissions.map(permissionName).join(', ')
}

/** The name of the user or group of a grant, in words for admins. */
export function nameOfSubject({ users, groups }: Named, { userId, groupId }: Partial<Grant>): string {
  if (groupId !== undefined) return `the group ${groups.get(groupId)?.name ?? groupId}`
  return userId === undefined ? 'nobody' : (users.get(userId)?.username ?? `user ${userId}`)
}
