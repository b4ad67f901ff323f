/** An open folder. Names in it are used relative to its handle where the system supports that. */
import { closeSync, readlinkSync, realpathSync, type BigIntStats } from 'node:fs'
import type { Awaitable } from '../../src/contract/call-options.js'
import type { Syscalls } from './syscalls.js'

/** An open folder inside the root. The owner closes it. */
export interface Folder {
  /** The real path of the folder on the host. */
  readonly host: string
  readonly calls: Syscalls
  /** The path of a name in this folder, to pass to system calls. */
  pathOf(name: string): string
  /** The path of the folder itself, to pass to system calls. */
  readonly selfPath: string
  /** Whether the folder is still located at `host`. */
  isUnmoved(): boolean
  /** The status of the folder itself; undefined if it was removed. */
  status(): Awaitable<BigIntStats | undefined>
  /** The device number; undefined if the folder was removed. */
  device(): Awaitable<bigint | undefined>
  /** Another reference to the folder, which must be closed too. */
  share(): Folder
  close(): void
}

/**
 * A folder on Linux, used through its descriptor, which remains valid when the folder is moved. The last reference
 * closes it.
 */
export class HandleFolder implements Folder {
  readonly selfPath: string
  #references = 1
  /** The device of the folder, which cannot change while it is open. */
  #device: bigint | undefined

  constructor(
    readonly host: string,
    readonly calls: Syscalls,
    private readonly fd: number,
  ) {
    this.selfPath = `/proc/self/fd/${fd}`
  }

  pathOf(name: string): string {
    return `${this.selfPath}/${name}`
  }

  isUnmoved(): boolean {
    return readlinkSync(this.selfPath) === this.host
  }

  status(): Awaitable<BigIntStats | undefined> {
    // By path where calls may block: a network file system may answer for a handle from its cache.
    if (!this.calls.immediate) return this.calls.lstat(this.pathOf('.'))
    const stats = this.calls.fstat(this.fd)
    return stats instanceof Promise || stats.nlink > 0n ? stats : undefined
  }

  device(): Awaitable<bigint | undefined> {
    return this.#device ?? this.#lookUpDevice()
  }

  async #lookUpDevice(): Promise<bigint | undefined> {
    return (this.#device = (await this.status())?.dev)
  }

  share(): this {
    this.#references++
    return this
  }

  close(): void {
    if (--this.#references === 0) closeSync(this.fd)
  }
}

/** A folder on other systems, used through its path. */
export class PlainFolder implements Folder {
  constructor(
    readonly host: string,
    readonly calls: Syscalls,
  ) {}

  get selfPath(): string {
    return this.host
  }

  pathOf(name: string): string {
    return joined(this.host, name)
  }

  isUnmoved(): boolean {
    return realpathSync.native(this.host) === this.host
  }

  status(): Awaitable<BigIntStats | undefined> {
    return this.calls.lstat(this.pathOf('.'))
  }

  async device(): Promise<bigint | undefined> {
    return (await this.status())?.dev
  }

  share(): this {
    return this
  }

  close(): void {
    // There is no handle to close.
  }
}

export function joined(folder: string, name: string): string {
  return folder === '/' ? `/${name}` : `${folder}/${name}`
}
