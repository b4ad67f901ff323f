/** Where things are on the share: paths as the server spells them, what is there, and why something could not be put there. */
import type { Entry } from '../../src/driver.js'
import { GatewayError } from '../../src/errors.js'
import { nameOf, parentOf, segmentsOf, type Path } from '../../src/path.js'
import type { FileFacts } from './client/messages.js'
import type { Share } from './client/share.js'
import { status } from './client/statuses.js'
import { entryOf, isFolder } from './entry.js'
import { isMissing, isStatus } from './errors.js'
import { formsOf, isAmbiguous, isSameName, joined, nameFromWire, wireName } from './names.js'

/** What is at a path: how the server spells it, and its facts where it is there. */
export interface Place {
  readonly wire: string
  readonly facts: FileFacts | undefined
}

export class Places {
  /** `root`: the folder of the share that is shown, as the wire has it. */
  constructor(readonly root: string) {}

  /** As it is spelled here. */
  wire(path: Path): string {
    return segmentsOf(path).reduce((folder, name) => joined(folder, wireName(name)), this.root)
  }

  /** What the server has at this path. A missing folder on the way is no failure: then nothing is there. */
  async find(share: Share, path: Path): Promise<Place> {
    if (path === '/') return { wire: this.root, facts: await share.facts(this.root) }
    if (isAmbiguous(path)) return this.#walk(share, path)
    const folder = this.wire(parentOf(path))
    const facts = await this.#look(share, folder, nameOf(path))
    return { wire: joined(folder, facts?.name ?? wireName(nameOf(path))), facts }
  }

  /** Name by name, each in every form that the server may have it in. */
  async #walk(share: Share, path: Path): Promise<Place> {
    let place: Place = { wire: this.root, facts: undefined }
    let isThere = true
    for (const name of segmentsOf(path)) {
      let facts: FileFacts | undefined
      for (const form of isThere ? formsOf(name) : []) facts ??= await this.#look(share, place.wire, form)
      isThere = facts !== undefined
      place = { wire: joined(place.wire, facts?.name ?? wireName(name)), facts }
    }
    return place
  }

  async #look(share: Share, folder: string, name: string): Promise<FileFacts | undefined> {
    const wire = wireName(name)
    try {
      const facts = await share.look(folder, wire)
      // By a short name that the server made up, a file would be reached past the rules for its own.
      return facts !== undefined && isSameName(facts.name, wire) ? facts : undefined
    } catch (error) {
      if (isMissing(error) || isStatus(error, status.objectNameInvalid, status.objectPathInvalid)) return undefined
      if (!isStatus(error, status.accessDenied)) throw error
      // A folder that may be passed through but not listed.
      const facts = await share.facts(joined(folder, wire)).catch((failure: unknown) => {
        if (isMissing(failure)) return undefined
        throw failure
      })
      return facts && { ...facts, name: wire }
    }
  }

  /** Does something with what is there under the server's own spelling of it. */
  async spelled<T>(share: Share, path: Path, work: (wire: string) => Promise<T>): Promise<T> {
    if (!isAmbiguous(path)) return work(this.wire(path))
    const { wire, facts } = await this.#walk(share, path)
    if (facts === undefined) throw new GatewayError('not_found')
    return work(wire)
  }

  async entryAt(share: Share, path: Path): Promise<Entry> {
    const { facts } = await this.find(share, path)
    if (facts === undefined) throw new GatewayError('not_found')
    return entryOf(path === '/' ? '' : nameFromWire(facts.name), facts)
  }

  /** What would be replaced. */
  async replaceable(share: Share, path: Path, createOnly = false): Promise<Place> {
    const place = await this.find(share, path)
    if (place.facts && isFolder(place.facts)) throw new GatewayError('is_dir')
    if (place.facts && createOnly) throw new GatewayError('exists')
    return place
  }

  /** Why something could not be made. */
  async explainNew(share: Share, error: unknown, path: Path): Promise<never> {
    if (!isMissing(error)) throw error
    const { facts } = await this.find(share, parentOf(path))
    if (facts === undefined) throw new GatewayError('parent_missing', { cause: error })
    if (!isFolder(facts)) throw new GatewayError('not_dir', { cause: error })
    throw error
  }

  /** Why a name could not be taken. */
  async explainTaken(share: Share, error: unknown, path: Path): Promise<never> {
    if (isStatus(error, status.objectNameCollision, status.accessDenied)) {
      const { facts } = await this.find(share, path)
      if (facts && isFolder(facts)) throw new GatewayError('is_dir', { cause: error })
    }
    return this.explainNew(share, error, path)
  }
}
