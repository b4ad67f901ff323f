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
  /** Of its file system; undefined where the folder is gone. */
  device(): Promise<bigint | undefined>
  /** The same one for another user, who closes it too. */
  share(): Folder
  close(): void
}

/** A descriptor with several users; the last one closes it. */
export class Handle {
  #users = 1
  /** Of a folder: it stays on its file system. */
  device: bigint | undefined

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

  async device(): Promise<bigint | undefined> {
    this.handle.device ??= await deviceOf(this)
    return this.handle.device
  }

  share(): HandleFolder {
    return new HandleFolder(this.host, this.calls, this.handle.share())
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

  device(): Promise<bigint | undefined> {
    return deviceOf(this)
  }

  share(): this {
    return this
  }

  close(): void {
    // Nothing is held.
  }
}

async function deviceOf(folder: Folder): Promise<bigint | undefined> {
  return (await folder.calls.lstat(folder.at('.')))?.dev
}

export function joined(folder: string, name: string): string {
  return folder === '/' ? `/${name}` : `${folder}/${name}`
}
