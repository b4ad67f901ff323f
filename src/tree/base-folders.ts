/**
 * The base folders of users. A missing base folder is created when its user first accesses the tree by any protocol, if
 * the user may create something in it. For other users it is missing, like any other folder.
 */
import type { Principal } from '../accounts/principal.js'
import { isWithin, root, type Path } from '../contract/path.js'
import { MountedTree } from '../storage/mounted-tree.js'
import { judgeMembers } from './authorizer.js'
import type { TreeDependencies } from './dependencies.js'
import { makeMissingFolders } from './missing-folders.js'
import { gatewayAuthority, Operations } from './operation.js'

export class BaseFolders {
  /** Base folders that existed when they were last used. */
  readonly #known = new Set<Path>()
  readonly #tree: MountedTree
  readonly #operations: Operations

  constructor(
    private readonly dependencies: Pick<
      TreeDependencies,
      'mounts' | 'supervisor' | 'rules' | 'locks' | 'pathLocks' | 'events' | 'log'
    >,
  ) {
    this.#tree = new MountedTree(dependencies.mounts, dependencies.log)
    this.#operations = new Operations(dependencies, gatewayAuthority, this.#tree)
    dependencies.events.on((event) => {
      const isGone = event.kind === 'removed' || event.kind === 'changed elsewhere'
      const gone = event.kind === 'moved' ? event.from : isGone ? event.path : undefined
      if (gone !== undefined) for (const base of this.#known) if (isWithin(gone, base)) this.#known.delete(base)
    })
  }

  /** Never rejects: if the folder could not be created, the operation on it reports why. */
  ensure(principal: Principal): Promise<void> | undefined {
    const { base } = principal
    return base === root || this.#known.has(base) ? undefined : this.#ensure(principal)
  }

  /** To be called if the folder is missing: another program may have removed it. */
  forget(base: Path): void {
    this.#known.delete(base)
  }

  async #ensure(principal: Principal): Promise<void> {
    const { base } = principal
    try {
      await this.dependencies.supervisor.whenStarted(base)
      const exists = (await this.#tree.entryOrUndefined(base, {})) !== undefined
      if (!exists && !this.#mayFill(principal)) return
      if (!exists) {
        await makeMissingFolders(this.#tree, this.#operations, base, {})
        this.dependencies.log.info({ user: principal.username, path: base }, 'created a base folder')
      }
      this.#known.add(base)
    } catch (error) {
      this.dependencies.log.debug({ err: error, path: base }, 'could not create a missing base folder')
    }
  }

  #mayFill(principal: Principal): boolean {
    return judgeMembers(this.dependencies.rules, principal, 'mkdir', principal.base) === 'allow'
  }
}
