/** A handle whose calls are watched: to guard it, to measure and throttle it, and to follow its changes. */
import type { Attributes, OpenFile, WritableFile } from '../contract/capabilities.js'
import type { Entry } from '../contract/entry.js'
import type { Awaitable } from '../contract/call-options.js'
import type { StagedHandle } from './ending-writes.js'

/** Callbacks around the calls of a handle. */
export interface FileHooks {
  /** Called before every call except `close`. If it throws, the call rejects with that error. */
  readonly before?: (() => void) | undefined
  /** Makes a call of the handle: by default at once. */
  readonly call?: (<T>(work: () => Promise<T>) => Promise<T>) | undefined
  /** How a handle that stages a file commits and closes, by `close`: by default as it is asked to. */
  readonly staged?: ((close: () => Promise<void>) => StagedHandle) | undefined
  /** Awaited before a read or write of `bytes` bytes. */
  readonly reading?: ((bytes: number) => Promise<void>) | undefined
  readonly writing?: ((bytes: number) => Promise<void>) | undefined
  /** Called with the number of bytes after each read and write that succeeds. */
  readonly didRead?: ((bytes: number) => void) | undefined
  readonly didWrite?: ((bytes: number) => void) | undefined
  /** Called before each `write` and `truncate`. */
  readonly changing?: (() => Awaitable<void>) | undefined
  /** Called before `commit`. */
  readonly committing?: (() => void) | undefined
  /** Called with the stored entry after `commit`. Returns the entry that `commit` resolves to. */
  readonly committed?: ((stored: Entry, attributes: Attributes) => Promise<Entry>) | undefined
  /** Converts an error before it is reported. */
  readonly failed?: ((error: unknown, op: 'read' | 'write' | 'close') => unknown) | undefined
  /** Called after `close`, also if it rejects. */
  readonly closed?: (() => void) | undefined
  /** Called after `close` and after `commit`, also if they reject. */
  readonly ended?: (() => void) | undefined
}

/** Returns a handle with the same methods as `file`, each of which runs the hooks. */
export function withHooks(file: WritableFile, hooks: FileHooks): WritableFile
export function withHooks(file: OpenFile, hooks: FileHooks): OpenFile
export function withHooks(file: OpenFile, hooks: FileHooks): OpenFile {
  const { before, reading, didRead, closed, ended, call = atOnce, failed = unchanged } = hooks
  const staged = hooks.staged?.(() => call(() => file.close()))
  const over: HookedFile = {
    entry: file.entry,
    read: async (into, position) => {
      try {
        before?.()
        if (reading) await reading(into.length)
        const bytes = await call(() => file.read(into, position))
        didRead?.(bytes)
        return bytes
      } catch (error) {
        throw failed(error, 'read')
      }
    },
    close: async () => {
      try {
        await (staged ? staged.close() : call(() => file.close()))
      } catch (error) {
        throw failed(error, 'close')
      } finally {
        closed?.()
        ended?.()
      }
    },
  }
  if (file.preferredReadSize !== undefined) over.preferredReadSize = file.preferredReadSize
  if (file.write || file.truncate || file.sync || file.commit) addWrites(over, file, hooks, staged)
  return over
}

type HookedFile = { -readonly [Key in keyof OpenFile]: OpenFile[Key] }

const unchanged = (error: unknown): unknown => error
const atOnce = <T>(work: () => Promise<T>): Promise<T> => work()

/** Adds those methods of `file` that only a handle for writing has. */
function addWrites(over: HookedFile, file: OpenFile, hooks: FileHooks, staged: StagedHandle | undefined): void {
  const { before, writing, didWrite, changing, committing, committed, ended } = hooks
  const { call = atOnce, failed = unchanged } = hooks
  const [write, truncate] = [file.write?.bind(file), file.truncate?.bind(file)]
  const [sync, commit] = [file.sync?.bind(file), file.commit?.bind(file)]
  if (write) {
    over.write = async (from, position) => {
      try {
        before?.()
        const bytes = from.reduce((sum, { length }) => sum + length, 0)
        if (writing) await writing(bytes)
        // Without a pause: the order of writes is kept.
        const checking = changing?.()
        if (checking) await checking
        await call(() => write(from, position))
        didWrite?.(bytes)
      } catch (error) {
        throw failed(error, 'write')
      }
    }
  }
  if (truncate) {
    over.truncate = async (size) => {
      try {
        before?.()
        await changing?.()
        await call(() => truncate(size))
      } catch (error) {
        throw failed(error, 'write')
      }
    }
  }
  if (sync) {
    over.sync = async () => {
      try {
        before?.()
        await call(sync)
      } catch (error) {
        throw failed(error, 'write')
      }
    }
  }
  if (commit) {
    over.commit = async (attributes = {}) => {
      try {
        before?.()
        committing?.()
        const publish = () => call(() => commit(attributes))
        const stored = await (staged ? staged.commit(publish) : publish())
        return committed ? await committed(stored, attributes) : stored
      } catch (error) {
        throw failed(error, 'write')
      } finally {
        ended?.()
      }
    }
  }
}
