/**
 * The only place that turns a path of the tree into one of the host, and the guard of the root.
 *
 * Links are followed here, one by one, and only while they stay inside of the root. What comes out is a handle on the
 * folder that holds a name, checked after it was opened: from there on a link that is swapped in anywhere above cannot
 * lead elsewhere. On Linux names are used relative to that handle (`/proc/self/fd/N/name`); other systems
 * give no such way, there the folder's real path is compared and then used.
 */
import { constants, type BigIntStats } from 'node:fs'
import { basename, dirname } from 'node:path'
import { GatewayError, isGatewayError } from '../../src/errors.js'
import { deepestFound, segmentsOf, nameOf, parentOf, root, under, within, type Path } from '../../src/path.js'
import { Pace, patientCalls, type Calls } from './calls.js'
import { systemCode } from './errors.js'
import { Handle, HandleFolder, joined, PlainFolder, type Folder } from './folder.js'
import { HeldFolders } from './held-folders.js'
import { MountTable } from './mount-table.js'

/** Everything this driver stages has a name that starts so; no caller sees or touches one. */
export const reservedName = '.tidegate-staging'

/** Opens no file, only its place: needs no right to read, waits for no device. Node does not name it. */
export const placeOnly = 0o10000000
/** Links that one path may lead through, as in Linux. */
const linksAtMost = 40
/** Tries to open what was just looked up, while somebody else keeps changing it. */
const tries = 5
const handles = process.platform === 'linux'

export function isReserved(name: string): boolean {
  return name.startsWith('.') && name.toLowerCase().startsWith(reservedName)
}

/** A link that is not followed: `denied` where it leads out of the root, `not_found` where it leads nowhere. */
export class RefusedLink extends GatewayError {
  constructor(readonly outside: boolean) {
    const reason = outside ? 'a link that leads outside of the storage' : 'a link that leads nowhere'
    super(outside ? 'denied' : 'not_found', { reason })
  }
}

/** A name in a folder, with what stood there when it was looked up. `.` names the root itself. */
export interface Place {
  readonly folder: Folder
  readonly name: string
  /** The folder's path of the host with the name. */
  readonly host: string
  /** To call the system for this name with. */
  readonly calls: Calls
  /** What to call it by. */
  readonly at: string
  readonly stats: BigIntStats | undefined
  /** A link led here. */
  readonly linked: boolean
}

export interface LocateOptions {
  /** Of a link, the place it leads to. */
  readonly follow: boolean
  /** Whether the place may be about to be filled: changes the code of a missing folder and of a reserved name. */
  readonly create?: boolean
}

export class RootFolder {
  readonly #mounts: MountTable
  readonly #pace = new Pace()
  readonly #held = new HeldFolders()

  /** `real`: the absolute path of the root, free of links. */
  constructor(readonly real: string) {
    this.#mounts = new MountTable(real)
  }

  /** How to call the system for this path of the host, right now. */
  calls(host: string): Calls {
    return this.isPlain(host) ? this.#pace.calls : patientCalls
  }

  /** Whether names there are on a local disk, and used relative to handles: whoever calls for one waits for that disk at the most. */
  isPlain(host: string): boolean {
    return handles && this.#mounts.isPlain(host)
  }

  /** Whether something is mounted right in this folder that a call could wait for. */
  hasOthersIn(host: string): boolean {
    return this.#mounts.hasOthersIn(host)
  }

  /** An existing folder, links followed. Rejects with `not_found`, `not_dir` or `denied`. */
  async folder(path: Path): Promise<Folder> {
    assertClean(path)
    if (segmentsOf(path).some(isReserved)) throw new GatewayError('not_found')
    const known = this.#known(path)
    if (known) return known
    const folder = await this.#opened(path)
    if (folder.calls.immediate && folder instanceof HandleFolder) this.#held.keep(folder)
    return folder
  }

  /** One that was used a moment ago, where nothing has changed. */
  #known(path: Path): Folder | undefined {
    const host = this.hostOf(path)
    const calls = this.calls(host)
    return calls.immediate ? this.#held.take(host, calls) : undefined
  }

  async #opened(path: Path): Promise<Folder> {
    // Where nothing is mounted that we could wait for, opening tells sooner than looking at each step of the path.
    if (handles && !this.#mounts.waiting) {
      const folder = await this.openExactly(this.hostOf(path))
      if (folder) return folder
    }
    for (let count = 0; count < tries; count++) {
      const { host, stats } = await this.#walk(this.real, segmentsOf(path))
      if (!stats.isDirectory()) throw new GatewayError('not_dir')
      const folder = await this.openExactly(host)
      if (folder) return folder
    }
    throw new GatewayError('busy', { reason: 'the folder keeps changing' })
  }

  /**
   * The folder that holds a name. Rejects with `not_found` (or with `create`, `parent_missing` and `not_dir`) where that is
   * missing, with `denied` where the path or, with `follow`, the name itself is a link that leads out of the root; with `create` also
   * where that one leads nowhere: nothing is made behind it.
   */
  async locate(path: Path, options: LocateOptions): Promise<Place> {
    assertClean(path)
    if (options.create === true && segmentsOf(path).some(isReserved)) {
      throw new GatewayError('denied', { reason: 'this name is reserved' })
    }
    if (path === '/') return this.#place(await this.folder(path), '.')
    if (isReserved(nameOf(path))) throw new GatewayError('not_found')
    const place = await this.#place(await this.#parent(path, options), nameOf(path))
    if (!options.follow || place.stats?.isSymbolicLink() !== true) return place
    place.folder.close()
    for (let count = 0; count < tries; count++) {
      const host = await this.#leadsTo(path, options)
      const atRoot = host === this.real
      const folder = await this.openExactly(atRoot ? host : dirname(host))
      if (!folder) continue
      const found = await this.#place(folder, atRoot ? '.' : basename(host), true)
      if (found.stats && !found.stats.isSymbolicLink()) return found
      folder.close()
    }
    throw new GatewayError('busy', { reason: 'the link keeps changing' })
  }

  async #leadsTo(path: Path, { create }: LocateOptions): Promise<string> {
    try {
      return (await this.#walk(this.real, segmentsOf(path))).host
    } catch (error) {
      if (create !== true || !(error instanceof RefusedLink)) throw error
      throw new GatewayError('denied', { reason: error.reason })
    }
  }

  /** The path that this one is another way to; see `Driver.realPath`. */
  async realPath(path: Path, last: boolean): Promise<Path> {
    assertClean(path)
    if (path === '/') return path
    const parent = parentOf(path)
    const folder = await this.#plainFolder(parent)
    if (folder) {
      try {
        // The usual case: no link anywhere.
        if (!last || (await folder.calls.lstat(folder.at(nameOf(path))))?.isSymbolicLink() !== true) return path
      } finally {
        folder.close()
      }
    }
    const nearest = await deepestFound(last ? path : parent, (at) => this.#target(at))
    if (!nearest) return path
    return under(nearest.found, within(nearest.at, path) ?? root)
  }

  /** A name whose folder no link leads to, and that is no link itself; undefined for every other one. The caller closes the folder. */
  async plainPlace(path: Path): Promise<Place | undefined> {
    assertClean(path)
    if (path === '/') return undefined
    const folder = await this.#plainFolder(parentOf(path))
    const place = folder && (await this.#place(folder, nameOf(path)))
    if (place?.stats?.isSymbolicLink() !== true) return place
    place.folder.close()
    return undefined
  }

  /** A folder that no link leads to; undefined where there is none. */
  async #plainFolder(path: Path): Promise<Folder | undefined> {
    return this.#known(path) ?? (await this.openExactly(this.hostOf(path)))
  }

  /** Where a path leads; undefined where that is nowhere. */
  async #target(path: Path): Promise<Path | undefined> {
    try {
      return this.pathOf((await this.#walk(this.real, segmentsOf(path))).host)
    } catch (error) {
      if (isGatewayError(error, 'not_found', 'not_dir') || (error instanceof RefusedLink && !error.outside)) {
        return undefined
      }
      throw error
    }
  }

  /** Where the text of a link in this folder leads: rejects with RefusedLink where that is outside. It may lead nowhere. */
  async assertInside(folder: Folder, target: string): Promise<void> {
    try {
      await this.#walk(target.startsWith('/') ? '/' : folder.host, target.split('/'))
    } catch (error) {
      if (isGatewayError(error, 'not_found', 'not_dir') || (error instanceof RefusedLink && !error.outside)) return
      throw error
    }
  }

  /** A folder by its real path; undefined where no folder is, or where a link led elsewhere. */
  async openExactly(host: string): Promise<Folder | undefined> {
    const calls = this.calls(host)
    if (!handles) {
      const real = await asUndefined(() => calls.realpath(host), 'ENOENT', 'ENOTDIR', 'ELOOP')
      return real === host && (await calls.lstat(host))?.isDirectory() === true
        ? new PlainFolder(host, calls)
        : undefined
    }
    const flags = placeOnly | constants.O_DIRECTORY | constants.O_NOFOLLOW
    const fd = await asUndefined(() => calls.open(host, flags), 'ENOENT', 'ENOTDIR', 'ELOOP')
    if (fd === undefined) return undefined
    const folder = new HandleFolder(host, calls, new Handle(fd))
    if (folder.stands()) return folder
    folder.close()
    return undefined
  }

  /** Lets go of what is held beyond its use. */
  close(): void {
    this.#held.close()
  }

  hostOf(path: Path): string {
    return path === '/' ? this.real : this.real === '/' ? path : this.real + path
  }

  /** The path of the tree; undefined outside of the root. */
  pathOf(host: string): Path | undefined {
    if (host === this.real) return '/' as Path
    if (!this.#holds(host)) return undefined
    return host.slice(this.real === '/' ? 0 : this.real.length) as Path
  }

  async #parent(path: Path, options: LocateOptions): Promise<Folder> {
    try {
      return await this.folder(parentOf(path))
    } catch (error) {
      if (options.create === true && isGatewayError(error, 'not_found')) {
        throw new GatewayError('parent_missing', { cause: error })
      }
      if (options.create !== true && isGatewayError(error, 'not_dir')) {
        throw new GatewayError('not_found', { cause: error })
      }
      throw error
    }
  }

  async #place(folder: Folder, name: string, linked = false): Promise<Place> {
    try {
      const host = name === '.' ? folder.host : joined(folder.host, name)
      const calls = this.calls(host)
      const at = folder.at(name)
      return { folder, name, host, calls, at, stats: await calls.lstat(at), linked }
    } catch (error) {
      folder.close()
      throw error
    }
  }

  #holds(host: string): boolean {
    return this.real === '/' || host === this.real || host.startsWith(`${this.real}/`)
  }

  /**
   * Follows `names` from `start`: a link-free folder of the root, or `/` for the text of an absolute link. Folders above the root are
   * passed without a look, on the way back down into it.
   */
  async #walk(start: string, names: readonly string[]): Promise<{ host: string; stats: BigIntStats }> {
    let links = 0
    let host = start
    let stats: BigIntStats | undefined
    const todo = names.map((name) => ({ name, ofLink: false })).reverse()
    for (let step = todo.pop(); step; step = todo.pop()) {
      const { name, ofLink } = step
      if (name === '' || name === '.') continue
      if (name === '..') {
        host = dirname(host)
        stats = undefined
        continue
      }
      if (stats && !stats.isDirectory()) throw ofLink ? new RefusedLink(false) : new GatewayError('not_dir')
      const next = joined(host, name)
      if (!this.#holds(next)) {
        if (this.real !== next && !this.real.startsWith(`${next}/`)) throw new RefusedLink(true)
        host = next
        continue
      }
      if (isReserved(name)) throw ofLink ? new RefusedLink(false) : new GatewayError('not_found')
      const calls = this.calls(next)
      stats = await asUndefined(() => calls.lstat(next), 'ENOTDIR')
      if (!stats) throw ofLink ? new RefusedLink(false) : new GatewayError('not_found')
      if (!stats.isSymbolicLink()) {
        host = next
        continue
      }
      if (++links > linksAtMost) throw new RefusedLink(false)
      const target = await calls.readlink(next)
      if (target.startsWith('/')) host = '/'
      stats = undefined
      todo.push(
        ...target
          .split('/')
          .map((part) => ({ name: part, ofLink: true }))
          .reverse(),
      )
    }
    if (!this.#holds(host)) throw new RefusedLink(true)
    stats ??= await this.calls(host).lstat(host)
    if (!stats) throw new GatewayError('not_found')
    return { host, stats }
  }
}

/** Paths arrive clean. One that does not must not reach the system, which knows `..` too. */
function assertClean(path: Path): void {
  if (path.includes('/.') && segmentsOf(path).some((name) => name === '.' || name === '..')) {
    throw new GatewayError('invalid', { reason: 'not a clean path' })
  }
  if (path.includes('\0')) throw new GatewayError('invalid', { reason: 'a path cannot hold a NUL character' })
}

async function asUndefined<T>(call: () => T | Promise<T>, ...codes: readonly string[]): Promise<T | undefined> {
  try {
    return await call()
  } catch (error) {
    if (codes.includes(systemCode(error) ?? '')) return undefined
    throw error
  }
}
