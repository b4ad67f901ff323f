/**
 * What the second thread does, see `second-thread.ts`: plain data in, plain data out. Whatever it cannot do it leaves to whoever asked,
 * and says only that.
 */
import fs, { constants } from 'node:fs'
import { statusOf, type Status } from './entry.js'

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY, S_IFMT, S_IFREG } = constants
const exactIfThere = { bigint: true, throwIfNoEntry: false } as const

/** Names separated by NUL, each to be looked up right behind `prefix`. */
export interface LookOrder {
  readonly prefix: string
  readonly names: string
}

/** In the order of the names: revisions, separated by NUL and empty where nothing is told; mode, size, modified, created as in `Status`. */
export interface LookAnswer {
  readonly revisions: string
  readonly numbers: Float64Array
}

export const numbersPerName = 4

function look({ prefix, names }: LookOrder): LookAnswer {
  const all = names.split('\0')
  const numbers = new Float64Array(all.length * numbersPerName)
  const revisions = all.map((name, index) => {
    const status = lookedAt(prefix + name)
    if (!status) return ''
    const { revision, mode, size, modified, created } = status
    numbers.set([mode, size, modified, created], index * numbersPerName)
    return revision
  })
  return { revisions: revisions.join('\0'), numbers }
}

function lookedAt(path: string): Status | undefined {
  try {
    const stats = fs.lstatSync(path, exactIfThere)
    return stats && statusOf(stats)
  } catch {
    return undefined
  }
}

/** A file whose bytes go from one folder into another, under another name. */
export interface StageFile {
  readonly name: string
  readonly staged: string
  /** Of the file as it must be, before and after. */
  readonly revision: string
  readonly size: number
  readonly mode: number | undefined
  /** As `systemTime` tells it. */
  readonly modified: number | Date
}

/** Each prefix is what a name is put right behind. */
export interface StageOrder {
  readonly from: string
  readonly staging: string
  readonly files: readonly StageFile[]
}

/** Whether all of each file is there under its staged name; nothing is, where it is not. */
function stage({ from, staging, files }: StageOrder): readonly boolean[] {
  return files.map((file) => isStaged(from + file.name, staging + file.staged, file))
}

function isStaged(from: string, at: string, { revision, size, mode, modified }: StageFile): boolean {
  let isLeft = false
  let source: number | undefined
  let copy: number | undefined
  const isAsTold = () => {
    const status = lookedAt(from)
    return status?.revision === revision && (status.mode & S_IFMT) === S_IFREG
  }
  try {
    // Before it is opened: a device could do anything.
    if (!isAsTold()) return false
    source = fs.openSync(from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    copy = fs.openSync(at, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o666)
    isLeft = true
    const bytes = copyBytes(source, copy)
    if (mode !== undefined) fs.fchmodSync(copy, mode & 0o7777)
    fs.futimesSync(copy, Date.now() / 1000, modified)
    // Whatever else was opened under this name, or written to it meanwhile, its status has changed.
    isLeft = bytes !== size || !isAsTold()
    return !isLeft
  } catch {
    return false
  } finally {
    if (source !== undefined) fs.closeSync(source)
    if (copy !== undefined) fs.closeSync(copy)
    if (isLeft) unlink(at)
  }
}

let buffer: Buffer | undefined

/** How many they are. */
function copyBytes(from: number, to: number): number {
  buffer ??= Buffer.allocUnsafeSlow(256 * 1024)
  for (let position = 0; ;) {
    const bytes = fs.readSync(from, buffer, 0, buffer.length, position)
    for (let written = 0; written < bytes;) written += fs.writeSync(to, buffer, written, bytes - written)
    position += bytes
    if (bytes < buffer.length) return position
  }
}

/** Staged files, by the names that they are to take. */
export interface TakeOrder {
  readonly staging: string
  readonly to: string
  readonly files: readonly { readonly name: string; readonly staged: string }[]
  /** The same was ordered before, and maybe done in part. */
  readonly isRepeated: boolean
}

/** What stands under each name that was free; undefined for one that was not. None is left staged. */
function take({ staging, to, files, isRepeated }: TakeOrder): readonly (Status | undefined)[] {
  return files.map(({ name, staged }) => {
    const [at, place] = [staging + staged, to + name]
    const isTaken = links(at, place) || (isRepeated && isOurs(at, place))
    unlink(at)
    return isTaken ? lookedAt(place) : undefined
  })
}

/** A rename would take the name from whoever got it first; a second name for the same file cannot. */
function links(at: string, place: string): boolean {
  try {
    fs.linkSync(at, place)
    return true
  } catch {
    return false
  }
}

/** Nobody else removes what is staged: where it is gone, it has its name. */
function isOurs(at: string, place: string): boolean {
  const [staged, standing] = [at, place].map((path) => fs.lstatSync(path, exactIfThere))
  return standing !== undefined && (staged === undefined || staged.ino === standing.ino)
}

export interface DiscardOrder {
  readonly staging: string
  readonly names: readonly string[]
}

function discard({ staging, names }: DiscardOrder): true {
  for (const name of names) unlink(staging + name)
  return true
}

function unlink(at: string): void {
  try {
    fs.unlinkSync(at)
  } catch {
    // It is swept with the rest of this run.
  }
}

/** By the name of the order. */
export const work = { look, stage, take, discard }
export type Work = typeof work
