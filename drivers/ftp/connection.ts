/** One connection to the server, signed in. It does one thing at a time: whoever has it has it alone. */
import type { Socket } from 'node:net'
import { Client, FTPError, type FTPResponse } from 'basic-ftp'
import { GatewayError } from '../../src/errors.js'
import type { Account } from './account.js'
import { openDataConnection, type PassiveMode } from './data-connection.js'
import { replyCode, translated } from './errors.js'

/** Milliseconds to connect and sign in, and for one answer. */
const connectLimit = 15_000
const answerLimit = 60_000
/** Milliseconds that the server has to say how a transfer ended that was broken off here. */
export const breakLimit = 3_000

/** What is answered to NOOP: that it was done, or that nobody knows it. */
const noopAnswers: readonly number[] = [200, 502]
/** What some answer to it while they have not noticed yet that the transfer is over. */
const notNow = 500

/** What the server can do beside RFC 959, as FEAT (RFC 2389) tells. */
export interface Features {
  /** MLST and MLSD: facts for machines. */
  readonly machineListings: boolean
  readonly setsTimes: boolean
  readonly restarts: boolean
  readonly tellsSizes: boolean
  readonly tellsTimes: boolean
}

/** A transfer whose bytes flow. */
export interface Transfer {
  readonly socket: Socket
  /** The server's last word on it. */
  readonly completed: Promise<undefined>
  /** Lets `completed` settle as soon as the server listens again, whether or not it says how the transfer ended. */
  readonly release: () => void
}

export class Connection {
  #cause: GatewayError | undefined
  #data: Socket | undefined
  /** When it was given back, by Date.now(). */
  idleSince = 0

  private constructor(
    private readonly client: Client,
    private readonly passive: PassiveMode,
    readonly features: Features,
  ) {}

  /** Rejects with `unauthenticated`, `unavailable` or `timeout`. */
  static async open(account: Account, passive: PassiveMode, signal: AbortSignal): Promise<Connection> {
    const client = new Client(answerLimit)
    client.ftp.encoding = 'latin1' // bytes: what they mean is told by NameEncoding
    const late = { is: false }
    const end = () => client.close()
    const timer = setTimeout(() => {
      late.is = true
      end()
    }, connectLimit)
    signal.addEventListener('abort', end, { once: true })
    try {
      if (signal.aborted) throw new GatewayError('aborted')
      await greet(client, account)
      const features = await signIn(client, account)
      return new Connection(client, passive, features)
    } catch (error) {
      client.close()
      if (signal.aborted) throw new GatewayError('aborted', { cause: error })
      if (late.is) throw new GatewayError('timeout', { reason: 'the FTP server does not answer', cause: error })
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

  /** One command and its answer, in wire text. */
  async ask(command: string): Promise<FTPResponse> {
    return this.#guard(() => this.client.send(command))
  }

  /** Two commands of which the second needs the first. */
  async rename(from: string, to: string): Promise<void> {
    await this.ask(`RNFR ${from}`)
    await this.ask(`RNTO ${to}`)
  }

  /** Settles once the server has begun: from there on it is only the network that can fail, or a full disk. */
  async transfer(command: string, { offset = 0, sends = false } = {}): Promise<Transfer> {
    return this.#guard(async () => {
      const { ftp } = this.client
      const { socket, secured } = await openDataConnection(ftp, this.passive, (made) => this.#hold(made))
      try {
        if (offset > 0) await this.client.send(`REST ${offset}`)
        let begin: () => void
        const begun = new Promise<undefined>((resolve) => (begin = () => resolve(undefined)))
        const state = {
          isOver: false,
          isReleased: false,
          isAskedAgain: false,
          complaint: undefined as Error | undefined,
        }
        const completed = this.#guard<undefined>(() =>
          ftp.handle(command, (answer, task) => {
            const code = answer instanceof FTPError ? answer.code : answer instanceof Error ? 0 : answer.code
            if (state.isReleased && code !== 0 && !noopAnswers.includes(code)) {
              if (code !== notNow) {
                if (answer instanceof Error) state.complaint = answer
              } else if (!state.isAskedAgain) {
                // Only once: Pure-FTPd's last word on the transfer bears this code too then.
                state.isAskedAgain = true
                ftp.send('NOOP')
              }
              return
            }
            if (code > 0 && code < 200) {
              // Nothing is said here while the bytes flow: how long that takes is watched on the other connection.
              ftp.socket.setTimeout(0)
              begin()
              return
            }
            state.isOver = true
            const refusal = answer instanceof Error ? answer : undefined
            const failure = state.isReleased && code !== 0 ? state.complaint : refusal
            if (failure) task.reject(failure)
            else task.resolve(undefined)
          }),
        )
        const release = () => {
          if (state.isOver || state.isReleased) return
          state.isReleased = true
          // Some servers say nothing of a transfer that was broken off, others twice: what is answered to this comes after all that.
          if (!this.client.closed) ftp.send('NOOP')
        }
        completed.catch(() => {
          // Told to who waits for it. Without the server's word the bytes are worth nothing.
          if (this.broken) socket.destroy(this.#cause)
        })
        await Promise.race([begun, completed])
        const transfer = { socket, completed, release }
        const securing = secured()
        securing.catch(() => undefined) // who reads hears of it from the socket
        if (sends) {
          await Promise.race([securing, completed.then(() => securing)]).catch(async (error: unknown) => {
            await this.breakOff(transfer)
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

  /** The bytes are through: the server's last word is due. */
  async end({ completed }: Transfer): Promise<void> {
    this.client.ftp.socket.setTimeout(answerLimit)
    await completed
  }

  /** Breaks a transfer off, and waits until the server has noticed: only then anything else can be asked. Resolves to its complaint. */
  async breakOff({ socket, completed, release }: Transfer): Promise<GatewayError | undefined> {
    socket.destroy()
    release()
    const timer = setTimeout(() => this.close(new GatewayError('timeout')), breakLimit)
    const complaint = await completed.then(() => undefined, translated)
    clearTimeout(timer)
    return complaint
  }

  /** Data flows, or is to flow, over this socket: it ends with the connection. */
  #hold(socket: Socket): void {
    this.#data = socket
    socket.once('close', () => {
      if (this.#data === socket) this.#data = undefined
    })
  }

  async #guard<T>(work: () => Promise<T>): Promise<T> {
    this.#assertStanding()
    try {
      return await work()
    } catch (error) {
      this.#assertStanding()
      if (replyCode(error) === 421) this.close(translated(error))
      if (this.client.closed && !(error instanceof GatewayError)) this.close(lostError(error))
      this.#assertStanding()
      throw translated(error)
    }
  }

  #assertStanding(): void {
    if (this.#cause) throw this.#cause
  }
}

async function greet(client: Client, { host, port, security, tls }: Account): Promise<void> {
  if (security === 'implicit') {
    await client.connectImplicitTLS(host, port, tls)
    return
  }
  await client.connect(host, port)
  if (security === 'explicit') await client.useTLS(tls)
}

async function signIn(client: Client, { username, password, names, security }: Account): Promise<Features> {
  const wire = (text: string) => Buffer.from(text).toString('latin1')
  await client.login(wire(username), wire(password))
  const told = new Set(
    [...(await client.features()).entries()].flatMap(([name, rest]) => [
      name.toUpperCase(),
      `${name} ${rest}`.toUpperCase(),
    ]),
  )
  await client.send('TYPE I')
  // Some write names in UTF-8 only when told so, and all names in it once they were told.
  await client.sendIgnoringError(names.isUtf8 ? 'OPTS UTF8 ON' : 'OPTS UTF8 OFF')
  if (told.has('MLST')) await client.sendIgnoringError('OPTS MLST type;size;modify;unique;UNIX.mode;')
  if (security !== 'plain') {
    await client.send('PBSZ 0')
    await client.send('PROT P')
  }
  return {
    machineListings: told.has('MLST'),
    setsTimes: told.has('MFMT'),
    restarts: told.has('REST STREAM'),
    tellsSizes: told.has('SIZE'),
    tellsTimes: told.has('MDTM'),
  }
}

function connectError(error: unknown): GatewayError {
  const known = translated(error)
  if (replyCode(error) === 421) {
    return new GatewayError('unavailable', { reason: 'the FTP server takes no connection now', cause: error })
  }
  return known.code === 'internal' ? lostError(error) : known
}

/** Of a connection that the library has given up; it tells why in words alone. */
function lostError(error: unknown): GatewayError {
  const isLate = error instanceof Error && /timeout/i.test(error.message)
  return isLate
    ? new GatewayError('timeout', { reason: 'the FTP server does not answer', cause: error })
    : new GatewayError('unavailable', { reason: 'the connection to the FTP server broke', cause: error })
}
