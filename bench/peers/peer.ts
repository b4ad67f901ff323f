/** The servers that the bench measures: Tidegate and its alternatives. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { RunningProcess } from './process.js'

const run = promisify(execFile)

/** In the order of tables. */
export const peerNames = ['tidegate', 'node', 'rclone', 'nginx', 'apache', 'openssh', 'cp'] as const
export type PeerName = (typeof peerNames)[number]

/** The environment that all peers of one run share. */
export interface Ground {
  /** The temporary folder of this run. */
  readonly folder: string
  /** The folder that every peer serves. */
  readonly files: string
  /** Path of the SFTP client's private key. The public key has the suffix `.pub`. */
  readonly clientKey: string
}

export interface HttpProtocol {
  /** Ends with a slash if it is a folder. */
  readonly url: string
  /** Sent with every request. */
  readonly headers: Readonly<Record<string, string>>
}

/** The ports of a peer that checks credentials over WebDAV alone. */
export interface HttpPorts {
  readonly http: number
  readonly dav: number
}

export interface SftpServer {
  readonly port: number
  readonly username: string
}

export interface Peer {
  readonly name: PeerName
  /** The URL that downloads a file over plain HTTP; absent if the peer does not support it. */
  readonly download?: ((file: string) => Promise<string>) | undefined
  readonly dav?: HttpProtocol | undefined
  /** The request that lists a folder over plain HTTP. `folder` is relative to the served folder. */
  readonly listing?: ((folder: string) => HttpProtocol) | undefined
  readonly sftp?: SftpServer | undefined
  /** A URL with a short constant response, to measure the cost of HTTP alone. */
  readonly ping?: string | undefined
  /** All processes of this peer. */
  readonly processes: readonly RunningProcess[]
}

export interface PeerType {
  readonly name: PeerName
  /** The version as a short text; undefined if it is not installed. */
  version(): Promise<string | undefined>
  /** Resolves once the peer accepts connections. On a timeout, stops its processes and rejects. */
  start(ground: Ground): Promise<Peer>
}

/** A line of the output of `program`; undefined if the program does not exist. */
export async function versionLine(program: string, words: readonly string[]): Promise<string | undefined> {
  try {
    const { stdout, stderr } = await run(program, [...words], { timeout: 10_000 })
    return (stdout + stderr).split('\n')[0]?.trim()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** A path, percent-encoded for a URL. */
export function encodedPath(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/')
}
