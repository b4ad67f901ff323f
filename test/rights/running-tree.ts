/**
 * A daemon whose users, groups, grants, folder rules and files are those of a generated world. The files are in a local
 * folder, and are made again for each question: what is permitted is done.
 */
import { mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import type { SFTPWrapper } from 'ssh2'
import { permissionBits, type Permission } from '../../src/accounts/principal.js'
import { isWithin, reservedPrefix, root, type Path } from '../../src/base/path.js'
import { checkGrants, type Subject } from '../../src/tree/grants.js'
import { ruleRow } from '../database/store-rows.js'
import { startGateway, type Addresses, type RunningGateway } from '../gateway.js'
import { openSftp } from '../stories/protocols.js'
import { realPath } from './asking.js'
import type { Grant, User, World } from './model.js'

const password = 'a password'
const guestName = 'guest'

/** What clients need to be a user. */
export interface Visitor {
  readonly where: Addresses
  /** A signature of a path of the whole tree. */
  readonly sign: (path: Path) => string
  /** The header `Authorization` for the API; empty for the guest. */
  readonly token: () => Promise<string>
  /** The header `Authorization` for WebDAV; undefined for the guest. */
  readonly basic: (readOnly: boolean) => string | undefined
  /** A session; undefined if the user may not use SFTP. */
  readonly sftp: (readOnly: boolean) => Promise<SFTPWrapper | undefined>
}

export interface RunningTree {
  /** Makes the users, groups, grants and folder rules those of this world. */
  show(world: World): Promise<void>
  /** Makes the files those of this world. */
  fill(world: World): Promise<void>
  /** Removes what is at a path, or else makes a file there. */
  flip(world: World, path: Path): Promise<void>
  /** Takes back what a change that was permitted has done to locks, and with `moved` to folder rules and grants. */
  restore(moved: boolean): Promise<void>
  visitor(user: number): Visitor
}

/** The world without what no request can ask for: other networks and times, and grants that cannot be stored. */
export function storable(world: World): World {
  const users = world.users.map((user) => ({ ...user, expires: undefined, allowFrom: [] }))
  return { ...world, users, grants: world.grants.filter(isStorable) }
}

function isStorable(grant: Grant): boolean {
  try {
    checkGrants([grant])
    return true
  } catch {
    return false
  }
}

export async function runningTree(t: Parameters<typeof startGateway>[0]): Promise<RunningTree> {
  const running = await startGateway(t)
  const { gateway, dataFolder } = running
  const { accounts, grants, rules, locks, store, supervisor } = gateway
  const files = join(dataFolder, 'files')
  // The test changes the files behind the daemon.
  const [row] = await store.storages.all()
  if (row) await supervisor.apply(await store.storages.update(row.id, { cacheExpiration: 0 }))
  const appPasswords = await makeAccounts(running)
  let world: World = { users: [], groups: [], grants: [], rules: [], entries: [], symlinks: [] }
  /** The sign-ins of the users of this world. */
  let signedIn = new Map<string, Promise<unknown>>()
  let connections: { end: () => void }[] = []
  t.teardown(() => connections.forEach((each) => each.end()))
  const once = async <Result>(key: string, make: () => Promise<Result>): Promise<Result> => {
    const known = signedIn.get(key) ?? make()
    signedIn.set(key, known)
    return (await known) as Result
  }
  const storeGrants = async () => {
    const subjects: readonly Subject[] = [
      ...world.users.map(({ id }) => ({ userId: id })),
      ...world.groups.map(({ id }) => ({ groupId: id })),
    ]
    for (const subject of subjects) await grants.replace(subject, grantsOf(world, subject))
  }
  const storeRules = async () => {
    for (const { id } of rules.list()) await rules.delete(id)
    for (const { hide = [], readUsers = [], writeUsers = [], ...rule } of world.rules) {
      const lists = { hide: hide.join('\n'), readUsers: [...readUsers], writeUsers: [...writeUsers] }
      await rules.create(ruleRow({ ...rule, ...lists }))
    }
  }
  const onDisk = (path: Path) => join(files, path)
  return {
    async show(shown) {
      world = shown
      connections.forEach((each) => each.end())
      connections = []
      signedIn = new Map()
      for (const { id, permissions, base, grantedOnly } of world.users) {
        await accounts.users.update(id, { permission: bitsOf(permissions), basePath: base, grantedOnly })
      }
      for (const { id, permissions, admin, members } of world.groups) {
        await accounts.groups.update(id, { permission: bitsOf(permissions), admin, members })
      }
      await storeGrants()
      await storeRules()
    },
    async fill({ entries, symlinks }) {
      const names = (await readdir(files)).filter((name) => !name.startsWith(reservedPrefix))
      for (const name of names) await rm(join(files, name), { recursive: true })
      for (const { path, kind } of [...entries].sort((one, other) => one.path.length - other.path.length)) {
        await (kind === 'folder' ? mkdir(onDisk(path)) : writeFile(onDisk(path), path))
      }
      for (const { path, target } of symlinks) await symlink(relative(dirname(path), target), onDisk(path))
    },
    async flip(filled, path) {
      const real = realPath(filled, path, true)
      const exists = filled.entries.some((each) => each.path === real)
      await (exists ? rm(onDisk(real), { recursive: true }) : writeFile(onDisk(real), 'not there'))
    },
    async restore(moved) {
      for (const { token } of locks.list()) await locks.break(token)
      if (!moved) return
      await storeGrants()
      await storeRules()
    },
    visitor: (id) => {
      const username = accounts.users.get(id)?.username ?? ''
      const isGuest = username === guestName
      const secretOf = (readOnly: boolean) => (readOnly ? (appPasswords.get(id) ?? '') : password)
      return {
        where: running,
        sign: (path) => gateway.signedUrls.sign(path),
        token: () => (isGuest ? Promise.resolve('') : once(`token ${id}`, () => signIn(running, username))),
        basic: (readOnly) =>
          isGuest ? undefined : `Basic ${Buffer.from(`${username}:${secretOf(readOnly)}`).toString('base64')}`,
        sftp: (readOnly) =>
          once(`sftp ${id} ${readOnly}`, async () => {
            const user = world.users.find((each) => each.id === id)
            try {
              // The guest has no password: one would be a failed sign-in, and five of them lock out the address.
              const who = isGuest ? { username } : { username, password: secretOf(readOnly) }
              const { client, sftp } = await openSftp(running, who)
              connections.push(client)
              return sftp
            } catch (error) {
              if (user && !mayUseSftp(world, user)) return undefined
              throw error
            }
          }),
      }
    },
  }
}

/** Makes the accounts and groups with the ids of the model. Resolves to a read-only app password for each user. */
async function makeAccounts({ gateway }: RunningGateway): Promise<ReadonlyMap<number, string>> {
  const { users, groups, appPasswords } = gateway.accounts
  const made = { password, basePath: root, role: 'general', permission: 0, disabled: false, ssoId: '' } as const
  for (const name of ['three', 'four', 'five']) await users.create({ ...made, username: name })
  await users.update(1, { password })
  await users.update(2, { disabled: false })
  for (const name of ['one', 'two', 'three']) {
    await groups.create({ name, description: '', permission: 0, admin: false, members: [] })
  }
  const roles = users.list().map(({ id, role }) => `${id} ${role}`)
  const expected = ['1 admin', '2 guest', '3 general', '4 general', '5 general']
  if (String(roles) !== String(expected)) throw new Error(`the users are ${String(roles)}`)
  const secrets = new Map<number, string>()
  for (const { id, role } of users.list()) {
    if (role === 'guest') continue
    const added = await appPasswords.add(id, { name: 'looks', protocols: ['webdav', 'sftp'], readOnly: true })
    secrets.set(id, added.password)
  }
  return secrets
}

async function signIn({ url }: Addresses, username: string): Promise<string> {
  const response = await fetch(`${url}/api/auth/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ username, password }),
  })
  const { data, message } = (await response.json()) as { data: { token: string } | null; message: string }
  if (data === null) throw new Error(`sign-in of ${username}: ${message}`)
  return data.token
}

function grantsOf({ grants }: World, subject: Subject): readonly Grant[] {
  return grants.filter((grant) =>
    'userId' in subject
      ? 'user' in grant.subject && grant.subject.user === subject.userId
      : 'group' in grant.subject && grant.subject.group === subject.groupId,
  )
}

function mayUseSftp({ groups }: World, { id, permissions }: User): boolean {
  const ofGroups = groups.filter(({ members }) => members.includes(id)).flatMap((group) => group.permissions)
  return [...permissions, ...ofGroups].includes('sftpRead')
}

function bitsOf(permissions: readonly Permission[]): number {
  return permissions.reduce((sum, each) => sum | permissionBits[each], 0)
}

/** Whether removing what is at the path would remove the base folder of the user. */
export function isAboveBase({ users }: World, user: number, path: Path): boolean {
  const base = users.find(({ id }) => id === user)?.base ?? root
  return isWithin(path, base)
}
