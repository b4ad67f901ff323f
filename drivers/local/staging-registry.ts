/** Finds staged files of this run and of earlier ones by their tokens. */
import { constants } from 'node:fs'
import { readFile, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Instance } from '../../src/contract/driver-env.js'
import { nameOf, parentOf, type Path } from '../../src/base/path.js'
import { systemCode } from './errors.js'
import type { Folder } from './folder.js'
import { isReserved, reservedName, type RootFolder } from './root-folder.js'
import { unlinkIfExists, type StagedFileOptions } from './staged-file.js'
import { syncFile, type Syscalls } from './syscalls.js'

const { O_NOFOLLOW, O_NONBLOCK, O_RDWR } = constants

/** Suffix of a record: its content is the path of a file that is staged beside its target. */
export const recordSuffix = '.sibling'

/** The parts of a token: a staged file that another run may resume. */
interface TokenParts {
  readonly run: string
  readonly name: string
  /** Boot id of the machine when the file was created; empty if unknown. */
  readonly boot: string
}

type FoundFile = Omit<StagedFileOptions, 'fd' | 'token'>

export class StagingRegistry {
  constructor(
    private readonly root: RootFolder,
    private readonly instance: Instance,
  ) {}

  /** The token of a file that this run has staged. */
  tokenOf(name: string): string {
    return [this.instance.name, name, this.instance.boot ?? ''].join('/')
  }

  /**
   * Opens the file of an earlier upload to continue it. `size`: bytes of the complete file. If the file cannot be
   * relied on, resolves to undefined and removes it, if possible.
   */
  async reopen(token: string, size: number): Promise<StagedFileOptions | undefined> {
    const parts = parseToken(token)
    const file = parts && (await this.#find(parts))
    if (!file) return undefined
    const fd = this.#isReliable(parts) ? await openIfIntact(file, size) : undefined
    if (fd !== undefined) return { ...file, token: () => token, fd }
    // A later sweep removes it.
    await discard(file).catch(() => undefined)
    return undefined
  }

  /** Removes the file of this token, if it exists. */
  async drop(token: string): Promise<void> {
    const parts = parseToken(token)
    if (parts) await this.remove(parts)
  }

  async remove(file: Pick<TokenParts, 'run' | 'name'>): Promise<void> {
    const found = await this.#find(file)
    if (found) await discard(found)
  }

  /** Written data survives the process, but not a crash of the machine. */
  #isReliable({ run, boot }: TokenParts): boolean {
    return run === this.instance.name || (boot !== '' && boot === this.instance.boot)
  }

  async #find({ run, name }: Pick<TokenParts, 'run' | 'name'>): Promise<FoundFile | undefined> {
    const host = join(this.root.real, reservedName, run)
    const staging = await this.root.openRealPath(host)
    if (!staging) return undefined
    const isRecord = name.endsWith(recordSuffix)
    let siblingFolder: Folder | undefined
    const closeFolder = async (isRetained: boolean) => {
      siblingFolder?.close()
      try {
        if (isRecord && !isRetained) await unlinkIfExists(staging.calls, staging.pathOf(name))
      } finally {
        staging.close()
      }
      // The folder of a run that has ended is removed with its last file.
      if (!isRetained && run !== this.instance.name) await rmdir(host).catch(() => undefined)
    }
    const inFolder = (folder: Folder, fileName: string): FoundFile => {
      return { at: folder.pathOf(fileName), calls: folder.calls, closeFolder }
    }
    if (!isRecord) return inFolder(staging, name)
    try {
      const path = (await readFile(staging.pathOf(name), 'utf8')) as Path
      siblingFolder = isReserved(nameOf(path))
        ? await this.root.openRealPath(this.root.hostOf(parentOf(path)))
        : undefined
      if (siblingFolder) return inFolder(siblingFolder, nameOf(path))
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw error
    }
    await closeFolder(false)
    return undefined
  }
}

/** The record is removed only after its file. */
async function discard({ at, calls, closeFolder }: FoundFile): Promise<void> {
  let isRetained = true
  try {
    await unlinkIfExists(calls, at)
    isRetained = false
  } finally {
    await closeFolder(isRetained)
  }
}

/** Undefined if it is not a regular file of at most `size` bytes with one name, or cannot be flushed. */
async function openIfIntact({ at, calls }: { at: string; calls: Syscalls }, size: number): Promise<number | undefined> {
  let fd: number | undefined
  try {
    fd = await calls.open(at, O_RDWR | O_NOFOLLOW | O_NONBLOCK)
    const stats = await calls.fstat(fd)
    if (stats.isFile() && stats.nlink === 1n && stats.size <= BigInt(size)) {
      // Reports write errors that occurred since.
      await syncFile(fd)
      return fd
    }
  } catch {
    // The file is missing or cannot be relied on.
  }
  if (fd !== undefined) await calls.close(fd)
  return undefined
}

function parseToken(token: string): TokenParts | undefined {
  const match = /^([\w-]{1,200})\/([\w-]{1,100}(?:\.sibling)?)\/([\da-f]*)$/.exec(token)
  const [, run, name, boot] = match ?? []
  return run === undefined || name === undefined || boot === undefined ? undefined : { run, name, boot }
}

/** `<run>/<name>` of the files that these tokens refer to. */
export function resumableNames(tokens: readonly string[]): ReadonlySet<string> {
  return new Set(tokens.map(parseToken).flatMap((parts) => (parts ? [`${parts.run}/${parts.name}`] : [])))
}
