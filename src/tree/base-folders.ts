/**
 * The folders that users have as their root. One that is not there yet is made when its user first comes to it, by whichever
 * protocol, and with the right to put something into it; for anybody else it is missing, like any other folder.
 */
import type { Principal } from '../accounts/principal.js'
import { isGatewayError } from '../contract/errors.js'
import type { Log } from '../contract/log.js'
import { childOf, isWithin, parentOf, root, type Path } from '../contract/path.js'
import type { Events } from '../storage/events.js'
import type { MountSupervisor } from '../storage/mount-supervisor.js'
import type { Mounts, MountedPath } from '../storage/mounts.js'
import { verdictOn } from './authorizer.js'
import type { Rules } from './folder-rules.js'
import type { Locks } from './locks.js'

export interface BaseFoldersParts {
  readonly mounts: Mounts
  readonly supervisor: Pick<MountSupervisor, 'whenStarted'>
  readonly rules: Rules
  readonly locks: Locks
  readonly events: Events
  readonly log: Log
}

export class BaseFolders {
  /** Those that were there when they were last asked for. */
  readonly #known = new Set<Path>()

  constructor(private readonly parts: BaseFoldersParts) {
    parts.events.on((event) => {
      const gone = event.kind === 'moved' ? event.from : event.kind === 'removed' ? event.path : undefined
      if (gone !== undefined) for (const base of this.#known) if (isWithin(gone, base)) this.#known.delete(base)
    })
  }

  /** Resolves in any case: where the folder could not be made, what is asked of it says why. */
  ensure(principal: Principal): Promise<void> | undefined {
    const { base } = principal
    return base === root || this.#known.has(base) ? undefined : this.#ensure(principal)
  }

  /** Something below it was missing, so it may have been taken away by another program. */
  forget(base: Path): void {
    this.#known.delete(base)
  }

  async #ensure(principal: Principal): Promise<void> {
    const { base } = principal
    try {
      await this.parts.supervisor.whenStarted(base)
      const missing = await this.#missing(base)
      if (missing.length > 0) {
        if (!this.#mayFill(principal)) return
        for (const folder of missing) await this.#make(folder)
        this.parts.log.info({ username: principal.username, path: base }, 'a base folder was made')
      }
      this.#known.add(base)
    } catch (error) {
      this.parts.log.debug({ err: error, path: base }, 'a base folder is not there and could not be made')
    }
  }

  /** The folders on the way to it that are not there, the topmost first. */
  async #missing(base: Path): Promise<readonly Path[]> {
    const missing: Path[] = []
    for (let folder = base; !this.parts.mounts.isVirtual(folder) && folder !== root; folder = parentOf(folder)) {
      if (await isThere(this.parts.mounts.find(folder))) break
      missing.unshift(folder)
    }
    return missing
  }

  async #make(folder: Path): Promise<void> {
    const { mounts, locks } = this.parts
    if (locks.blocking({ path: folder, membership: true }, undefined, [])) return
    const { storage, inner } = mounts.find(folder)
    await storage.mkdir(inner, {}).catch((error: unknown) => {
      // Another request of the same user came first.
      if (!isGatewayError(error, 'exists')) throw error
    })
  }

  #mayFill(principal: Principal): boolean {
    const rule = this.parts.rules.nearest(principal.base)
    const ruling = { own: rule, folder: rule }
    return verdictOn(this.parts.rules, principal, 'mkdir', childOf(principal.base, '*'), undefined, ruling) === 'allow'
  }
}

async function isThere({ storage, inner }: MountedPath): Promise<boolean> {
  try {
    await storage.stat(inner)
    return true
  } catch (error) {
    if (isGatewayError(error, 'not_found')) return false
    throw error
  }
}
