/** A folder that is open: names in it are used relative to its handle where the system has such a way. */
import { closeSync, readlinkSync, realpathSync } from 'node:fs'
import type { Calls } from './calls.js'

/** A folder inside of the root, held until `close`. */
export interface Folder {
  /** Its real path. */
  readonly host: string
  readonly calls: Calls
  /** What to call a name in it by. */
  at(name: string): string
  /** The folder itself. */
  readonly self: string
  /** Whether it is still where it was. */
  stands(): boolean
  close(): void
}

/** A descriptor with several users; the last one closes it. */
export class Handle {
  #users = 1

  constructor(readonly fd: number) {}

  share(): this {
    this.#users++
    return this
  }

  release(): void {
    if (--this.#users === 0) closeSync(this.fd)
  }
}

/** Linux: by its descriptor, wherever it is moved. */
export class HandleFolder implements Folder {
  readonly self: string

  constructor(
    readonly host: string,
    readonly calls: Calls,
    readonly handle: Handle,
  ) {
    this.self = `/proc/self/fd/${handle.fd}`
  }

  at(name: string): string {
    return `${this.self}/${name}`
  }

  stands(): boolean {
    return readlinkSync(this.self) === this.host
  }

  close(): void {
    this.handle.release()
  }
}

/** Elsewhere: by its path. */
export class PlainFolder implements Folder {
  constructor(
    readonly host: string,
    readonly calls: Calls,
  ) {}

  get self(): string {
    return this.host
  }

  at(name: string): string {
    return joined(this.host, name)
  }

  stands(): boolean {
    return realpathSync.native(this.host) === this.host
  }

  close(): void {
    // Nothing is held.
  }
}

export function joined(folder: string, name: string): string {
  return folder === '/' ? `/${name}` : `${folder}/${name}`
}
