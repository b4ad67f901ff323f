/** One upload: a file, or an empty folder, on its way to a path of the tree. */
import { signal } from '@preact/signals'
import { nameOf } from '../components/places.ts'
import { Speed } from './speed.ts'

export type UploadState =
  | 'waiting'
  | 'sending'
  /** All bytes are sent, and the server has not yet confirmed that they are stored. */
  | 'storing'
  /** The user is asked what happens to the file that exists. */
  | 'asking'
  | 'paused'
  /** The server cannot be reached. */
  | 'disconnected'
  | 'stored'
  | 'skipped'
  | 'failed'

/** What happens if a file of the same name exists. */
export type ConflictChoice = 'replace' | 'skip' | 'keepBoth'

/** What was chosen or dropped at once. */
export interface Batch {
  /** The folder that it was chosen for. */
  readonly folder: string
  /** The choice for all conflicts, if the user has made one. */
  choice?: ConflictChoice
}

export interface Progress {
  readonly sent: number
  /** The speed in bytes per second; undefined until it is known. */
  readonly speed: number | undefined
}

let lastId = 0

export class Upload {
  readonly id = ++lastId
  readonly name: string
  /** The size in bytes; 0 for a folder. */
  readonly size: number
  readonly state = signal<UploadState>('waiting')
  /** Why it has failed. */
  readonly failure = signal('')
  /** What is shown of `sent`. */
  readonly progress = signal<Progress>({ sent: 0, speed: undefined })
  readonly speed = new Speed()
  /** Bytes that were sent so far. */
  sent = 0
  /** Bytes that the server has confirmed. A part of a file is confirmed only if it is sent in parts. */
  confirmed = 0
  /** The server's identifier of an upload in parts. */
  session: string | undefined
  /** The path that it is stored at: another one than was wanted if both files are kept. */
  path: string
  choice: ConflictChoice | undefined
  /** Ends the requests that are running for it. */
  stop = new AbortController()

  /** `file` is absent for an empty folder. */
  constructor(
    readonly batch: Batch,
    readonly wantedPath: string,
    readonly file?: File,
  ) {
    this.path = wantedPath
    this.name = nameOf(wantedPath)
    this.size = file?.size ?? 0
  }

  /** Whether it has neither ended nor failed. */
  get isUnfinished(): boolean {
    return !endStates.has(this.state.peek())
  }

  /** Whether it would go on by itself, or after an answer of the user. */
  get isActive(): boolean {
    return this.isUnfinished && this.state.peek() !== 'paused'
  }
}

const endStates: ReadonlySet<UploadState> = new Set(['stored', 'skipped', 'failed'])
