/**
 * The tree of a generated world, which is asked what the model is asked. Its backend has the entries and symlinks of
 * the world and refuses every change, so that one tree answers any number of questions: a change that is allowed comes
 * as far as the first call that would make it.
 */
import { Readable } from 'node:stream'
import { protocols } from '../../protocols/index.js'
import {
  noMembership,
  permissionBits,
  Principal,
  type Membership,
  type Permission,
} from '../../src/accounts/principal.js'
import { GatewayError, isGatewayError, type ErrorCode } from '../../src/base/errors.js'
import { nameOf, parentOf, root, within, type Path } from '../../src/base/path.js'
import type { Driver } from '../../src/contract/driver.js'
import type { Entry } from '../../src/contract/entry.js'
import { Grants } from '../../src/tree/grants.js'
import { Rules } from '../../src/tree/folder-rules.js'
import { Decisions, explainAccess, needsSignature, type ExplainedAccess } from '../../src/tree/decisions.js'
import { VirtualFs, type TreeDependencies } from '../../src/tree/virtual-fs.js'
import { grantRow, ruleRow } from '../database/store-rows.js'
import { newTree, type Test } from '../tree/tree-fixture.js'
import { ask, realPath } from './asking.js'
import type { Question, User, World } from './model.js'

/** What a change that is allowed is answered with. */
const reached = 'no_space'

/** All codes with which a decision refuses. */
const refusals: readonly ErrorCode[] = [
  'denied',
  'hidden',
  'not_found',
  'parent_missing',
  'password_required',
  'unauthenticated',
]

/** A backend of fixed entries. */
class FrozenDriver implements Driver {
  #entries: ReadonlyMap<Path, Entry> = new Map()
  #symlinks: World['symlinks'] = []

  show({ entries, symlinks }: World): void {
    const all = [{ path: root, kind: 'folder' as const }, ...entries]
    const modified = new Date(0)
    this.#entries = new Map(all.map(({ path, kind }) => [path, { name: nameOf(path), kind, size: 0, modified }]))
    this.#symlinks = symlinks
  }

  #symlinkAt(path: Path): Entry | undefined {
    const symlink = this.#symlinks.find((each) => each.path === path)
    return symlink && { name: nameOf(path), kind: 'symlink', isSymlink: true, size: 0, modified: new Date(0) }
  }

  async stat(path: Path, options: { readonly ofSymlink?: boolean | undefined } = {}): Promise<Entry> {
    const symlink = options.ofSymlink === true ? this.#symlinkAt(path) : undefined
    if (symlink) return symlink
    const real = await this.realPath(path, { last: true })
    const entry = this.#entries.get(real)
    if (!entry) throw new GatewayError('not_found')
    return { ...entry, name: nameOf(path), ...(real !== path && this.#symlinkAt(path) && { isSymlink: true }) }
  }

  async *pages(path: Path): AsyncGenerator<readonly Entry[]> {
    const folder = await this.realPath(path, { last: true })
    const paths = [...this.#entries.keys(), ...this.#symlinks.map((each) => each.path)]
    const members = paths.filter((each) => each !== root && parentOf(each) === folder)
    yield await Promise.all(members.map((member) => this.stat(member)))
  }

  async realPath(path: Path, { last = false }: { readonly last?: boolean | undefined } = {}): Promise<Path> {
    return realPath({ symlinks: this.#symlinks }, path, last)
  }

  async readSymlink(path: Path): Promise<string> {
    const symlink = this.#symlinks.find((each) => each.path === path)
    if (!symlink) throw new GatewayError('invalid')
    return symlink.target
  }

  async read(): Promise<Readable> {
    return Readable.from([])
  }

  readonly write = changeIsReached
  readonly mkdir = changeIsReached
  readonly remove = changeIsReached
  readonly removeTree = changeIsReached
  readonly move = changeIsReached
  readonly copy = changeIsReached
  readonly open = changeIsReached
  readonly setAttributes = changeIsReached
  readonly setSymlinkTime = changeIsReached
  readonly symlink = changeIsReached
}

async function changeIsReached(): Promise<never> {
  throw new GatewayError(reached)
}

/** `object`, in which each method of these names, or of all other names, rejects as a change that is reached. */
function frozen<T extends object>(object: T, isFrozen: (name: string) => boolean): T {
  return new Proxy(object, {
    get: (target, key) => {
      if (isFrozen(String(key))) return changeIsReached
      const value: unknown = Reflect.get(target, key)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

export interface FrozenTree {
  /** From now on, the tree is that of this world. */
  show(world: World): Promise<void>
  /** The code of the answer; undefined if it is allowed. Rejects with any other error than a refusal. */
  answer(question: Question): Promise<ErrorCode | undefined>
  /** The names in a folder, sorted, as the one who asks sees them; undefined if it is refused. */
  names(question: Question): Promise<readonly string[] | undefined>
  /** Why the action is allowed or refused at the path by its name, and the code with which it is refused. */
  explained(question: Question): { readonly access: ExplainedAccess; readonly code: ErrorCode | undefined }
  needsSignature(path: Path): boolean
}

export async function frozenTree(t: Test): Promise<FrozenTree> {
  const driver = new FrozenDriver()
  const tree = await newTree(t, { '/': { driverOf: async () => driver, cacheExpiration: 0 } })
  let world: World = { users: [], groups: [], grants: [], rules: [], entries: [], symlinks: [] }
  let memberships: ReadonlyMap<number, Membership> = new Map()
  let dependencies: TreeDependencies = {
    ...tree.dependencies,
    intents: frozen(tree.dependencies.intents, (name) => name !== 'continues'),
    locks: frozen(tree.dependencies.locks, (name) => name === 'grant'),
    store: { ...tree.store, properties: frozen(tree.store.properties, () => true) },
  }
  const userOf = (id: number): User => {
    const user = world.users.find((each) => each.id === id)
    if (!user) throw new Error(`no user ${id}`)
    return user
  }
  const as = (question: Question) =>
    new VirtualFs(dependencies, principalOf(userOf(question.user), memberships, question))
  const answerOf = async (work: Promise<unknown>) => {
    try {
      await work
      return undefined
    } catch (error) {
      if (isGatewayError(error, ...refusals)) return error.code
      if (isGatewayError(error, reached, 'is_folder')) return undefined
      throw error
    }
  }
  return {
    async show(shown) {
      driver.show(shown)
      const hasOthers = shown.grants !== world.grants || shown.rules !== world.rules
      world = shown
      if (!hasOthers) return
      memberships = membershipsOf(world)
      const rules = await Rules.load({ rules: { all: async () => ruleRows(world) } } as unknown as typeof tree.store)
      const grants = await Grants.load({
        grants: { all: async () => grantRows(world) },
      } as unknown as typeof tree.store)
      dependencies = { ...dependencies, rules, grants }
    },
    answer: (question) => answerOf((async () => ask(as(question), world, question))()),
    async names(question) {
      let names: readonly string[] | undefined
      const tree = as(question)
      const path = within(tree.principal.base, question.path) ?? root
      const list = async () => {
        const { entries } = await tree.list(path, { password: question.password })
        names = entries.map(({ name }) => name).sort()
      }
      await answerOf(list())
      return names
    },
    explained(question) {
      const { user, action, path } = question
      const principal = principalOf(userOf(user), memberships, question)
      const refusal = new Decisions(dependencies, principal).refusalOf(action, path, {})
      return { access: explainAccess(dependencies, principal, action, path), code: refusal?.code }
    },
    needsSignature: (path) => needsSignature(dependencies, path),
  }
}

function bitsOf(permissions: readonly Permission[]): number {
  return permissions.reduce((sum, each) => sum | permissionBits[each], 0)
}

function membershipsOf({ users, groups }: World): ReadonlyMap<number, Membership> {
  return new Map(
    users.map(({ id }) => {
      const own = groups.filter(({ members }) => members.includes(id))
      const permissions = own.reduce((sum, group) => sum | bitsOf(group.permissions), 0)
      const isAdmin = own.some(({ admin }) => admin)
      return [
        id,
        { groups: own.map((each) => each.id), permissions, isAdmin, requiresTwoStep: false, requiresProvider: false },
      ]
    }),
  )
}

function ruleRows({ rules }: World) {
  return rules.map(({ hide = [], readUsers = [], writeUsers = [], ...rule }, index) => ({
    ...ruleRow({ ...rule, hide: hide.join('\n'), readUsers: [...readUsers], writeUsers: [...writeUsers] }),
    id: index + 1,
  }))
}

function grantRows({ grants }: World) {
  return grants.map(({ id, subject, path, allow, deny }) => {
    const ids = 'user' in subject ? { userId: subject.user } : { groupId: subject.group }
    return { ...grantRow({ ...ids, path, allow: [...allow], deny: [...deny] }), id }
  })
}

/** Who asks. What ends a credential aborts its signal. A signed URL is a credential of nobody. */
function principalOf(user: User, memberships: ReadonlyMap<number, Membership>, question: Question): Principal {
  const { time, network, revoked, readOnly, signed: onlyPath } = question
  const protocol = protocols.find(({ name }) => name === (onlyPath === undefined ? question.protocol : 'http'))
  if (!protocol) throw new Error(`no protocol ${question.protocol}`)
  const { signal } = new AbortController()
  if (onlyPath !== undefined) {
    const nobody = { userId: 0, username: '', role: 'guest', permissions: 0, base: root } as const
    return new Principal({ ...nobody, protocol, onlyPath, signal })
  }
  const isPast = user.expires !== undefined && time >= user.expires
  const isElsewhere = network !== undefined && user.allowFrom.length > 0 && !user.allowFrom.includes(network)
  const hasEnded = revoked === true || isPast || isElsewhere
  const principal = new Principal({
    userId: user.id,
    username: `user ${user.id}`,
    role: user.role,
    permissions: bitsOf(user.permissions),
    groups: { of: (id) => memberships.get(id) ?? noMembership },
    grantedOnly: user.grantedOnly,
    ...basesOf(user),
    protocol,
    readOnly: readOnly === true,
    signal: hasEnded ? AbortSignal.abort() : signal,
  })
  return question.offlineDownload === true && !hasEnded ? principal.withDownloadPermissions() : principal
}

function basesOf({ base, share }: User) {
  if (share === undefined) return { base }
  return {
    base: share.root,
    folder: within(base, share.root),
    share: { id: 'share', pseudonym: 'p', mode: share.mode },
  }
}
