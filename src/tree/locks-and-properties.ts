/** What WebDAV keeps about a path: locks and dead properties. */
import { GatewayError, isGatewayError } from '../base/errors.js'
import { childOf, nameOf, type Path } from '../base/path.js'
import type { Lock, LockRequest, Property, PropertyChange } from '../database/rows.js'
import type { Access } from './access.js'
import type { FileContent } from './file-content.js'
import { assertPreconditionsAt, Change, type ChangeScope, type OnePath, type Target } from './change.js'
import type { AccessOptions, ChangeOptions } from './operation-options.js'
import type { TreeDependencies } from './dependencies.js'

export interface LockOptions extends ChangeOptions {
  /** false: rejects with `not_found` if there is nothing to lock. */
  readonly makesFile?: boolean
}

export interface LockResult {
  readonly lock: Lock
  /** Nothing existed at the path, so an empty file was created. */
  readonly created: boolean
}

/** WebDAV locks, as one principal takes, sees and releases them. `at` is a path of the whole tree. */
export class PrincipalLocks {
  constructor(
    private readonly scope: ChangeScope,
    private readonly access: Access,
    private readonly content: FileContent,
  ) {}

  /** See `VirtualFs.lock`. `path` is the principal's own. */
  async lock(path: Path, request: LockRequest, options: LockOptions): Promise<LockResult> {
    const locking = new Change<OnePath>(this.scope, {
      options,
      resolve: this.access.resolver('lock', path, options),
      require: ({ at, entry }) => {
        if (request.deep && entry?.kind === 'folder') this.access.authorizeBelow('lock', at, options)
      },
      tree: request.deep,
      touches: () => [],
    })
    // Under the path lock: a change that is being published would take effect after the lock was granted.
    const { lock, at, entry } = await locking.underLocks(async ({ at, entry }) => {
      const isDangling = entry?.kind === 'symlink'
      if ((!entry || isDangling) && options.makesFile === false) throw new GatewayError('not_found')
      // No file is created behind a dangling symlink, so there is nothing to lock.
      if (isDangling) throw new GatewayError('denied', { detail: 'dangling_symlink' })
      return { lock: await this.scope.locks.grant(at, request, this.access.principal), at, entry }
    })
    const created = !entry && (await this.#makeFile(path, at, lock, options))
    return { lock: this.access.redaction.lock(lock, at), created }
  }

  /** Creates the empty file that was locked. Returns false if another request has created it in the meantime. */
  async #makeFile(path: Path, at: Path, { token }: Lock, options: ChangeOptions): Promise<boolean> {
    const { signal, password } = options
    const lockTokens = [...(options.lockTokens ?? []), token]
    try {
      await this.content.reserve(path, { signal, password, lockTokens })
      return true
    } catch (error) {
      // That other file is locked, unless its name has another case.
      const now = isGatewayError(error, 'exists') && (await this.#resolveIfPossible(path, options))
      if (now === at) return false
      await this.scope.locks.break(token)
      throw error
    }
  }

  async #resolveIfPossible(path: Path, options: AccessOptions): Promise<Path | undefined> {
    try {
      return (await this.access.resolve(path, options)).at
    } catch {
      return undefined
    }
  }

  async refresh(at: Path, token: string, seconds: number, options: ChangeOptions): Promise<Lock> {
    await assertPreconditionsAt(this.scope, at, options)
    return this.access.redaction.lock(await this.scope.locks.refresh(at, token, seconds, this.access.principal), at)
  }

  unlock(at: Path, token: string): Promise<void> {
    return this.scope.locks.release(at, token, this.access.principal)
  }

  /** The locks that cover the path, and those on these direct members of it that the principal sees. */
  covering(at: Path, members: readonly string[]): readonly Lock[] {
    const onMembers = this.scope.locks.onMembers(at, members).filter(({ path }) => !this.access.isOmitted(path))
    return [...this.scope.locks.covering(at), ...onMembers].map((lock) => this.access.redaction.lock(lock, at))
  }
}

/** Characters of the properties of all members of a folder that are returned together. */
const maxMemberPropertiesSize = 4 * 1024 * 1024

/** The dead properties of WebDAV (RFC 4918 §4) of files and folders. Paths are of the whole tree. */
export class DeadProperties {
  constructor(private readonly dependencies: Pick<TreeDependencies, 'mounts' | 'store'>) {}

  of(at: Path): Promise<readonly Property[]> {
    return this.dependencies.store.properties.of(at)
  }

  /** See `VirtualFs.memberProperties`. */
  async ofMembers(
    folder: Path,
    names: readonly string[] | undefined,
  ): Promise<ReadonlyMap<string, readonly Property[]> | undefined> {
    const { properties } = this.dependencies.store
    if (names === undefined && (await properties.sizeOfChildren(folder)) > maxMemberPropertiesSize) return undefined
    const paths = names?.map((name) => childOf(folder, name))
    return new Map([...(await properties.ofChildren(folder, paths))].map(([child, kept]) => [nameOf(child), kept]))
  }

  /** Makes all of the changes, or none. They are as durable as the storage of the target. `userId`: who makes them. */
  async change(target: Target, changes: readonly PropertyChange[], userId: number): Promise<void> {
    const { mounts, store } = this.dependencies
    const { properties } = mounts.isMountFolder(target.at) ? store : target.storage.records
    await properties.change(target.at, changes, userId)
  }
}
