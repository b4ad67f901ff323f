/** One authenticated control connection. FTP has no concurrent commands, so it is used by one caller at a time. */
import type { Socket } from 'node:net'
import { Client, FTPError, type FTPResponse } from 'basic-ftp'
import { GatewayError } from '../../src/base/errors.js'
import type { FtpAccount } from './account.js'
import { openDataConnection, type PassiveMode } from './data-connection.js'
import { replyCode, translated } from './errors.js'

/** Milliseconds to connect and authenticate, and for one reply. */
const connectTimeout = 15_000
const replyTimeout = 60_000
/** Milliseconds for the server's reply to a transfer that was aborted by this side. */
export const abortTimeout = 3_000

/** Replies to NOOP: success, or command not implemented. */
const noopReplies: readonly number[] = [200, 502]
/** Reply of some servers to NOOP before they have noticed that the transfer was aborted. */
const notReadyReply = 500

/** Extensions of RFC 959 that the server announces in its reply to FEAT (RFC 2389). */
interface Features {
  /** Whether there are MLST and MLSD (RFC 3659 §7). */
  readonly machineListings: boolean
  /** Whether there is MFMT. */
  readonly setsTimes: boolean
  /** Whether there is REST in stream mode (RFC 3659 §5). */
  readonly restarts: boolean
  /** Whether there is SIZE. */
  readonly tellsSizes: boolean
  /** Whether there is MDTM. */
  readonly tellsTimes: boolean
}

/** A transfer in progress. */
export interface FtpTransfer {
  readonly socket: Socket
  /** Settles with the server's final reply to the transfer. */
  readonly completed: Promise<undefined>
  /**
   * For an aborted transfer: sends NOOP, so that `completed` settles once the server accepts commands again, whether or
   * not it replies to the transfer itself.
   */
  readonly release: () => void
}

export class FtpConnection {
  /** The error by which the connection was lost or closed; undefined while it is open. */
  #cause: GatewayError | undefined
  #data: Socket | undefined
  /** When the connection was last released, as by Date.now(). */
  idleSince = 0

  private constructor(
    private readonly client: Client,
    private readonly passive: PassiveMode,
    readonly features: Features,
  ) {}

  /** Connects and authenticates. Rejects with `denied`, `unavailable`, `timeout` or `aborted`. */
  static async open(account: FtpAccount, passive: PassiveMode, signal: AbortSignal): Promise<FtpConnection> {
    const client = new Client(replyTimeout)
    client.ftp.encoding = 'latin1' // raw bytes, which NameEncoding decodes
    const state = { isTimedOut: false }
    const end = () => client.close()
    const timer = setTimeout(() => {
      state.isTimedOut = true
      end()
    }, connectTimeout)
    signal.addEventListener('abort', end, { once: true })
    try {
      if (signal.aborted) throw new GatewayError('aborted')
      await greet(client, account)
      const features = await signIn(client, account)
      return new FtpConnection(client, passive, features)
    } catch (error) {
      client.close()
      if (signal.aborted) throw new GatewayError('aborted', { cause: error })
      if (state.isTimedOut)
        throw new GatewayError('timeout', { reason: 'the FTP server does not answer', cause: error })
      throw connectError(error)
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
    }
  }

  get broken(): boolean {
    return this.#cause !== undefined || this.client.closed
  }

  close(cause = new GatewayError('aborted', { reason: 'the storage was stopped' })): void {
    this.#cause ??= cause
    this.#data?.destroy(cause)
    this.client.close()
  }

  /** Sends one command and resolves to its reply, both in wire text. */
  async send(command: string): Promise<FTPResponse> {
    return this.#guard(() => this.client.send(command))
  }

  /** Sends RNFR and RNTO. */
  async rename(from: string, to: string): Promise<void> {
    await this.send(`RNFR ${from}`)
    await this.send(`RNTO ${to}`)
  }

  /**
   * Starts a transfer. Resolves once the server has accepted it: after that only the network can fail, or a full disk.
   * `sends`: the transfer is an upload, so the data connection must also be secured.
   */
  async transfer(command: string, { offset = 0, sends = false } = {}): Promise<FtpTransfer> {
    return this.#guard(async () => {
      const { ftp } = this.client
      const { socket, secured } = await openDataConnection(ftp, this.passive, (created) => this.#track(created))
      try {
        if (offset > 0) await this.client.send(`REST ${offset}`)
        let onStarted: () => void
        const started = new Promise<undefined>((resolve) => (onStarted = () => resolve(undefined)))
        const state = {
          isOver: false,
          isReleased: false,
          isNoopRepeated: false,
          transferError: undefined as Error | undefined,
        }
        const completed = this.#guard<undefined>(() =>
          ftp.handle(command, (reply, task) => {
            const code = reply instanceof FTPError ? reply.code : reply instanceof Error ? 0 : reply.code
            if (state.isReleased && code !== 0 && !noopReplies.includes(code)) {
              if (code !== notReadyReply) {
                if (reply instanceof Error) state.transferError = reply
              } else if (!state.isNoopRepeated) {
                // Only once, because Pure-FTPd's final reply to the transfer then has this code, too.
                state.isNoopRepeated = true
                ftp.send('NOOP')
              }
              return
            }
            if (code > 0 && code < 200) {
              // The control connection is silent during the transfer. Stalls are detected on the data connection.
              ftp.socket.setTimeout(0)
              onStarted()
              return
            }
            state.isOver = true
            const refusal = reply instanceof Error ? reply : undefined
            const failure = state.isReleased && code !== 0 ? state.transferError : refusal
            if (failure) task.reject(failure)
            else task.resolve(undefined)
          }),
        )
        const release = () => {
          if (state.isOver || state.isReleased) return
          state.isReleased = true
          // To an aborted transfer some servers send no reply, others two. The reply to NOOP comes after all of them.
          if (!this.client.closed) ftp.send('NOOP')
        }
        completed.catch(() => {
          // Reported to the caller that awaits `completed`. Without the final reply the content is not reliable.
          if (this.broken) socket.destroy(this.#cause)
        })
        await Promise.race([started, completed])
        const transfer = { socket, completed, release }
        const securing = secured()
        securing.catch(() => undefined) // a download is notified by its socket
        if (sends) {
          await Promise.race([securing, completed.then(() => securing)]).catch(async (error: unknown) => {
            await this.abortTransfer(transfer)
            throw error
          })
        }
        return transfer
      } catch (error) {
        socket.destroy()
        throw error
      }
    })
  }

  /** Waits for the final reply, after all bytes were transferred. */
  async completeTransfer({ completed }: FtpTransfer): Promise<void> {
    this.client.ftp.socket.setTimeout(replyTimeout)
    await completed
  }

  /**
   * Aborts a transfer, and waits until the server accepts commands again. Resolves to the error that the server
   * reported for the transfer, if any. If the server does not reply in time, closes the connection.
   */
  async abortTransfer({ socket, completed, release }: FtpTransfer): Promise<GatewayError | undefined> {
    socket.destroy()
    release()
    const timer = setTimeout(() => this.close(new GatewayError('timeout')), abortTimeout)
    const error = await completed.then(() => undefined, translated)
    clearTimeout(timer)
    return error
  }

  /** Registers the socket of a data connection, which is destroyed when the control connection is closed. */
  #track(socket: Socket): void {
    this.#data = socket
    socket.once('close', () => {
      if (this.#data === socket) this.#data = undefined
    })
  }

  async #guard<T>(work: () => Promise<T>): Promise<T> {
    this.#assertOpen()
    try {
      return await work()
    } catch (error) {
      this.#assertOpen()
      if (replyCode(error) === 421) this.close(translated(error))
      if (this.client.closed && !(error instanceof GatewayError)) this.close(lostError(error))
      this.#assertOpen()
      throw translated(error)
    }
  }

  #assertOpen(): void {
    if (this.#cause) throw this.#cause
  }
}

async function greet(client: Client, { host, port, security, tls }: FtpAccount): Promise<void> {
  if (security === 'implicit') {
    await client.connectImplicitTLS(host, port, tls)
    return
  }
  await client.connect(host, port)
  if (security === 'explicit') await client.useTLS(tls)
}

async function signIn(client: Client, { username, password, names, security }: FtpAccount): Promise<Features> {
  const wire = (text: string) => Buffer.from(text).toString('latin1')
  await client.login(wire(username), wire(password))
  const announced = new Set(
    [...(await client.features()).entries()].flatMap(([name, rest]) => [
      name.toUpperCase(),
      `${name} ${rest}`.toUpperCase(),
    ]),
  )
  await client.send('TYPE I')
  // Some servers use UTF-8 for names only after this command, and then for all names
  // (draft-ietf-ftpext-utf-8-option-00).
  await client.sendIgnoringError(names.isUtf8 ? 'OPTS UTF8 ON' : 'OPTS UTF8 OFF')
  if (announced.has('MLST')) await client.sendIgnoringError('OPTS MLST type;size;modify;unique;UNIX.mode;')
  if (security !== 'plain') {
    await client.send('PBSZ 0')
    await client.send('PROT P')
  }
  return {
    machineListings: announced.has('MLST'),
    setsTimes: announced.has('MFMT'),
    restarts: announced.has('REST STREAM'),
    tellsSizes: announced.has('SIZE'),
    tellsTimes: announced.has('MDTM'),
  }
}

function connectError(error: unknown): GatewayError {
  const known = translated(error)
  if (replyCode(error) === 421) {
    return new GatewayError('unavailable', { reason: 'the FTP server accepts no further connections', cause: error })
  }
  return known.code === 'internal' ? lostError(error) : known
}

/** The error for a connection that the library has closed. Only the message of its error says why. */
function lostError(error: unknown): GatewayError {
  const isTimeout = error instanceof Error && /timeout/i.test(error.message)
  return isTimeout
    ? new GatewayError('timeout', { reason: 'the FTP server does not answer', cause: error })
    : new GatewayError('unavailable', { reason: 'the connection to the FTP server broke', cause: error })
}
