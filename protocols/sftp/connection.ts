/** One SSH connection: signs the user in, serves SFTP sessions and rejects everything else. */
import type { Socket } from 'node:net'
import type { Principal } from '../../src/accounts/principal.js'
import { sharedController } from '../../src/base/cancellation.js'
import { GatewayError, hasDetail, toGatewayError } from '../../src/base/errors.js'
import type { FairShare, Release } from '../../src/base/fair-share.js'
import { logInternal, type Log } from '../../src/base/log.js'
import type { ClientConnection } from '../../src/gateway/connections.js'
import type { ProtocolGateway } from '../../src/gateway/protocol-gateway.js'
import { plainAddress } from '../../src/net/addresses.js'
import { algorithms } from './algorithms.js'
import { sftp } from './index.js'
import { HeldBytes, type ByteBudget } from './byte-budget.js'
import type { KeyExchanges, KeyExchangeTurn } from './key-exchanges.js'
import { ReadGate, yieldToOthers } from './read-gate.js'
import type { SftpLimits } from './server.js'
import { SftpSession } from './session.js'
import { symlinkOrderOf, type SymlinkOrder } from './symlink-order.js'
import { methodsOf, signIn, type SignInDependencies } from './sign-in.js'
import ssh2, { type AuthContext, type Connection, type ParsedKey, type ServerChannel, type Session } from 'ssh2'

/** The parts of the gateway that this protocol uses. */
export type SftpGateway = SignInDependencies & Pick<ProtocolGateway, 'as' | 'descriptors' | 'log'>

/** Maximum number of authentication requests of a connection, including queries for keys without a signature. */
const attemptLimit = 20

/** Milliseconds from the key exchange in which clients sign in that need no input of a user. */
const usualSignInTime = 10_000

/** Maximum bytes of answers that a client may leave unread before it has signed in. */
const maxUnsentBeforeSignIn = 1024 * 1024

interface SftpConnectionOptions {
  readonly hostKeys: readonly ParsedKey[]
  readonly limits: SftpLimits
  readonly budget: ByteBudget
  /** Bytes that are held for clients: received and not read, or not sent yet. */
  readonly held: FairShare
  /** The connections that have signed in. */
  readonly signedIn: FairShare
  /** Clients of this name are refused. */
  readonly pseudonym: string | undefined
  /** The key exchanges of connections that have signed in, by user. */
  readonly rekeys: KeyExchanges
  /** The turn of this connection for its first key exchange. */
  readonly turn: KeyExchangeTurn
}

export class SftpConnection {
  readonly #sessions = new Set<SftpSession>()
  readonly #address: string
  /** Aborted when the socket has closed. */
  readonly #disconnected = sharedController()
  readonly #readGate: ReadGate
  readonly #log: Log
  readonly #loginTimer: NodeJS.Timeout
  /** Runs until the first key exchange. */
  #startTimer: NodeJS.Timeout | undefined
  /** When the first key exchange began, in milliseconds. */
  #started = Infinity
  #idleTimer: NodeJS.Timeout | undefined
  #connection: Connection | undefined
  #principal: Principal | undefined
  /** When the user has signed in. */
  #since = new Date()
  /** The bytes that are not sent yet, counted once the user has signed in. */
  #unsent: HeldBytes | undefined
  /** Set when the user has signed in. */
  #release: Release | undefined
  #symlinkOrder: SymlinkOrder = 'target first'
  #attempts = 0
  /** Whether the accounts have recorded an attempt to sign in that was refused. */
  #hasRecordedRefusal = false
  /** The last one that they have not recorded: one with a key, of which clients try several. */
  #refusal: { readonly username: string; readonly error: GatewayError } | undefined
  #channels = 0
  #draining = false

  constructor(
    private readonly gateway: SftpGateway,
    private readonly socket: Socket,
    private readonly options: SftpConnectionOptions,
  ) {
    const { hostKeys, limits, pseudonym } = options
    this.#address = plainAddress(socket.remoteAddress ?? '') ?? ''
    this.#log = gateway.log.child({ protocol: 'sftp', address: this.#address })
    this.#readGate = new ReadGate(socket)
    const server = new ssh2.Server(
      {
        hostKeys: hostKeys.map((key) => ({ key })),
        algorithms,
        ident: 'Tidegate',
        banner: gateway.settings.get('announcement'),
        keepaliveInterval: limits.keepaliveSeconds * 1000,
        keepaliveCountMax: 3,
      },
      (connection, { header }) => {
        const { software } = header.versions
        this.#symlinkOrder = symlinkOrderOf(software)
        this.#log.debug({ client: software, symlinkOrder: this.#symlinkOrder }, 'SFTP client identified')
        this.#accept(connection)
        if (software !== pseudonym) return
        this.#log.warn({}, 'an SFTP storage of this gateway leads back to it, and is refused')
        this.end()
      },
    )
    this.#loginTimer = setTimeout(() => {
      this.#log.info({}, 'sign-in timed out')
      socket.destroy()
    }, limits.loginSeconds * 1000)
    socket.once('close', () => this.#closed())
    // ssh2 reports no error that occurs before the client's first line (ssh2: lib/server.js).
    socket.on('error', (error) => this.#log.debug({ err: error }, 'SFTP connection error'))
    const start = () => {
      this.#startTimer = undefined
      this.#started = performance.now()
      server.injectSocket(socket)
    }
    if (options.turn.wait === 0) start()
    else this.#startTimer = setTimeout(start, options.turn.wait)
  }

  /** Whether its key exchange has not begun. */
  get isWaiting(): boolean {
    return this.#startTimer !== undefined
  }

  /** Whether it has not signed in for longer than a client takes. */
  get isLate(): boolean {
    return !this.signedIn && performance.now() - this.#started > usualSignInTime
  }

  get signedIn(): boolean {
    return this.#principal !== undefined
  }

  /** What it is for those who ask who is connected; undefined until the user has signed in. */
  get shown(): ClientConnection | undefined {
    if (!this.#principal) return undefined
    const { userId, username, protocol } = this.#principal
    return {
      key: this.socket,
      protocol: protocol.name,
      user: { id: userId, name: username },
      address: this.#address,
      since: this.#since,
      received: this.socket.bytesRead,
      sent: this.socket.bytesWritten,
      end: () => this.end(),
    }
  }

  /** Accepts no further sessions and ends the connection once all sessions are idle. */
  drain(): void {
    this.#draining = true
    this.#endIfIdle()
  }

  /** Resolves when its sessions have ended and their open files are closed or published. */
  async filesClosed(): Promise<void> {
    await Promise.all([...this.#sessions].map((session) => session.filesClosed))
  }

  /**
   * Ends the connection immediately. Uploads without CLOSE are discarded, or published partially if the setting
   * `sftp_keep_partial_uploads` is on.
   */
  end(): void {
    for (const session of this.#sessions) session.abort()
    this.#connection?.end()
    if (this.#connection) setTimeout(() => this.socket.destroy(), 1000).unref()
    else this.socket.destroy()
  }

  /** ssh2 answers requests of the connection itself, whether or not the client reads the answers. */
  #countUnsent(): void {
    const { writableLength } = this.socket
    try {
      if (this.#unsent) this.#unsent.set(writableLength)
      else if (writableLength > maxUnsentBeforeSignIn) throw new GatewayError('busy')
    } catch (error) {
      this.#log.warn({ err: error }, 'the client does not read what it is sent')
      this.socket.destroy()
    }
  }

  #accept(connection: Connection): void {
    this.#connection = connection
    // ssh2 reads the socket by now; before, listeners of `data` would lose what it has not read.
    yieldToOthers(this.socket, this.#readGate)
    this.socket.on('data', () => this.#countUnsent()).on('drain', () => this.#countUnsent())
    connection.on('error', (error: Error) => this.#log.debug({ err: error }, 'SFTP connection error'))
    connection.on('rekey', () => this.#slowDown())
    connection.on('authentication', (context) => void this.#signIn(context))
    connection.on('session', (accept, reject) => {
      if (this.#channels >= this.options.limits.sessions || this.#draining) reject()
      else this.#serve(accept())
    })
  }

  /**
   * Called when the client has exchanged the keys anew, which nothing else limits. It is counted by user, so that new
   * connections from a network do not end the running transfers of others in it.
   */
  #slowDown(): void {
    const turn = this.options.rekeys.reserve(`user ${this.#principal?.holder ?? this.#address}`)
    if (turn === undefined) {
      this.#log.info({}, 'too many key exchanges')
      this.end()
    } else if (turn.wait > 0) {
      this.#readGate.acquire(this)
      setTimeout(() => this.#readGate.release(this), turn.wait).unref()
    }
  }

  async #signIn(context: AuthContext): Promise<void> {
    const { settings, accounts } = this.gateway
    try {
      if (++this.#attempts > attemptLimit) {
        this.#log.info({ user: context.username }, 'too many sign-in attempts')
        this.end()
        return
      }
      const result = await signIn({ settings, accounts }, context, {
        address: this.#address,
        signal: this.#disconnected.signal,
      })
      if (result === 'offered') context.accept()
      else this.#accepted(context, result.principal)
    } catch (error) {
      const cause = toGatewayError(error)
      logInternal(this.#log, cause, { user: context.username, method: context.method })
      // RFC 4252, section 5.2: clients ask with the method `none` first which methods there are. That is no refusal.
      if (context.method !== 'none') {
        const isRecorded = accounts.signIn.hasRecorded(cause)
        // The accounts log what they record, but for a code that is still missing.
        if (!isRecorded || hasDetail(cause, 'code_required')) {
          this.#log.info({ user: context.username, method: context.method, reason: cause.reason }, 'sign-in refused')
        }
        if (isRecorded) this.#hasRecordedRefusal = true
        else if (cause.code !== 'aborted') this.#refusal = { username: context.username, error: cause }
      }
      context.reject(methodsOf({ settings }))
    }
  }

  #accepted(context: AuthContext, principal: Principal): void {
    if (this.#principal || this.socket.destroyed) return
    try {
      this.#release = this.options.signedIn.take(principal.holder)
    } catch {
      this.#log.warn({ user: principal.username }, 'a user has too many SFTP connections')
      context.reject()
      this.end()
      return
    }
    this.#principal = principal
    this.#since = new Date()
    this.#unsent = new HeldBytes(this.options.held, principal.holder)
    clearTimeout(this.#loginTimer)
    principal.signal.addEventListener('abort', this.#onRevoked, { once: true })
    this.#watchIdle()
    this.#log.info({ user: principal.username, method: context.method }, 'signed in')
    context.accept()
  }

  readonly #onRevoked = (): void => {
    this.#log.info({}, 'session revoked')
    this.end()
  }

  #serve(session: Session): void {
    this.#channels++
    session.on('pty', acceptAndIgnore)
    session.on('env', acceptAndIgnore)
    session.on('shell', (accept) => rejectCommand(this.#openChannel(accept)))
    session.on('exec', (accept) => rejectCommand(this.#openChannel(accept)))
    let sftp: SftpSession | undefined
    session.on('subsystem', (accept, reject, { name }) => {
      if (name === 'sftp' && !sftp && this.#principal) {
        sftp = this.#start(
          this.#openChannel(accept, () => sftp?.countUnread()),
          this.#principal,
        )
      } else reject()
    })
    session.on('close', () => {
      this.#channels--
      sftp?.abort()
    })
  }

  #openChannel(accept: () => ServerChannel, received: () => void = () => undefined): ServerChannel {
    const channel = accept()
    const exceeded = () => {
      this.#log.warn({}, 'the client sends more than the window of a channel permits')
      this.socket.destroy()
    }
    enforceWindow(channel, { exceeded, received })
    return channel
  }

  #start(channel: ServerChannel, principal: Principal): SftpSession {
    const session = new SftpSession(channel, this.socket, {
      fs: this.gateway.as(principal),
      owner: { id: principal.userId, name: principal.username },
      revoked: principal.signal,
      log: this.#log,
      readGate: this.#readGate,
      handleLimit: this.options.limits.handles,
      symlinkOrder: this.#symlinkOrder,
      budget: this.options.budget,
      unread: new HeldBytes(this.options.held, principal.holder),
      publishesPartialUploads: () => this.gateway.settings.bool('sftp_keep_partial_uploads'),
      onIdle: () => this.#endIfIdle(),
    })
    this.#sessions.add(session)
    void session.filesClosed.then(() => {
      this.#sessions.delete(session)
      this.#endIfIdle()
    })
    return session
  }

  #endIfIdle(): void {
    if (this.#draining && [...this.#sessions].every((session) => session.idle)) this.end()
  }

  #watchIdle(): void {
    const { idleSeconds } = this.options.limits
    if (idleSeconds === 0) return
    const since = Date.now()
    this.#idleTimer = setInterval(
      () => {
        const last = Math.max(since, ...[...this.#sessions].map((session) => session.lastRequest))
        if (Date.now() - last < idleSeconds * 1000) return
        this.#log.info({}, 'idle connection closed')
        this.end()
      },
      Math.max(1000, (idleSeconds * 1000) / 4),
    )
  }

  #closed(): void {
    if (this.isWaiting) this.options.turn.release()
    clearTimeout(this.#startTimer)
    this.#disconnected.abort()
    clearTimeout(this.#loginTimer)
    clearInterval(this.#idleTimer)
    this.#release?.()
    this.#unsent?.set(0)
    this.#principal?.signal.removeEventListener('abort', this.#onRevoked)
    if (!this.#principal && this.#refusal && !this.#hasRecordedRefusal) {
      const { username, error } = this.#refusal
      void this.gateway.accounts.signIn.recordRefusal({ username, address: this.#address }, sftp, error)
    }
    for (const session of this.#sessions) session.abort()
  }
}

/** Accepts requests for a terminal or an environment variable, which have no effect. */
function acceptAndIgnore(accept: (() => void) | undefined): void {
  // Undefined if the client requests no reply.
  accept?.()
}

function rejectCommand(channel: ServerChannel): void {
  channel.stderr.write('This server speaks SFTP only: there is no shell, and no commands can be run.\r\n')
  channel.exit(1)
  channel.end()
  // Everything that the client still sends is discarded.
  channel.resume()
}

interface ReceiveEvents {
  /** The client has sent more than the window permits. That is dropped; ssh2 itself would keep it. */
  readonly exceeded: () => void
  /** Bytes were added to the channel's buffer, or were read at once. */
  readonly received: () => void
}

/** Enforces the receive window of a channel (RFC 4254 §5.2), so that a client cannot fill the memory. */
export function enforceWindow(
  channel: Pick<ServerChannel, 'push' | 'incoming'>,
  { exceeded, received }: ReceiveEvents,
): void {
  const incoming = channel.incoming as { readonly window: number }
  const push = channel.push.bind(channel)
  channel.push = (chunk, encoding) => {
    if (incoming.window < 0) {
      exceeded()
      return false
    }
    const hasRoom = push(chunk, encoding)
    received()
    return hasRoom
  }
}
