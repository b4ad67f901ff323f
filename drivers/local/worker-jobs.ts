/**
 * The jobs of the worker thread, see `worker-thread.ts`: plain data in, plain data out. Errors are not reported: the
 * caller repeats what failed and finds the same error.
 */
import fs, { constants } from 'node:fs'
import { contentMode } from '../../src/contract/modes.js'
import { statusOf, type FileStatus } from './entry.js'

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY, S_IFMT, S_IFREG } = constants
const exactOrUndefined = { bigint: true, throwIfNoEntry: false } as const

/** Names to look up, separated by NUL. Each is appended to `prefix`. */
interface LookJob {
  readonly prefix: string
  readonly names: string
}

/**
 * Results in the order of the names. `revisions`: separated by NUL, empty for a failed lookup. `numbers`: mode, size,
 * modified and created of each, as in `Status`.
 */
export interface LookResult {
  readonly revisions: string
  readonly numbers: Float64Array
}

export const numbersPerName = 4

function look({ prefix, names }: LookJob): LookResult {
  const list = names.split('\0')
  const numbers = new Float64Array(list.length * numbersPerName)
  const revisions = list.map((name, index) => {
    const status = statusAt(prefix + name)
    if (!status) return ''
    const { revision, mode, size, modified, created } = status
    numbers.set([mode, size, modified, created], index * numbersPerName)
    return revision
  })
  return { revisions: revisions.join('\0'), numbers }
}

function statusAt(path: string): FileStatus | undefined {
  try {
    const stats = fs.lstatSync(path, exactOrUndefined)
    return stats && statusOf(stats)
  } catch {
    return undefined
  }
}

/** A file to copy from one folder to a staged file in another one. */
interface StageFile {
  readonly name: string
  readonly staged: string
  /** Expected revision of the source, before and after the copy. */
  readonly revision: string
  readonly size: number
  readonly mode: number | undefined
  /** The time as `systemTime` returns it. */
  readonly modified: number | Date
}

/** File names are appended to `from` and `staging`. */
interface StageJob {
  readonly from: string
  readonly staging: string
  readonly files: readonly StageFile[]
}

/** Whether each file was copied completely. The staged file of a failed copy is removed. */
function stage({ from, staging, files }: StageJob): readonly boolean[] {
  return files.map((file) => isStaged(from + file.name, staging + file.staged, file))
}

function isStaged(from: string, at: string, { revision, size, mode, modified }: StageFile): boolean {
  let isIncomplete = false
  let source: number | undefined
  let copy: number | undefined
  const isUnchanged = () => {
    const status = statusAt(from)
    return status?.revision === revision && (status.mode & S_IFMT) === S_IFREG
  }
  try {
    // Checked before the file is opened, because opening a device can have side effects.
    if (!isUnchanged()) return false
    source = fs.openSync(from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    copy = fs.openSync(at, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o666)
    isIncomplete = true
    const bytes = copyBytes(source, copy)
    if (mode !== undefined) fs.fchmodSync(copy, contentMode(mode))
    fs.futimesSync(copy, Date.now() / 1000, modified)
    // If another file was opened under this name, or the file was changed during the copy, its status differs.
    isIncomplete = bytes !== size || !isUnchanged()
    return !isIncomplete
  } catch {
    return false
  } finally {
    if (source !== undefined) fs.closeSync(source)
    if (copy !== undefined) fs.closeSync(copy)
    if (isIncomplete) unlink(at)
  }
}

let buffer: Buffer | undefined

/** Copies all bytes. Returns their number. */
function copyBytes(from: number, to: number): number {
  buffer ??= Buffer.allocUnsafeSlow(256 * 1024)
  for (let position = 0; ;) {
    const bytes = fs.readSync(from, buffer, 0, buffer.length, position)
    for (let written = 0; written < bytes;) written += fs.writeSync(to, buffer, written, bytes - written)
    position += bytes
    if (bytes < buffer.length) return position
  }
}

/** Staged files to publish. File names are appended to `staging` and `to`. */
interface PublishJob {
  readonly staging: string
  readonly to: string
  readonly files: readonly { readonly name: string; readonly staged: string }[]
  /** Whether this is a retry of a job that may have been completed in part. */
  readonly isRetry: boolean
}

/** The status of each published file; undefined if its name was taken. Removes all staged files. */
function take({ staging, to, files, isRetry: isRepeated }: PublishJob): readonly (FileStatus | undefined)[] {
  return files.map(({ name, staged }) => {
    const [at, target] = [staging + staged, to + name]
    const isPublished = tryHardLink(at, target) || (isRepeated && isPublishedFile(at, target))
    unlink(at)
    return isPublished ? statusAt(target) : undefined
  })
}

/** link(2) fails if the name is taken. rename(2) would replace the file. */
function tryHardLink(at: string, target: string): boolean {
  try {
    fs.linkSync(at, target)
    return true
  } catch {
    return false
  }
}

/** Whether the target is the staged file. A missing staged file was published, since nothing else removes it. */
function isPublishedFile(at: string, target: string): boolean {
  const [staged, existing] = [at, target].map((path) => fs.lstatSync(path, exactOrUndefined))
  return existing !== undefined && (staged === undefined || staged.ino === existing.ino)
}

interface DiscardJob {
  readonly staging: string
  readonly names: readonly string[]
}

function discard({ staging, names }: DiscardJob): true {
  for (const name of names) unlink(staging + name)
  return true
}

function unlink(at: string): void {
  try {
    fs.unlinkSync(at)
  } catch {
    // A later sweep removes it.
  }
}

/** The jobs by name. */
export const jobs = { look, stage, take, discard }
export type Jobs = typeof jobs
