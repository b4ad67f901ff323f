/**
 * Changes of one entry that are one call of its backend: new folders, symlinks and hard links, removals, attributes.
 * Paths are the principal's own.
 */
import type { Attributes } from '../contract/capabilities.js'
import { isRealFolder, isSymlink } from '../contract/entry.js'
import { GatewayError } from '../base/errors.js'
import type { Path } from '../base/path.js'
import type { Access } from './access.js'
import type { OnePath, Target, TwoPaths } from './change.js'
import { removeEntry } from './follow-up.js'
import { makeFolder, makeMissingParents } from './missing-folders.js'
import type { ChangeOptions } from './operation-options.js'
import { hasPreconditions } from './preconditions.js'
import type { EventDraft } from './recording.js'
import { authorizeSymlink, mayFollow } from './symlinks.js'
import { assertAllVisible, authorizeBelow } from './whole-trees.js'

export interface FolderOptions extends ChangeOptions {
  /** Creates missing parents too, and an existing folder is not an error. */
  readonly parents?: boolean | undefined
}

export interface RemovalOptions extends ChangeOptions {
  /** 'tree' (the default) removes any entry, 'file' any but a folder, 'folder' an empty folder. */
  readonly what?: 'tree' | 'file' | 'folder' | undefined
}

export async function mkdir(access: Access, path: Path, options: FolderOptions, event: EventDraft): Promise<void> {
  const making = access.change<OnePath>({
    ...access.resolving('mkdir', path, options),
    require: async (target) => {
      const { entry } = target
      // A symlink whose target the principal does not see is no folder to it.
      const isFolder =
        entry?.kind === 'folder' &&
        (!isSymlink(entry) || (await mayFollow(access, 'see', access.place(target.at), options)))
      if (options.parents !== true || !isFolder) target.assertFree()
    },
    touches: ({ at, entry }) => (entry ? [] : [{ path: at, membership: true }]),
  })
  if (options.parents === true) {
    const [{ at, entry, chosen: preferred }] = await making.check()
    if (entry) {
      event.changesNothing = true
      return
    }
    await makeMissingParents(access, at, { ...options, preferred })
  }
  await making.perform(async (target) => {
    const { entry, storage, inner, signal } = target
    isAbout(event, target, 'folder')
    if (entry) event.changesNothing = true
    else await makeFolder(() => storage.mkdir(inner, { signal }), options)
  })
}

/** A symlink is removed, not its target. */
export function remove(access: Access, path: Path, options: RemovalOptions, event: EventDraft): Promise<void> {
  const { what = 'tree' } = options
  return access.untilRevoked(options, (signal) => {
    const removal = access.change<OnePath>({
      ...access.resolving('remove', path, { ...options, signal }),
      tree: what === 'tree',
      load: 'symlink',
      require: ({ at, existing }) => {
        access.decisions.assertMovable(at, 'mount_removed')
        if (what === 'file' && isRealFolder(existing)) throw new GatewayError('is_folder')
        if (what === 'folder' && !isRealFolder(existing)) throw new GatewayError('not_folder')
        if (isRealFolder(existing)) authorizeBelow(access, 'remove', at, options)
      },
      touches: ({ at, existing }) => [{ path: at, tree: isRealFolder(existing), membership: true }],
    })
    return removal.perform(async (target) => {
      const { storage, inner, existing, signal } = target
      isAbout(event, target, isRealFolder(existing) ? 'folder' : existing.kind)
      if (existing.kind === 'file') event.size = existing.size
      if (isRealFolder(existing) && what === 'tree') await assertAllVisible(access, storage, inner, signal)
      await removeEntry(access.dependencies, { storage, inner }, what === 'tree', { signal })
    })
  })
}

export function setAttributes(access: Access, path: Path, to: Attributes, options: ChangeOptions): Promise<void> {
  const setting = access.change<OnePath>({
    ...access.resolving('attributes', path, options),
    resolve: async () => [await access.resolveAndAuthorize('attributes', path, options)],
    load: hasPreconditions(options) ? 'target' : 'nothing',
    touches: ({ at }) => [{ path: at }],
  })
  return setting.perform((target) => setAt(access, target, to))
}

/**
 * Sets the attributes of a symlink itself. Rejects as `setAttributes` does, and with `invalid` for a mode: a symlink
 * has none.
 */
export function setOwnAttributes(access: Access, path: Path, to: Attributes, options: ChangeOptions): Promise<void> {
  const setting = access.change<OnePath>({
    ...access.resolving('attributes', path, options, false),
    load: 'symlink',
    require: ({ existing }) => {
      if (!isSymlink(existing) || to.mode === undefined) return
      throw new GatewayError('invalid', { reason: 'a symlink has no mode of its own' })
    },
    touches: ({ at }) => [{ path: at }],
  })
  return setting.perform(async (target) => {
    const { storage, inner, existing, signal } = target
    if (!isSymlink(existing)) await setAt(access, target, to)
    else if (to.modified !== undefined) await storage.setSymlinkTime(inner, to.modified, { signal })
  })
}

export function symlink(
  access: Access,
  path: Path,
  target: string,
  options: ChangeOptions,
  event: EventDraft,
): Promise<void> {
  const making = access.change<OnePath>({
    ...access.resolving('write', path, options, false),
    named: undefined,
    require: (made) => made.assertFree(),
    touches: ({ at }) => [{ path: at, membership: true }],
  })
  return making.perform(async (made) => {
    const { at, storage, inner, signal } = made
    isAbout(event, made, 'symlink')
    // The client sees the target as a path of the tree, and the backend as a path of the storage.
    const leadsTo = await authorizeSymlink(access, storage.mountPoint, access.place(at), target, options)
    await storage.symlink(inner, target.startsWith('/') ? leadsTo : target, { signal })
  })
}

export function hardLink(
  access: Access,
  from: Path,
  to: Path,
  options: ChangeOptions,
  event: EventDraft,
): Promise<void> {
  const linking = access.change<TwoPaths>({
    options,
    resolve: async () => {
      // By the new name the file can be written in place, so the right to write it by the old one is required.
      const source = await access.resolveAndAuthorize('write', from, options)
      access.decisions.authorize('read', source.at, options)
      access.decisions.authorize('copy', source.at, options)
      return [source, await access.resolveAndAuthorize('write', to, options, { last: false })]
    },
    require: (source, made) => {
      made.assertFree()
      if (source.storage === made.storage) return
      throw new GatewayError('unsupported', { reason: 'a hard link stays within its storage' })
    },
    touches: (source, made) => [{ path: source.at }, { path: made.at, membership: true }],
  })
  return linking.perform(async (source, made) => {
    isAbout(event, made, 'file')
    event.target = source.at
    await made.storage.hardLink(source.inner, made.inner, { signal: made.signal })
  })
}

/** The event of a change of what is at the target. */
function isAbout(event: EventDraft, { at, storage }: Target, entry: EventDraft['entry']): void {
  event.path = at
  event.entry = entry
  event.storage = storage.mountPoint
}

async function setAt(access: Access, target: Target, to: Attributes): Promise<void> {
  const { at, storage, inner, signal } = target
  await storage.setAttributes(inner, await access.settableAttributes(at, to), { signal })
}
