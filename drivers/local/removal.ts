/** Whole trees on the way out, and where they go if there is a recycle bin. */
import { randomBytes } from 'node:crypto'
import { cp, lstat, mkdir, opendir, rename, rm } from 'node:fs/promises'
import { dirname, join, sep } from 'node:path'
import { GatewayError } from '../../src/errors.js'
import type { Path } from '../../src/path.js'
import { systemCode } from './errors.js'
import type { Folder } from './folder.js'
import type { Place, RootFolder } from './root-folder.js'

/**
 * Removes the folder and all below it. Each folder is opened by its exact path: no link is entered. An abort leaves what
 * is not removed yet.
 */
export async function removeTree(root: RootFolder, host: string, signal?: AbortSignal): Promise<void> {
  const folder = await root.openExactly(host)
  if (!folder) return
  const below: string[] = []
  try {
    for await (const { name } of await opendir(folder.self)) {
      if (signal?.aborted) throw new GatewayError('aborted')
      const stats = await folder.calls.lstat(folder.at(name))
      if (stats?.isDirectory() === true) below.push(name)
      else if (stats) await unlessGone(() => folder.calls.unlink(folder.at(name)))
    }
  } finally {
    folder.close()
  }
  for (const name of below) {
    const child = join(host, name)
    await removeTree(root, child, signal)
    await removeFolder(root, host, (parent) => parent.at(name))
  }
}

async function removeFolder(root: RootFolder, parentHost: string, at: (parent: Folder) => string): Promise<void> {
  const parent = await root.openExactly(parentHost)
  if (!parent) return
  try {
    await unlessGone(() => parent.calls.rmdir(at(parent)))
  } finally {
    parent.close()
  }
}

async function unlessGone(call: () => void | Promise<void>): Promise<void> {
  try {
    await call()
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error
  }
}

export class RecycleBin {
  /** `host`: an absolute path without links; the folder exists. */
  constructor(
    private readonly root: RootFolder,
    private readonly host: string,
  ) {}

  /** Whether this is the bin or lies in it: what is removed there is removed for good. */
  holds(host: string): boolean {
    return host === this.host || host.startsWith(this.host + sep)
  }

  /** Keeps what stands at `place` under the same relative path; a name that is taken gets the time behind it. */
  async take(place: Place, path: Path): Promise<void> {
    if (this.host.startsWith(place.host + sep)) {
      throw new GatewayError('denied', { reason: 'the recycle bin is in there' })
    }
    const wanted = join(this.host, path)
    await mkdir(dirname(wanted), { recursive: true })
    const target = await freeName(wanted)
    try {
      await rename(place.at, target)
    } catch (error) {
      if (systemCode(error) !== 'EXDEV') throw error
      await this.#carry(place, target)
    }
  }

  /** To a bin on another file system: whole there before it goes here. */
  async #carry(place: Place, target: string): Promise<void> {
    try {
      await cp(place.at, target, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true, force: false })
    } catch (error) {
      await rm(target, { recursive: true, force: true })
      throw error
    }
    if (place.stats?.isDirectory() !== true) {
      await place.calls.unlink(place.at)
      return
    }
    await removeTree(this.root, place.host)
    await place.calls.rmdir(place.at)
  }
}

async function freeName(wanted: string): Promise<string> {
  const digits = new Date().toISOString().replace(/\D/g, '').slice(0, 14)
  const ending = randomBytes(3).toString('hex')
  for (const name of [wanted, `${wanted}_${digits}`, `${wanted}_${digits}_${ending}`]) {
    const stats = await lstat(name).catch(() => undefined)
    if (!stats) return name
  }
  throw new GatewayError('exists', { reason: 'the recycle bin has this name already' })
}
