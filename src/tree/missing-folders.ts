/** Makes folders that are missing: those that a path requires, and the base folders of users, which are remembered. */
import type { Principal } from '../accounts/principal.js'
import { GatewayError } from '../base/errors.js'
import {
  checkName,
  findDeepest,
  isWithin,
  nameOf,
  parentOf,
  root,
  segmentsOf,
  topNames,
  type Path,
} from '../base/path.js'
import type { Storage } from '../storage/storage.js'
import type { Access } from './access.js'
import { Change, gatewayAuthority, type Authority, type ChangeDependencies } from './change.js'
import type { ChangeOptions } from './operation-options.js'
import type { TreeDependencies } from './dependencies.js'
import { assertNoSymlink } from './symlinks.js'

/**
 * Makes `folder`, a path of the whole tree, and the missing folders above it. Each is authorized and locked like any
 * other change. Resolves to the number of folders that did not exist. Rejects with `not_folder` if a file is in the
 * way. `preferred`: the storage to use if it is one of several at the same mount point.
 */
async function makeMissingFolders(
  dependencies: ChangeDependencies,
  authority: Authority,
  folder: Path,
  { preferred, ...options }: ChangeOptions & { readonly preferred?: Storage | undefined },
  authorize: (folder: Path) => Promise<void> = async () => undefined,
): Promise<number> {
  const { signal } = options
  const nearest = await findDeepest(folder, (path) =>
    dependencies.mountedTree.entryOrUndefined(path, { signal, preferred }),
  )
  if (nearest && nearest.found.kind !== 'folder') throw new GatewayError('not_folder')
  const missing: Path[] = []
  for (let path = folder; path !== (nearest?.at ?? root); path = parentOf(path)) missing.unshift(path)
  for (const path of missing) {
    const making = new Change(dependencies, authority, {
      options,
      preferred: () => preferred,
      resolve: async () => {
        await authorize(path)
        return [{ at: path }] as const
      },
      require: ({ entry }) => {
        if (!entry) checkName(nameOf(path))
      },
      touches: ({ entry }) => (entry ? [] : [{ path, membership: true }]),
    })
    await making.perform(async ({ entry, storage, inner, signal }) => {
      // Another request may have made it meanwhile.
      if (!entry) await makeFolder(() => storage.mkdir(inner, { signal }), options)
    })
  }
  return missing.length
}

/** Calls `make`, or has it called by whoever wants to know of each folder that is made. */
export function makeFolder(make: () => Promise<void>, { makingFolder }: ChangeOptions): Promise<void> {
  return makingFolder === undefined ? make() : makingFolder(make)
}

/**
 * Makes the missing folders above `at`, if possible on the storage `preferred`. The principal needs the right to make
 * each of them.
 */
export async function makeMissingParents(
  access: Access,
  at: Path,
  {
    signal,
    password,
    lockTokens,
    makingFolder,
    preferred,
  }: ChangeOptions & { readonly preferred: Storage | undefined },
): Promise<void> {
  const options = { signal, password, lockTokens, makingFolder, preferred }
  const authorize = async (folder: Path) => {
    access.decisions.authorize('mkdir', folder, options)
    await assertNoSymlink(access, 'mkdir', access.place(folder), options)
  }
  await makeMissingFolders(access.dependencies, access, parentOf(at), options, authorize)
}

/**
 * A missing base folder is created when its user first accesses the tree by any protocol, if the user may create
 * something in it. For other users it is missing, like any other folder.
 */
export class BaseFolders {
  /** Base folders that existed when they were last used. */
  readonly #known = new Set<Path>()

  constructor(private readonly dependencies: ChangeDependencies & Pick<TreeDependencies, 'events' | 'log'>) {
    dependencies.events.on((event) => {
      const isGone = event.kind === 'removed' || event.kind === 'changed elsewhere'
      const gone = event.kind === 'moved' ? event.from : isGone ? event.path : undefined
      if (gone !== undefined) for (const base of this.#known) if (isWithin(gone, base)) this.#known.delete(base)
    })
  }

  /**
   * Makes a base folder that is missing, other than the root. Never rejects: if it could not be made, the operation on
   * it reports why. `mayFill`: whether the principal may create something in it.
   */
  ensure(principal: Principal, mayFill: () => boolean): Promise<void> | undefined {
    const { base } = principal
    return this.#known.has(base) ? undefined : this.#ensure(principal, mayFill)
  }

  /** To be called if the folder is missing: another program may have removed it. */
  forget(base: Path): void {
    this.#known.delete(base)
  }

  async #ensure({ base, username }: Principal, mayFill: () => boolean): Promise<void> {
    try {
      await this.dependencies.mounts.whenStarted(base)
      const exists = (await this.dependencies.mountedTree.entryOrUndefined(base, {})) !== undefined
      if (!exists && (!mayFill() || topNames.has(segmentsOf(base)[0] ?? ''))) return
      if (!exists) {
        await makeMissingFolders(this.dependencies, gatewayAuthority, base, {})
        this.dependencies.log.info({ user: username, path: base }, 'created a base folder')
      }
      this.#known.add(base)
    } catch (error) {
      this.dependencies.log.debug({ err: error, path: base }, 'could not create a missing base folder')
    }
  }
}
