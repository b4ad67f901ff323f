/** The access rules and groups of File Browser Quantum. Nothing is read here. */
import { z } from 'zod'
import { GatewayError, toGatewayError } from '../../base/errors.js'
import { cleanPath, selfAndAncestors, type Path } from '../../base/path.js'
import { textOf, type ForeignRow } from '../../database/foreign-sqlite.js'
import { parseJson } from './json.js'

/** The largest number of names in a list, and of groups that a rule names. */
const limits = { names: 100_000, groups: 1000 }

/** Names are stored as a list, or as the keys of an object. */
const names = z
  .union([z.array(z.unknown()).max(limits.names).pipe(z.array(z.string())), z.record(z.string(), z.unknown())])
  .nullish()
  .transform((found) => new Set(Array.isArray(found) ? found : Object.keys(found ?? {})))

export class QuantumGroups {
  /** The members by the name of the group; undefined for a group that cannot be read. */
  readonly #members = new Map<string, ReadonlySet<string> | undefined>()

  constructor(rows: readonly ForeignRow[]) {
    for (const row of rows) this.#members.set(textOf(row.name), readMembers(row))
  }

  /** Throws `invalid` for a group that cannot be read. Nobody is in a group that does not exist. */
  membersOf(group: string): ReadonlySet<string> {
    const members = this.#members.has(group) ? this.#members.get(group) : new Set<string>()
    if (members) return members
    throw new GatewayError('invalid', { reason: `the members of the group ${group.slice(0, 200)} cannot be read` })
  }
}

function readMembers(row: ForeignRow): ReadonlySet<string> | undefined {
  try {
    return parseJson(names, textOf(row.members), 'its members are not JSON', 'its members have another form')
  } catch {
    return undefined
  }
}

const fewGroups = names.refine((groups) => groups.size <= limits.groups, { error: `more than ${limits.groups} groups` })
const nameSets = z.strictObject({ users: names, groups: fewGroups })

/** Fields have names in lower case, or those of the program's own types. */
const ruleData = z.preprocess(
  lowerCased,
  z.strictObject({
    denyall: z.boolean().default(false),
    deny: z.preprocess(lowerCased, nameSets).optional(),
    allow: z.preprocess(lowerCased, nameSets).optional(),
  }),
)

type NameSets = z.infer<typeof nameSets>
type AccessRule = z.infer<typeof ruleData>

function lowerCased(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value ?? undefined
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name.toLowerCase(), field as unknown]))
}

/** The rules of one source. The nearest one that names the user decides. */
export class SourceRules {
  readonly #byPath = new Map<Path, AccessRule>()
  /** Why the rules cannot be taken; undefined if they can. */
  readonly fault: string | undefined

  constructor(
    rows: readonly ForeignRow[],
    private readonly groups: QuantumGroups,
  ) {
    try {
      for (const row of rows) this.#add(textOf(row.path), textOf(row.rule_data))
    } catch (error) {
      this.fault = toGatewayError(error).reason
    }
  }

  #add(text: string, data: string): void {
    const path = cleanPath(text)
    const shown = text.slice(0, 200)
    if (!text.startsWith('/') || this.#byPath.has(path)) {
      throw new GatewayError('invalid', { reason: `a rule for ${shown} is not one for a whole path of its own` })
    }
    const rule = parseJson(
      ruleData,
      data,
      `the rule for ${shown} is not JSON`,
      `the rule for ${shown} has another form`,
    )
    for (const { groups } of [rule.deny, rule.allow].filter((each) => each !== undefined)) {
      for (const group of groups) this.groups.membersOf(group)
    }
    this.#byPath.set(path, rule)
  }

  get paths(): readonly Path[] {
    return [...this.#byPath.keys()]
  }

  /** Whether the user may see a path of the source. `otherwise`: where no rule says anything. */
  permit(username: string, path: Path, otherwise: boolean): boolean {
    let isDeniedToAll = false
    for (const above of selfAndAncestors(path)) {
      const rule = this.#byPath.get(above)
      if (rule === undefined) continue
      if (this.#names(rule.deny, username)) return false
      if (this.#names(rule.allow, username)) return true
      isDeniedToAll ||= rule.denyall
    }
    return otherwise && !isDeniedToAll
  }

  #names(sets: NameSets | undefined, username: string): boolean {
    if (sets === undefined) return false
    return sets.users.has(username) || [...sets.groups].some((group) => this.groups.membersOf(group).has(username))
  }
}
