/** The interface to the external programs that download for users, and HTTP calls to them. */
import { GatewayError, toGatewayError } from '../base/errors.js'
import { joinSignals } from '../base/cancellation.js'

/** The progress of a download. */
export interface Progress {
  /** 'unknown': the program does not list the download; 'done': its files are complete. */
  readonly state: 'unknown' | 'working' | 'done' | 'failed'
  /** The program's own description of the state. */
  readonly text: string
  /** Bytes of the download; 0 if not known yet. */
  readonly totalBytes: number
  readonly doneBytes: number
  /** Seconds of seeding since the download was complete; 0 if it is not a torrent. */
  readonly seeded: number
  /** The error of a failed download. */
  readonly error?: GatewayError
}

/** The input of a download, already checked. */
export type DownloadInput =
  | { readonly kind: 'address' | 'magnet'; readonly address: string }
  | { readonly kind: 'torrent'; readonly torrent: Buffer }

/** Identifies a download in the program. It is stored, so the download is found again after a restart. */
export interface DownloadKey {
  /** Letters, digits, `-` and `_`. */
  readonly id: string
  /** Absolute path of a folder that contains nothing but this download. */
  readonly folder: string
}

/**
 * All methods reject with `unavailable` if the program does not answer, and with `denied` if it rejects the
 * credentials.
 */
export interface DownloadTool {
  readonly name: string
  /** The keys of the settings for its address and credentials. */
  readonly settingKeys: readonly string[]
  /** Supported URL schemes, with their colons. */
  readonly schemes: readonly string[]
  /** True if the tool downloads torrents only: every http address is then fetched as a torrent. */
  readonly onlyTorrents: boolean
  /** The version of the program. */
  probe(signal: AbortSignal): Promise<string>
  /** Starts a download. The program must not list it yet. */
  start(key: DownloadKey, input: DownloadInput, signal: AbortSignal): Promise<void>
  /** Updates the proxy of a download that an earlier run, possibly of an earlier process, has started. */
  updateProxy?(key: DownloadKey, signal: AbortSignal): Promise<void>
  progress(key: DownloadKey, signal: AbortSignal): Promise<Progress>
  /**
   * Stops and removes a download. An unknown one is no error. `withFiles`: deletes its files too, if the program can.
   */
  remove(key: DownloadKey, withFiles: boolean, signal: AbortSignal): Promise<void>
}

export const simpleHttp = 'SimpleHttp'

/**
 * Tools of cloud services. A download by one of them that no storage provides is accepted, and then fails. Drivers
 * provide some of them (`facts.downloadTool`); this program supports none of the others.
 */
export const cloudTools: readonly string[] = [
  ...['115 Cloud', '115 Open', '123Pan', '123 Open', 'PikPak', 'Thunder', 'ThunderX', 'ThunderBrowser', 'GuangYaPan'],
]

/** Maximum milliseconds of one call. */
const timeout = 10_000

export interface ProgramResponse {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

/**
 * Sends a request. An admin sets the address of the program, so the egress guard does not apply; a redirect fails.
 * Rejects with `unavailable` if the program does not answer in time.
 */
export async function callProgram(
  name: string,
  url: string | URL,
  init: RequestInit & { readonly signal: AbortSignal },
): Promise<ProgramResponse> {
  // AbortSignal.any does not reference the timeout signal: once that is garbage-collected, the call has no timeout
  // (nodejs/node#57736).
  const joined = joinSignals(init.signal, AbortSignal.timeout(timeout))
  try {
    const response = await fetch(url, { ...init, signal: joined.signal, redirect: 'error' })
    return { status: response.status, headers: response.headers, text: await response.text() }
  } catch (error) {
    const failure = toGatewayError(error)
    if (failure.code === 'aborted' && init.signal.aborted) throw failure
    throw new GatewayError('unavailable', { reason: `${name} does not answer`, cause: error })
  } finally {
    joined.release()
  }
}
