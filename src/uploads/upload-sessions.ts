/** The uploads that are received in chunks: who has which, how many there are, and when they end. */
import type { Principal } from '../accounts/principal.js'
import { GatewayError } from '../base/errors.js'
import { under, type Path } from '../base/path.js'
import type { TaskUploads } from '../transfer/task-uploads.js'
import type { VirtualFs } from '../tree/virtual-fs.js'
import { isSameFile, UploadSession, type AnnouncedFile, type UploadTimes } from './upload-session.js'

interface UploadSessionsOptions {
  readonly as: (principal: Principal) => VirtualFs
  readonly uploads: Pick<TaskUploads, 'forSession'>
  readonly times?: Partial<SessionTimes>
}

/** The times of sessions, in milliseconds. */
interface SessionTimes extends UploadTimes {
  /** Milliseconds for which a session lasts in which nothing happens. */
  readonly idle: number
  /** Milliseconds for which a completed upload is known as such. */
  readonly completed: number
  /** Milliseconds for which `open` waits until the storage receives. */
  readonly open: number
}

const defaultTimes: SessionTimes = {
  hold: 10_000,
  maxHold: 50_000,
  takeOver: 5000,
  idle: 30 * 60_000,
  completed: 5 * 60_000,
  open: 5000,
}

/** Maximum numbers of unfinished sessions: of one user, and of all. */
const maxPerUser = 32
const maxUnfinished = 256
/** Maximum number of completed sessions of all users. The oldest are forgotten first. */
const maxCompleted = 1000
/** The longest time that `close` takes, in milliseconds. */
export const uploadsCloseTimeout = 10_000

export class UploadSessions {
  readonly #times: SessionTimes
  /** The sessions by id, in the order of their start. */
  readonly #sessions = new Map<string, UploadSession>()
  /** What is left of sessions that have ended is being discarded. */
  readonly #ending = new Set<Promise<void>>()
  readonly #timer: NodeJS.Timeout
  #isClosed = false

  constructor(private readonly options: UploadSessionsOptions) {
    this.#times = { ...defaultTimes, ...options.times }
    this.#timer = setInterval(() => this.#sweep(), Math.min(60_000, this.#times.idle / 4)).unref()
  }

  /**
   * Starts an upload, or resumes the one that `find` finds if it is of the same file; one of another file is aborted.
   * `chunkSize`: bytes of each chunk but the last, for a new upload. `id`: that of an earlier upload, if it is known.
   * Rejects as `VirtualFs.write` does before it reads the source, and with `throttled` if there are too many uploads.
   * `resumed`: bytes of an earlier attempt are kept.
   */
  async open(
    principal: Principal,
    file: AnnouncedFile,
    chunkSize: number,
    signal: AbortSignal,
    id?: string,
  ): Promise<{ readonly session: UploadSession; readonly resumed: boolean }> {
    const fs = this.options.as(principal)
    const { path, createOnly, password, modified } = file
    await fs.assertWritable(path, { createOnly, password, modified, signal })
    const earlier = this.find(principal, path, file.size, id)
    if (earlier && canContinue(earlier, file)) {
      if (earlier.state !== 'receiving') await earlier.start(fs, file, this.#times.open)
      earlier.touch()
      return { session: earlier, resumed: true }
    }
    if (earlier) void this.#drop(earlier)
    this.#assertRoom(principal.userId)
    const upload = this.options.uploads.forSession(under(principal.base, path))
    const session = new UploadSession(principal.userId, file, chunkSize, upload, this.#times)
    this.#sessions.set(session.id, session)
    await session.start(fs, file, this.#times.open)
    if (session.failure === undefined) return { session, resumed: false }
    void this.#drop(session)
    throw session.failure
  }

  /** Rejects with `not_found` for an unknown session, and with `denied` for one of another user. */
  get(principal: Principal, id: string): UploadSession {
    const session = this.#sessions.get(id)
    if (!session) throw new GatewayError('not_found', { reason: 'there is no such upload' })
    if (session.userId !== principal.userId) {
      throw new GatewayError('denied', { reason: 'the upload belongs to another user' })
    }
    return session
  }

  /**
   * The unfinished upload of the user, for a path relative to the base; undefined if there is none. That of a guest is
   * found by its id only: all guests are one user.
   */
  find(principal: Principal, path: Path, size: number, id?: string): UploadSession | undefined {
    return [...this.#sessions.values()].find(
      (session) =>
        session.userId === principal.userId &&
        (session.id === id || principal.role !== 'guest') &&
        session.file.path === path &&
        session.file.size === size &&
        session.state !== 'completed',
    )
  }

  /** Ends a session. Resolves when nothing of it remains, or after a time. */
  abort(session: UploadSession): Promise<void> {
    return this.#drop(session)
  }

  /** Ends all sessions. Takes at most `uploadsCloseTimeout`. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#timer)
    for (const session of this.#sessions.values()) void this.#drop(session)
    await Promise.all(this.#ending)
  }

  #drop(session: UploadSession): Promise<void> {
    this.#sessions.delete(session.id)
    const ending = session.abort().finally(() => this.#ending.delete(ending))
    this.#ending.add(ending)
    return ending
  }

  #assertRoom(userId: number): void {
    if (this.#isClosed) throw new GatewayError('aborted')
    const unfinished = [...this.#sessions.values()].filter(({ state }) => state !== 'completed')
    const own = unfinished.filter((session) => session.userId === userId)
    // As in `FairShare`: no more than what is left.
    if (own.length < Math.min(maxPerUser, maxUnfinished - unfinished.length)) return
    throw new GatewayError('throttled', { reason: 'too many uploads are open', retryAfter: 60 })
  }

  /** Ends idle sessions, and forgets completed ones. */
  #sweep(): void {
    const completed = [...this.#sessions.values()].filter(({ state }) => state === 'completed')
    for (const session of completed.slice(0, -maxCompleted)) this.#sessions.delete(session.id)
    for (const session of this.#sessions.values()) {
      const limit = session.state === 'completed' ? this.#times.completed : this.#times.idle
      if (session.idle > limit) void this.#drop(session)
    }
  }
}

function canContinue(session: UploadSession, file: AnnouncedFile): boolean {
  return (session.state === 'receiving' || session.state === 'failed_retriable') && isSameFile(session.file, file)
}
