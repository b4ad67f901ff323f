/** A server that the bench measures: ourselves, or one that people choose instead of us. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { RunningProcess } from './process.js'

const run = promisify(execFile)

export type PeerName = 'tidegate' | 'node' | 'rclone' | 'nginx' | 'apache' | 'openssh' | 'cp'

/** What all peers of one run share. */
export interface Ground {
  /** Of this run alone; removed at its end. */
  readonly folder: string
  /** The folder that every peer serves: the same files on the same disk for all of them. */
  readonly files: string
  /** Private key of the SFTP client; its public half lies beside it with `.pub`. */
  readonly clientKey: string
}

export interface HttpDoor {
  /** With a trailing slash where it is a folder. */
  readonly url: string
  /** Sent with every request. */
  readonly headers: Readonly<Record<string, string>>
}

export interface SftpDoor {
  readonly port: number
  readonly username: string
}

export interface Peer {
  readonly name: PeerName
  /** The address and query under which a file is read over plain HTTP; absent: it has no such door. */
  readonly download?: ((file: string) => Promise<string>) | undefined
  readonly dav?: HttpDoor | undefined
  /** The request that lists a folder over plain HTTP, by its name below the served folder. */
  readonly listing?: ((folder: string) => HttpDoor) | undefined
  readonly sftp?: SftpDoor | undefined
  /** The address that answers a few fixed bytes: what HTTP alone costs. */
  readonly ping?: string | undefined
  /** Everything that runs for this peer. */
  readonly processes: readonly RunningProcess[]
}

export interface PeerType {
  readonly name: PeerName
  /** Its version in a few words; undefined: it is not installed. */
  version(): Promise<string | undefined>
  /** Resolves once it accepts; rejects, with nothing left running, where it does not in time. */
  start(ground: Ground): Promise<Peer>
}

/** What `program` prints, one line of it; undefined where there is no such program. */
export async function versionLine(program: string, words: readonly string[]): Promise<string | undefined> {
  try {
    const { stdout, stderr } = await run(program, [...words], { timeout: 10_000 })
    return (stdout + stderr).split('\n')[0]?.trim()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** A path as it stands in a URL. */
export function encodedPath(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/')
}
