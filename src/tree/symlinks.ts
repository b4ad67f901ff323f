/**
 * Symlinks on the way of a path, and those that are made or moved. The storage resolves them, and the action is
 * authorized on the real path too: the rules and locks of the symlink's target apply. Paths are of the whole tree.
 */
import type { Principal } from '../accounts/principal.js'
import type { Awaitable } from '../contract/call-options.js'
import { isGatewayError } from '../base/errors.js'
import { isSymlink } from '../contract/entry.js'
import { childOf, isWithin, parentOf, resolvePath, root, within, type Path } from '../base/path.js'
import type { MountedPath } from '../mounts/mounts.js'
import type { Access, Place } from './access.js'
import { symlinkChanged } from './change.js'
import { refuse } from './decisions.js'
import { outsideBase, relativeTarget, symlinkTarget } from './impossible-paths.js'
import type { AccessOptions } from './operation-options.js'
import type { Action } from './policy/one-path.js'

/** Actions on a symlink that apply to its target. All others apply to the symlink itself. */
export const followingActions: ReadonlySet<Action> = new Set<Action>([
  'list',
  'see',
  'read',
  'refresh',
  'write',
  'attributes',
  'lock',
  'properties',
])

/** The rule by which symlinks are followed. */
export interface Following {
  /** Whether a symlink in the last segment is followed too. The default depends on the action. */
  readonly last?: boolean | undefined
  /** Whether the entry is loaded too, if one call of the backend returns both, and no symlink leads elsewhere. */
  readonly entry?: boolean | undefined
}

/**
 * Resolves the symlinks in a place where the action is allowed, and authorizes it on the real path too. Rejects with
 * `denied` if that is outside the principal's base. For `see` and `read`, the target of a symlink in the last segment
 * is authorized, and the returned path still ends with the symlink's own name. Returns at once if no symlink has to be
 * looked for, and throws if the principal does not see the path.
 */
export function followSymlinks(
  access: Access,
  action: Action,
  place: Place,
  options: AccessOptions,
  { last = followingActions.has(action), entry = false }: Following = {},
): Awaitable<Place> {
  access.decisions.assertSeen(action, place, options)
  // Locks do not affect reads.
  if ((isReading(action) || action === 'list') && access.decisions.readsAll) return place
  // The base is a folder to the principal, even if the storage has a symlink there.
  if (place.at === place.principal.accountBase && !last && !entry) return place
  return realPlace(access, action, place, options, { last, entry })
}

/** Whether the principal may do the action at the target of what is at `place`, if that is a symlink. */
export async function mayFollow(
  access: Access,
  action: 'see' | 'read',
  place: Place,
  options: AccessOptions,
): Promise<boolean> {
  try {
    await followSymlinks(access, action, place, options)
    return true
  } catch (error) {
    if (!isGatewayError(error, 'denied', 'hidden', 'not_found', 'password_required', 'throttled')) throw error
    return false
  }
}

/** Whether the action is about what is at the path, which may be a symlink. */
function isReading(action: Action): boolean {
  return action === 'see' || action === 'read'
}

async function realPlace(
  access: Access,
  action: Action,
  place: Place,
  options: AccessOptions,
  { last, entry }: Following,
): Promise<Place> {
  const { at } = place
  const { signal } = options
  if (entry === true) {
    const look = await access.tree.look(at, { signal })
    if (look?.path === at) return { ...place, look }
    if (at === place.principal.accountBase && last !== true) return place
  }
  const resolved = await access.tree.realPath(at, { signal, last })
  if (resolved === at) return place
  const real = await access.tree.canonicalPath(resolved, { signal })
  await authorizeTarget(access, action, place, real, options)
  if (!isReading(action) || last !== true) return { ...place, at: real }
  const symlinkPath = await access.tree.realPath(at, { signal })
  if (symlinkPath !== at && symlinkPath !== real) await authorizeTarget(access, action, place, symlinkPath, options)
  return { ...place, at: symlinkPath }
}

async function authorizeTarget(
  access: Access,
  action: Action,
  place: Place,
  real: Path,
  options: AccessOptions,
): Promise<void> {
  const { base } = place.principal
  const realBase = isWithin(base, real) ? base : await realBaseOf(access, place.principal)
  access.decisions.authorizeTarget(action, place, real, realBase, options, 'a symlink that leads out of your folder')
}

/** The base with its symlinks resolved, unless the user has chosen them, and they lead out of the account's base. */
async function realBaseOf({ tree }: Access, { base, accountBase }: Principal): Promise<Path> {
  const real = await tree.realPath(base, { last: true })
  if (base === accountBase || isWithin(accountBase, real)) return real
  return isWithin(await tree.realPath(accountBase, { last: true }), real) ? real : base
}

/** Rejects with `busy` if a symlink has replaced a segment of a place that was followed for the same action. */
export async function assertNoSymlink(
  access: Access,
  action: Action,
  place: Place,
  options: AccessOptions,
  following: Following = {},
): Promise<void> {
  if ((await followSymlinks(access, action, place, options, following)).at !== place.at) throw symlinkChanged()
}

/** The target of a symlink, like `path` in the principal's own words. Rejects with `denied` if outside its base. */
export async function readSymlink(access: Access, path: Path, options: AccessOptions): Promise<string> {
  const { at, principal } = await access.resolveAndAuthorize('read', path, options, { last: false })
  const { storage, inner } = access.dependencies.mounts.find(at)
  const target = await storage.readSymlink(inner, { signal: options.signal })
  if (!target.startsWith('/')) return target
  // The backend stores the target as a path of the storage, and the client sees a path of the tree.
  const leadsTo = storage.treePath(resolvePath(root, target))
  refuse(outsideBase(principal.base, leadsTo))
  return within(principal.base, leadsTo) ?? root
}

/**
 * Authorizes reading the target of a new symlink at `place`. Rejects with `denied` if it is outside the storage
 * mounted at `mountPoint` or outside the principal's base, and with the verdict if the principal must not read it.
 * Returns its path within the storage.
 */
export async function authorizeSymlink(
  access: Access,
  mountPoint: Path,
  place: Place,
  target: string,
  options: AccessOptions,
): Promise<Path> {
  const isRelative = !target.startsWith('/')
  if (isRelative) refuse(relativeTarget(target))
  const leadsTo = isRelative
    ? await access.spelled(resolvePath(parentOf(place.at), target), options)
    : (await access.resolve(resolvePath(root, target), options)).at
  refuse(symlinkTarget(mountPoint, leadsTo))
  access.decisions.authorizeTarget('read', place, leadsTo, place.principal.base, options)
  return within(mountPoint, leadsTo) ?? root
}

/**
 * Authorizes a symlink that moves to the path `at`, as `authorizeSymlink` does: a relative one has another target in
 * another folder.
 */
export async function authorizeMovedSymlink(
  access: Access,
  mountPoint: Path,
  at: Path,
  target: string,
  options: AccessOptions,
): Promise<void> {
  if (!target.startsWith('/')) await authorizeSymlink(access, mountPoint, access.place(at), target, options)
}

/**
 * Like `authorizeMovedSymlink`, for all symlinks in a folder that moves to `target` in its storage. Not needed for a
 * principal who may read the whole storage.
 */
export async function authorizeMovedSymlinks(
  access: Access,
  { storage, inner }: MountedPath,
  target: Path,
  options: AccessOptions,
): Promise<void> {
  const { mountPoint } = storage
  if (access.decisions.movesAnySymlink(access.place(mountPoint))) return
  for await (const page of storage.pages(inner, { signal: options.signal })) {
    for (const member of page) {
      const [from, to] = [childOf(inner, member.name), childOf(target, member.name)]
      if (isSymlink(member)) {
        const text = await storage.readSymlink(from, { signal: options.signal })
        await authorizeMovedSymlink(access, mountPoint, to, text, options)
      } else if (member.kind === 'folder') {
        await authorizeMovedSymlinks(access, { storage, inner: from }, to, options)
      }
    }
  }
}
