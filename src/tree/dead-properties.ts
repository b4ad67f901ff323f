/** The dead properties of WebDAV (RFC 4918 §4) of files and folders. Paths are of the whole tree. */
import { childOf, nameOf, type Path } from '../contract/path.js'
import type { Property, PropertyChange } from '../store/rows.js'
import type { TreeDependencies } from './dependencies.js'
import type { Target } from './operation.js'

/** Characters of the properties of all members of a folder that are returned together. */
const maxMemberPropertiesSize = 4 * 1024 * 1024

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
