/** What calls of a driver, of a storage and of the tree have in common: their options, ranges and sources of bytes. */
import type { Readable } from 'node:stream'
import type { Entry, Hashes } from './entry.js'
import type { Holder } from '../base/fair-share.js'

/** A value that is available now, or later. `await` takes both; `instanceof Promise` tells them apart. */
export type Awaitable<T> = T | Promise<T>

export interface CallOptions {
  readonly signal?: AbortSignal | undefined
  /**
   * Who the bytes are for: an account, or the network of a visitor; absent for the gateway itself. Limits ensure that
   * none can occupy all of a backend's capacity. A driver built on other storages passes it through.
   */
  readonly holder?: Holder | undefined
}

export interface StatOptions extends CallOptions {
  /** The entry of the symlink itself, if one is at the path, not of its target. */
  readonly ofSymlink?: boolean | undefined
}

export interface ReadOptions extends CallOptions {
  /**
   * The file as the caller has seen it by `stat` or a listing: what the driver keeps of it, such as a link, may be
   * used.
   */
  readonly entry?: Entry | undefined
}

export interface ListOptions extends CallOptions {
  /** The caller asked for the current state: a backend that caches listings itself should not use its cache. */
  readonly refresh?: boolean | undefined
  /**
   * Returns the entry of an earlier listing by name. If that entry is still accurate, the driver may report the same
   * object again instead of a new one.
   */
  readonly known?: ((name: string) => Entry | undefined) | undefined
}

export interface WriteOptions extends CallOptions {
  readonly modified?: Date | undefined
  readonly mode?: number | undefined
  /** Rejects with `exists` if the name is taken; atomic if the backend supports it. */
  readonly createOnly?: boolean | undefined
  /**
   * Called once, after every byte has arrived and before the staged file is published under its name (in a backend
   * without staging: before the last byte is sent, or, of an empty file, before the request). If it rejects, the old
   * file is unchanged.
   */
  readonly beforePublish?: (() => Promise<void>) | undefined
}

/** A range of bytes. Without a length, it extends to the end. A length of 0 is zero bytes. */
export interface ByteRange {
  readonly offset: number
  readonly length?: number | undefined
}

/** Readable bytes: a stored file, or an upload that is being received. */
export interface Source {
  /** Bytes; absent if not yet known. */
  readonly size?: number | undefined
  readonly modified?: Date | undefined
  readonly hashes?: Hashes | undefined
  /** false: `read` may be called only once, and without a range. */
  readonly rereadable: boolean
  /**
   * All of them, if they are in memory: they need not be read as a stream then, and must not be modified. A copy of the
   * source with another `read` must not have them.
   */
  readonly bytes?: Buffer | undefined
  read(range?: ByteRange, options?: CallOptions): Promise<Readable>
}
