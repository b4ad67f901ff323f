/** What fetches for users: programs beside the gateway, each behind this interface. */

import type { GatewayError } from '../errors.js'

/** How far a download is. */
export interface Progress {
  /** 'unknown': the program has never heard of it, or forgotten it; 'done': its files are whole. */
  readonly state: 'unknown' | 'working' | 'done' | 'failed'
  /** In the words of the program. */
  readonly text: string
  /** 0 while that is not known. */
  readonly totalBytes: number
  readonly doneBytes: number
  /** Seconds that it has given to others since it was whole; 0 of what is no torrent. */
  readonly seeded: number
  /** Why it failed. */
  readonly error?: GatewayError
}

/** What is to be fetched, checked. */
export type Wanted =
  | { readonly kind: 'address' | 'magnet'; readonly address: string }
  | { readonly kind: 'torrent'; readonly torrent: Buffer }

/** A download, by names that outlive this process: whoever knows them finds it again in the program. */
export interface DownloadKey {
  /** Letters, digits, `-` and `_`. */
  readonly id: string
  /** Absolute; nothing but this download is in there. */
  readonly folder: string
}

/** Everything rejects with `unavailable` where the program does not answer, and with `denied` where it does not let us in. */
export interface DownloadTool {
  readonly name: string
  /** Of the settings that say where it is, and how it lets us in. */
  readonly accessKeys: readonly string[]
  /** Schemes that it is asked for, with their colons. */
  readonly schemes: readonly string[]
  /** Whether what it is asked for is a torrent, whatever the address looks like. */
  readonly onlyTorrents: boolean
  /** The version of the program. */
  probe(signal: AbortSignal): Promise<string>
  /** To be called for what is unknown alone. */
  start(key: DownloadKey, wanted: Wanted, signal: AbortSignal): Promise<void>
  /** One that it was told of by an earlier run, maybe of an earlier process, connects by the way that is open now. */
  goOn?(key: DownloadKey, signal: AbortSignal): Promise<void>
  progress(key: DownloadKey, signal: AbortSignal): Promise<Progress>
  /** Stops and forgets it; what is unknown is no error. `withFiles`: they go too, as far as the program can. */
  remove(key: DownloadKey, withFiles: boolean, signal: AbortSignal): Promise<void>
}

export const simpleHttp = 'SimpleHttp'

/** Tools of services whose storages this program does not have: a download by one of them is accepted, and fails. */
export const cloudTools: readonly string[] = [
  ...['115 Cloud', '115 Open', '123Pan', '123 Open', 'PikPak', 'Thunder', 'ThunderX', 'ThunderBrowser', 'GuangYaPan'],
]
