/**
 * The system calls of this driver, synchronous and asynchronous. On a cached local disk a call through the thread pool
 * takes ten times as long as the call itself, so synchronous calls are used there. Where a call may block, asynchronous
 * ones are used. Both have one interface: callers `await` the result, which costs little if it is available
 * immediately.
 */
import fs, { type BigIntStats } from 'node:fs'
import { promisify } from 'node:util'
import { decodeUtf8 } from '../../src/base/utf8.js'
import type { Awaitable } from '../../src/contract/call-options.js'

export interface Syscalls {
  /** Whether calls are synchronous. */
  readonly immediate: boolean
  open(path: string, flags: number, mode?: number): Awaitable<number>
  close(fd: number): Awaitable<void>
  /** Does not follow a symlink. Undefined if nothing exists there. */
  lstat(path: string): Awaitable<BigIntStats | undefined>
  fstat(fd: number): Awaitable<BigIntStats>
  /** Undefined if the target is not UTF-8. */
  readlink(path: string): Awaitable<string | undefined>
  realpath(path: string): Awaitable<string>
  mkdir(path: string, mode: number): Awaitable<void>
  rmdir(path: string): Awaitable<void>
  unlink(path: string): Awaitable<void>
  rename(from: string, to: string): Awaitable<void>
  link(from: string, to: string): Awaitable<void>
  symlink(target: string, path: string): Awaitable<void>
  chmod(path: string, mode: number): Awaitable<void>
  fchmod(fd: number, mode: number): Awaitable<void>
  fchown(fd: number, user: number, group: number): Awaitable<void>
  /** Times as numbers are in seconds. */
  utimes(path: string, accessed: number | Date, modified: number | Date): Awaitable<void>
  /** Does not follow a symlink. */
  lutimes(path: string, accessed: number | Date, modified: number | Date): Awaitable<void>
  futimes(fd: number, accessed: number | Date, modified: number | Date): Awaitable<void>
  ftruncate(fd: number, size: number): Awaitable<void>
  /** Resolves to the number of bytes read. */
  read(fd: number, into: Buffer, offset: number, length: number, position: number): Awaitable<number>
  /** Resolves to the number of bytes written. */
  writev(fd: number, from: readonly Buffer[], position: number): Awaitable<number>
}

const exact = { bigint: true } as const
const exactOrUndefined = { bigint: true, throwIfNoEntry: false } as const

export const syncSyscalls: Syscalls = {
  immediate: true,
  open: fs.openSync,
  close: fs.closeSync,
  lstat: (path) => fs.lstatSync(path, exactOrUndefined),
  fstat: (fd) => fs.fstatSync(fd, exact),
  readlink: (path) => decodeUtf8(fs.readlinkSync(path, 'buffer')),
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

/** Shared by all storages, which may be on the same folders. */
const shared = {
  /** The number of the current turn of the event loop, and of the moves and removals of folders so far. */
  turn: 0,
  /** The results of lookups in this event of the event loop, by path of the host. */
  found: new Map<string, BigIntStats | undefined>(),
}

/**
 * A new map, not `clear`: V8 links the old table of a map to the next one, so that after one of them has survived a
 * minor collection, all that was ever found would survive until a full one.
 */
function forget(): void {
  if (shared.found.size > 0) shared.found = new Map()
}

/** Returns the call, which ends a turn for `turnNumber` before its caller continues. */
function moving<Args extends unknown[]>(call: (...args: Args) => Promise<void>): (...args: Args) => Promise<void> {
  return (...args) => call(...args).finally(() => shared.turn++)
}

const lstat = promisify(fs.lstat)
const fstat = promisify(fs.fstat)
const mkdir = promisify(fs.mkdir)
const rmdir = moving((path: string) => fs.promises.rmdir(path))
const readlink = promisify(fs.readlink)
const symlink = promisify(fs.symlink)
const read = promisify(fs.read)
const writev = promisify(fs.writev)

export const asyncSyscalls: Syscalls = {
  immediate: false,
  open: promisify(fs.open),
  close: promisify(fs.close),
  lstat: (path) =>
    lstat(path, exact).catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      throw error
    }),
  fstat: (fd) => fstat(fd, exact),
  readlink: async (path) => decodeUtf8(await readlink(path, 'buffer')),
  realpath: promisify(fs.realpath.native),
  mkdir: async (path, mode) => {
    await mkdir(path, { mode })
  },
  rmdir,
  unlink: promisify(fs.unlink),
  rename: moving(promisify(fs.rename)),
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

/**
 * A synchronous call that takes longer than `threshold` makes calls asynchronous for `factor` times its duration, at
 * most `maxBackoff`. In milliseconds.
 */
const slowCall = { threshold: 50, factor: 10, maxBackoff: 10_000 }
/** Maximum milliseconds of consecutive synchronous calls in one turn of the event loop. */
const maxSyncTime = 10

type CallName = Exclude<keyof Syscalls, 'immediate'>
type AnyCall = (...args: never[]) => unknown

/** The calls that change nothing that `lstat` tells. */
const reading: ReadonlySet<string> = new Set(['lstat', 'fstat', 'readlink', 'realpath', 'read', 'close'])

/**
 * Chooses between synchronous and asynchronous calls, anew for each call. Uses asynchronous ones for a while after a
 * slow call, and when one turn of the event loop has spent its time.
 */
export class SyncAsyncPolicy {
  #asyncUntil = 0
  /** When this turn of the event loop was first noticed; undefined before that. */
  #turnStart: number | undefined
  #isTurnSpent = false
  /**
   * The calls. `immediate` is the choice at this moment: it remains true until the next call. An open file may keep
   * them.
   */
  readonly calls: Syscalls
  readonly #calls: { [name: string]: unknown; immediate: boolean } = { immediate: true }

  /** `clock`: its `now` returns milliseconds. */
  constructor(
    immediate: Syscalls = syncSyscalls,
    private readonly clock: { now(): number } = performance,
  ) {
    for (const [name, call] of Object.entries(immediate)) {
      if (typeof call === 'function') this.#calls[name] = this.#chosen(name as CallName, call as AnyCall)
    }
    this.calls = this.#calls as unknown as Syscalls
  }

  /** The call, which is timed, or its asynchronous form. */
  #chosen(name: CallName, call: AnyCall): AnyCall {
    const movesFolders = name === 'rename' || name === 'rmdir'
    const changes = !reading.has(name)
    const asyncCall = (asyncSyscalls as unknown as Readonly<Record<CallName, AnyCall>>)[name]
    return (...args) => {
      const start = this.clock.now()
      if (!this.#calls.immediate && !this.#choose(start)) return asyncCall(...args)
      if (movesFolders) shared.turn++
      if (changes) forget()
      const turnStart = (this.#turnStart ??= this.#watchTurn(start))
      try {
        return call(...args)
      } finally {
        const end = this.clock.now()
        if (end - turnStart > maxSyncTime) this.#isTurnSpent = true
        if (end - start > slowCall.threshold)
          this.#asyncUntil = end + Math.min((end - start) * slowCall.factor, slowCall.maxBackoff)
        if (this.#isTurnSpent || this.#asyncUntil > end) this.#calls.immediate = false
      }
    }
  }

  /** Chooses again. Whether calls are synchronous now. */
  #choose(now: number): boolean {
    return (this.#calls.immediate = !this.#isTurnSpent && now >= this.#asyncUntil)
  }

  /**
   * The number of this turn of the event loop. It also changes when this process moves or removes a folder. Requests
   * that have arrived together are handled in one turn.
   */
  get turnNumber(): number {
    this.#turnStart ??= this.#watchTurn(this.clock.now())
    return shared.turn
  }

  /**
   * Like `lstat` of `at`, synchronously. Later lookups of this path of the host in the same event return the same,
   * until this process changes anything. An event is, for example, the data that a connection has received, and all
   * that follows from it without waiting. What another program has done before that data arrived is found.
   */
  lookUp(host: string, at: string): BigIntStats | undefined {
    const { found } = shared
    const known = found.get(host)
    if (known || found.has(host)) return known
    // Called before Node handles the next event (Node.js: The Node.js Event Loop).
    if (found.size === 0) process.nextTick(forget)
    const stats = this.calls.lstat(at) as BigIntStats | undefined
    found.set(host, stats)
    return stats
  }

  #watchTurn(start: number): number {
    // Called once all events are handled that were ready together (Node.js: The Node.js Event Loop).
    setImmediate(() => {
      shared.turn++
      this.#turnStart = undefined
      this.#isTurnSpent = false
      if (!this.#calls.immediate) this.#choose(this.clock.now())
    })
    return start
  }
}

/** fsync(2): resolves when the data of a file, or the entries of a folder, are on the medium. */
export const syncFile = promisify(fs.fsync)

/**
 * Writes all buffers from `position` on. One writev(2) may write fewer bytes than requested, and takes a limited number
 * of buffers.
 */
export async function writeAll(calls: Syscalls, fd: number, from: readonly Buffer[], position: number): Promise<void> {
  let rest: readonly Buffer[] = from
  let at = position
  while (rest.length > 0) {
    const part = rest.length > maxBuffers ? rest.slice(0, maxBuffers) : rest
    const written = await calls.writev(fd, part, at)
    at += written
    rest = skipBytes(rest, written)
  }
}

/** `IOV_MAX` of Linux (writev(2)). */
const maxBuffers = 1024

function skipBytes(buffers: readonly Buffer[], bytes: number): readonly Buffer[] {
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
