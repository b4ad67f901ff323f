/** Maps paths of the tree to paths of the share, looks them up in the spelling of the server, and refines errors. */
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'
import { nameOf, parentOf, segmentsOf, type Path } from '../../src/base/path.js'
import type { FileFacts } from './client/messages.js'
import type { Share } from './client/share.js'
import { entryOf, isFolder } from './entry.js'
import { isMissing, isStatus } from './errors.js'
import { normalizationForms, isAmbiguous, isSameName, joinWirePath, nameFromWire, wireName } from './names.js'
import { status } from './client/errors.js'

/**
 * A path of the share in the server's spelling, with the attributes of what exists there; undefined if nothing exists.
 */
export interface SmbLocation {
  readonly wire: string
  readonly facts: FileFacts | undefined
}

export class SmbLocations {
  /** `root`: wire path of the folder that is mounted; empty for the share itself. */
  constructor(readonly root: string) {}

  /** The wire path of `path` in the caller's spelling, without a lookup. */
  wirePath(path: Path): string {
    return segmentsOf(path).reduce((folder, name) => joinWirePath(folder, wireName(name)), this.root)
  }

  /** Looks up a path. A missing parent is not an error: `facts` is undefined then. */
  async find(share: Share, path: Path): Promise<SmbLocation> {
    if (path === '/') return { wire: this.root, facts: await share.facts(this.root) }
    if (isAmbiguous(path)) return this.#walk(share, path)
    const folder = this.wirePath(parentOf(path))
    const facts = await this.#lookup(share, folder, nameOf(path))
    return { wire: joinWirePath(folder, facts?.name ?? wireName(nameOf(path))), facts }
  }

  /** Looks up each name of the path in turn, in each Unicode normalization form. */
  async #walk(share: Share, path: Path): Promise<SmbLocation> {
    let location: SmbLocation = { wire: this.root, facts: undefined }
    let exists = true
    for (const name of segmentsOf(path)) {
      let facts: FileFacts | undefined
      for (const form of exists ? normalizationForms(name) : [])
        facts ??= await this.#lookup(share, location.wire, form)
      exists = facts !== undefined
      location = { wire: joinWirePath(location.wire, facts?.name ?? wireName(name)), facts }
    }
    return location
  }

  async #lookup(share: Share, folder: string, name: string): Promise<FileFacts | undefined> {
    const wire = wireName(name)
    try {
      const facts = await share.lookup(folder, wire)
      // Servers also match generated short names (8.3). Those must not bypass the access rules of the real name.
      return facts !== undefined && isSameName(facts.name, wire) ? facts : undefined
    } catch (error) {
      if (isMissing(error) || isStatus(error, status.objectNameInvalid, status.objectPathInvalid)) return undefined
      if (!isStatus(error, status.accessDenied)) throw error
      // The account may traverse this folder but not list it.
      const facts = await share.ownFacts(joinWirePath(folder, wire)).catch((failure: unknown) => {
        if (isMissing(failure)) return undefined
        throw failure
      })
      return facts && { ...facts, name: wire }
    }
  }

  /**
   * Runs `work` with the wire path in the server's spelling. Rejects with `not_found` if a lookup was needed and found
   * nothing.
   */
  async withServerPath<T>(share: Share, path: Path, work: (wire: string) => Promise<T>): Promise<T> {
    if (!isAmbiguous(path)) return work(this.wirePath(path))
    const { wire, facts } = await this.#walk(share, path)
    if (facts === undefined) throw new GatewayError('not_found')
    return work(wire)
  }

  async entryAt(share: Share, path: Path): Promise<Entry> {
    const { facts } = await this.find(share, path)
    if (facts === undefined) throw new GatewayError('not_found')
    return entryOf(path === '/' ? '' : nameFromWire(facts.name), facts)
  }

  /**
   * Looks up the target of a write. Rejects with `is_folder` for a folder, and with `exists` for a file if `createOnly`
   * is set.
   */
  async findReplaceable(share: Share, path: Path, createOnly = false): Promise<SmbLocation> {
    const location = await this.find(share, path)
    if (location.facts && isFolder(location.facts)) throw new GatewayError('is_folder')
    if (location.facts && createOnly) throw new GatewayError('exists')
    return location
  }

  /**
   * Refines the error of a failed creation: `parent_missing` or `not_folder` if the parent is the cause. Always
   * rejects.
   */
  async refineCreateError(share: Share, error: unknown, path: Path): Promise<never> {
    if (!isMissing(error)) throw error
    const { facts } = await this.find(share, parentOf(path))
    // If the parent exists now, another request has created it since.
    const wasMissing = facts === undefined || (isFolder(facts) && isStatus(error, status.objectPathNotFound))
    if (wasMissing) throw new GatewayError('parent_missing', { cause: error })
    if (!isFolder(facts)) throw new GatewayError('not_folder', { cause: error })
    throw error
  }

  /**
   * Refines the error of a failed rename to `path`: `is_folder` if a folder exists there, else as for a creation.
   * Always rejects.
   */
  async refineRenameError(share: Share, error: unknown, path: Path): Promise<never> {
    if (isStatus(error, status.objectNameCollision, status.accessDenied)) {
      const { facts } = await this.find(share, path)
      if (facts && isFolder(facts)) throw new GatewayError('is_folder', { cause: error })
    }
    return this.refineCreateError(share, error, path)
  }
}
