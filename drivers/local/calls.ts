/**
 * The system calls of this driver, in two ways. On a warm local disk a hop through the thread pool costs ten times the
 * call, so there they are made synchronously; on a disk that may make us wait, they are not. Both ways have one shape:
 * callers `await` the answer, which costs next to nothing where it is there already.
 */
import fs, { type BigIntStats } from 'node:fs'
import { promisify } from 'node:util'

type Answer<T> = T | Promise<T>

export interface Calls {
  /** Whether an answer is there at once. */
  readonly immediate: boolean
  open(path: string, flags: number, mode?: number): Answer<number>
  close(fd: number): Answer<void>
  /** Of a link itself; undefined where nothing is there. */
  lstat(path: string): Answer<BigIntStats | undefined>
  fstat(fd: number): Answer<BigIntStats>
  readlink(path: string): Answer<string>
  realpath(path: string): Answer<string>
  mkdir(path: string, mode: number): Answer<void>
  rmdir(path: string): Answer<void>
  unlink(path: string): Answer<void>
  rename(from: string, to: string): Answer<void>
  link(from: string, to: string): Answer<void>
  symlink(target: string, path: string): Answer<void>
  chmod(path: string, mode: number): Answer<void>
  fchmod(fd: number, mode: number): Answer<void>
  fchown(fd: number, user: number, group: number): Answer<void>
  /** Numbers are seconds. */
  utimes(path: string, accessed: number | Date, modified: number | Date): Answer<void>
  /** Of a link itself. */
  lutimes(path: string, accessed: number | Date, modified: number | Date): Answer<void>
  futimes(fd: number, accessed: number | Date, modified: number | Date): Answer<void>
  ftruncate(fd: number, size: number): Answer<void>
  /** Resolves to the bytes read. */
  read(fd: number, into: Buffer, offset: number, length: number, position: number): Answer<number>
  /** Resolves to the bytes written. */
  writev(fd: number, from: readonly Buffer[], position: number): Answer<number>
}

const exact = { bigint: true } as const
const exactIfThere = { bigint: true, throwIfNoEntry: false } as const

export const immediateCalls: Calls = {
  immediate: true,
  open: fs.openSync,
  close: fs.closeSync,
  lstat: (path) => fs.lstatSync(path, exactIfThere),
  fstat: (fd) => fs.fstatSync(fd, exact),
  readlink: (path) => fs.readlinkSync(path),
  realpath: (path) => fs.realpathSync.native(path),
  mkdir: (path, mode) => {
    fs.mkdirSync(path, mode)
  },
  rmdir: (path) => fs.rmdirSync(path),
  unlink: fs.unlinkSync,
  rename: fs.renameSync,
  link: fs.linkSync,
  symlink: (target, path) => fs.symlinkSync(target, path),
  chmod: fs.chmodSync,
  fchmod: fs.fchmodSync,
  fchown: fs.fchownSync,
  utimes: fs.utimesSync,
  lutimes: fs.lutimesSync,
  futimes: fs.futimesSync,
  ftruncate: fs.ftruncateSync,
  read: fs.readSync,
  writev: fs.writevSync,
}

const lstat = promisify(fs.lstat)
const fstat = promisify(fs.fstat)
const mkdir = promisify(fs.mkdir)
const rmdir = promisify(fs.rmdir)
const readlink = promisify(fs.readlink)
const symlink = promisify(fs.symlink)
const read = promisify(fs.read)
const writev = promisify(fs.writev)

export const patientCalls: Calls = {
  immediate: false,
  open: promisify(fs.open),
  close: promisify(fs.close),
  lstat: (path) =>
    lstat(path, exact).catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      throw error
    }),
  fstat: (fd) => fstat(fd, exact),
  readlink: (path) => readlink(path),
  realpath: promisify(fs.realpath.native),
  mkdir: async (path, mode) => {
    await mkdir(path, { mode })
  },
  rmdir: (path) => rmdir(path),
  unlink: promisify(fs.unlink),
  rename: promisify(fs.rename),
  link: promisify(fs.link),
  symlink: (target, path) => symlink(target, path),
  chmod: promisify(fs.chmod),
  fchmod: promisify(fs.fchmod),
  fchown: promisify(fs.fchown),
  utimes: promisify(fs.utimes),
  lutimes: promisify(fs.lutimes),
  futimes: promisify(fs.futimes),
  ftruncate: promisify(fs.ftruncate),
  read: async (fd, into, offset, length, position) => (await read(fd, into, offset, length, position)).bytesRead,
  writev: async (fd, from, position) => (await writev(fd, from, position)).bytesWritten,
}

/** Milliseconds after which a synchronous call is called slow. None is made then for ten times as long as it took, at most a while. */
const slow = { call: 50, times: 10, atMost: 10_000 }
/** Milliseconds of synchronous calls, one after the other, after which the next gives way to whatever else waits for its turn. */
const turn = 10

/** Says which way is right now: patient for a while after a call that took long, and where many have followed one another. */
export class Pace {
  #patientUntil = 0
  /** When the first call of this turn of the event loop began; 0 before it. */
  #turnBegan = 0
  #turnIsOver = false
  readonly #timed: Calls

  constructor(immediate: Calls = immediateCalls) {
    const timed: Record<string, unknown> = { immediate: true }
    for (const [name, call] of Object.entries(immediate)) {
      if (typeof call === 'function') timed[name] = this.#timing(call as (...args: never[]) => unknown)
    }
    this.#timed = timed as unknown as Calls
  }

  get calls(): Calls {
    if (this.#turnIsOver) return patientCalls
    return this.#patientUntil > 0 && performance.now() < this.#patientUntil ? patientCalls : this.#timed
  }

  #timing(call: (...args: never[]) => unknown): (...args: never[]) => unknown {
    return (...args) => {
      const begin = performance.now()
      if (this.#turnBegan === 0) this.#begin(begin)
      try {
        return call(...args)
      } finally {
        const end = performance.now()
        const took = end - begin
        this.#turnIsOver = end - this.#turnBegan > turn
        if (took > slow.call) this.#patientUntil = end + Math.min(took * slow.times, slow.atMost)
      }
    }
  }

  #begin(now: number): void {
    this.#turnBegan = now
    setImmediate(() => {
      this.#turnBegan = 0
      this.#turnIsOver = false
    })
  }
}

/** All of these bytes, from `position` on: a call may write fewer than asked, and takes so many buffers at most. */
export async function writeAll(calls: Calls, fd: number, from: readonly Buffer[], position: number): Promise<void> {
  let rest: readonly Buffer[] = from
  let at = position
  while (rest.length > 0) {
    const part = rest.length > buffersAtOnce ? rest.slice(0, buffersAtOnce) : rest
    const written = await calls.writev(fd, part, at)
    at += written
    rest = without(rest, written)
  }
}

/** Linux's IOV_MAX. */
const buffersAtOnce = 1024

function without(buffers: readonly Buffer[], bytes: number): readonly Buffer[] {
  let left = bytes
  let index = 0
  for (; index < buffers.length; index++) {
    const length = buffers[index]?.length ?? 0
    if (length > left) break
    left -= length
  }
  const [first, ...others] = buffers.slice(index)
  return first && left > 0 ? [first.subarray(left), ...others] : buffers.slice(index)
}
