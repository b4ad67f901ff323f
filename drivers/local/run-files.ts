/** Files that a run of the program has staged, this one or an earlier one, by their names in its staging folder. */
import { constants } from 'node:fs'
import { readFile, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Instance } from '../../src/driver.js'
import { nameOf, parentOf, type Path } from '../../src/path.js'
import type { Calls } from './calls.js'
import { systemCode } from './errors.js'
import type { Folder } from './folder.js'
import { syncFile } from './places.js'
import { isReserved, reservedName, type RootFolder } from './root-folder.js'
import { unlinkIfThere, type StagedParts } from './staged-file.js'

const { O_NOFOLLOW, O_NONBLOCK, O_RDWR } = constants

/** At the end of the name of a record: its text is where a file is staged beside its target. */
export const recordSuffix = '.sibling'

/** A staged file that another run may go on with. */
interface Kept {
  readonly run: string
  readonly name: string
  /** Of the machine, when it was made; empty where nobody could tell. */
  readonly boot: string
}

type Found = Pick<StagedParts, 'at' | 'calls' | 'letGo'>

export class RunFiles {
  constructor(
    private readonly root: RootFolder,
    private readonly instance: Instance,
  ) {}

  /** Of a file that this run has staged. */
  tokenOf(name: string): string {
    return [this.instance.name, name, this.instance.boot ?? ''].join('/')
  }

  /**
   * What an earlier upload of so many bytes has kept, to be written on. Undefined where nothing can be relied on; then nothing is
   * left of it, where that can be removed.
   */
  async reopen(token: string, size: number): Promise<StagedParts | undefined> {
    const kept = parsed(token)
    const found = kept && (await this.#find(kept))
    if (!found) return undefined
    const fd = this.#outlives(kept) ? await reopened(found, size) : undefined
    if (fd !== undefined) return { ...found, token, fd }
    // What cannot be removed now is swept one day.
    await discard(found).catch(() => undefined)
    return undefined
  }

  /** Removes what this token stands for, if it does. */
  async drop(token: string): Promise<void> {
    const kept = parsed(token)
    if (kept) await this.remove(kept)
  }

  async remove(file: Pick<Kept, 'run' | 'name'>): Promise<void> {
    const found = await this.#find(file)
    if (found) await discard(found)
  }

  /** What a process has written outlives it, but not the machine. */
  #outlives({ run, boot }: Kept): boolean {
    return run === this.instance.name || (boot !== '' && boot === this.instance.boot)
  }

  async #find({ run, name }: Pick<Kept, 'run' | 'name'>): Promise<Found | undefined> {
    const host = join(this.root.real, reservedName, run)
    const staging = await this.root.openExactly(host)
    if (!staging) return undefined
    const isRecord = name.endsWith(recordSuffix)
    let beside: Folder | undefined
    const letGo = async (isLeft: boolean) => {
      beside?.close()
      try {
        if (isRecord && !isLeft) await unlinkIfThere(staging.calls, staging.at(name))
      } finally {
        staging.close()
      }
      // That of a run that is over has nobody else to remove it.
      if (!isLeft && run !== this.instance.name) await rmdir(host).catch(() => undefined)
    }
    const found = (folder: Folder, called: string): Found => {
      return { at: folder.at(called), calls: this.root.calls(folder.host), letGo }
    }
    if (!isRecord) return found(staging, name)
    try {
      const path = (await readFile(staging.at(name), 'utf8')) as Path
      beside = isReserved(nameOf(path)) ? await this.root.openExactly(this.root.hostOf(parentOf(path))) : undefined
      if (beside) return found(beside, nameOf(path))
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw error
    }
    await letGo(false)
    return undefined
  }
}

/** A record stays for as long as what it tells of does. */
async function discard({ at, calls, letGo }: Found): Promise<void> {
  let isLeft = true
  try {
    await unlinkIfThere(calls, at)
    isLeft = false
  } finally {
    await letGo(isLeft)
  }
}

/** Undefined for what is no plain file of at most that size any more, or could not be brought to the medium. */
async function reopened({ at, calls }: { at: string; calls: Calls }, size: number): Promise<number | undefined> {
  let fd: number | undefined
  try {
    fd = await calls.open(at, O_RDWR | O_NOFOLLOW | O_NONBLOCK)
    const stats = await calls.fstat(fd)
    if (stats.isFile() && stats.nlink === 1n && stats.size <= BigInt(size)) {
      // What the system failed to write since is told by this alone.
      await syncFile(fd)
      return fd
    }
  } catch {
    // Gone, or not to be trusted.
  }
  if (fd !== undefined) await calls.close(fd)
  return undefined
}

function parsed(token: string): Kept | undefined {
  const match = /^([\w-]{1,200})\/([\w-]{1,100}(?:\.sibling)?)\/([\da-f]*)$/.exec(token)
  const [, run, name, boot] = match ?? []
  return run === undefined || name === undefined || boot === undefined ? undefined : { run, name, boot }
}

/** `<run>/<name>` of what these tokens stand for here, if anything. */
export function keptNames(tokens: readonly string[]): ReadonlySet<string> {
  return new Set(tokens.map(parsed).flatMap((kept) => (kept ? [`${kept.run}/${kept.name}`] : [])))
}
