/** One SSH connection: sign-in, then SFTP sessions, and a clear refusal of everything else. */
import type { Socket } from 'node:net'
import ssh2, { type AuthContext, type Connection, type ParsedKey, type ServerChannel, type Session } from 'ssh2'
import { CodeRequired } from '../../src/accounts/errors.js'
import { toGatewayError } from '../../src/errors.js'
import type { Gateway } from '../../src/gateway.js'
import type { Log } from '../../src/log.js'
import type { Principal } from '../../src/principal.js'
import { algorithms } from './algorithms.js'
import type { ByteBudget } from './byte-budget.js'
import type { SftpLimits } from './door.js'
import { Inlet } from './inlet.js'
import { SftpSession } from './session.js'
import { DoorRefusal, methodsOf, signIn } from './sign-in.js'

/** Tries, questions about keys among them, before a client is sent away. */
const tryLimit = 20

export class SftpConnection {
  readonly #sessions = new Set<SftpSession>()
  readonly #address: string
  readonly #inlet: Inlet
  readonly #log: Log
  readonly #loginTimer: NodeJS.Timeout
  #idleTimer: NodeJS.Timeout | undefined
  #connection: Connection | undefined
  #principal: Principal | undefined
  #tries = 0
  #channels = 0
  #draining = false

  constructor(
    private readonly gateway: Gateway,
    private readonly socket: Socket,
    hostKeys: readonly ParsedKey[],
    private readonly limits: SftpLimits,
    private readonly budget: ByteBudget,
  ) {
    this.#address = plainAddress(socket.remoteAddress ?? '')
    this.#log = gateway.log.child({ door: 'sftp', address: this.#address })
    this.#inlet = new Inlet(socket)
    const server = new ssh2.Server(
      {
        hostKeys: hostKeys.map((key) => ({ key })),
        algorithms,
        ident: 'Tidegate',
        banner: gateway.settings.get('announcement'),
        keepaliveInterval: limits.keepaliveSeconds * 1000,
        keepaliveCountMax: 3,
      },
      (connection) => this.#accept(connection),
    )
    this.#loginTimer = setTimeout(() => {
      this.#log.info('nobody signed in in time')
      socket.destroy()
    }, limits.loginSeconds * 1000)
    socket.once('close', () => this.#closed())
    // ssh2 listens to errors only once it has seen the client's first line.
    socket.on('error', (error) => this.#log.debug({ err: error }, 'an SFTP connection broke'))
    server.injectSocket(socket)
  }

  get signedIn(): boolean {
    return this.#principal !== undefined
  }

  /** Ends as soon as nothing is worked on and no handle is open. */
  drain(): void {
    this.#draining = true
    this.#endIfIdle()
  }

  /** Resolves when its sessions have ended, and what they had open is dropped or kept. */
  async settled(): Promise<void> {
    await Promise.all([...this.#sessions].map((session) => session.settled))
  }

  /** Ends now; what was written and not closed is dropped, or kept where the setting says so. */
  end(): void {
    for (const session of this.#sessions) session.abort()
    this.#connection?.end()
    if (this.#connection) setTimeout(() => this.socket.destroy(), 1000).unref()
    else this.socket.destroy()
  }

  #accept(connection: Connection): void {
    this.#connection = connection
    connection.on('error', (error: Error) => this.#log.debug({ err: error }, 'an SFTP connection broke'))
    connection.on('authentication', (context) => void this.#signIn(context))
    connection.on('session', (accept, reject) => {
      if (this.#channels >= this.limits.sessions || this.#draining) reject()
      else this.#serve(accept())
    })
  }

  async #signIn(context: AuthContext): Promise<void> {
    const { settings, accounts } = this.gateway
    try {
      if (++this.#tries > tryLimit) {
        this.#log.info({ user: context.username }, 'too many tries to sign in')
        this.end()
        return
      }
      const result = await signIn({ settings, accounts }, context, this.#address)
      if (result === 'offered') context.accept()
      else this.#welcome(context, result.principal)
    } catch (error) {
      const refusal = toGatewayError(error)
      if (refusal.code === 'internal') this.#log.error({ err: refusal.cause }, 'a sign-in failed')
      const isPassword = context.method === 'password' || context.method === 'keyboard-interactive'
      const isTold = isPassword && !(error instanceof DoorRefusal || error instanceof CodeRequired)
      if (context.method !== 'none' && !isTold) {
        this.#log.info({ user: context.username, method: context.method, reason: refusal.reason }, 'sign-in refused')
      }
      context.reject(methodsOf({ settings }))
    }
  }

  #welcome(context: AuthContext, principal: Principal): void {
    if (this.#principal || this.socket.destroyed) return
    this.#principal = principal
    clearTimeout(this.#loginTimer)
    principal.signal.addEventListener('abort', this.#onAuthorityEnd, { once: true })
    this.#watchIdle()
    this.#log.info({ user: principal.username, method: context.method }, 'signed in')
    context.accept()
  }

  readonly #onAuthorityEnd = (): void => {
    this.#log.info('the authority behind the connection has ended')
    this.end()
  }

  #serve(session: Session): void {
    this.#channels++
    session.on('pty', acceptQuietly)
    session.on('env', acceptQuietly)
    session.on('shell', (accept) => refuse(accept()))
    session.on('exec', (accept) => refuse(accept()))
    let sftp: SftpSession | undefined
    session.on('subsystem', (accept, reject, { name }) => {
      if (name === 'sftp' && !sftp && this.#principal) sftp = this.#start(accept(), this.#principal)
      else reject()
    })
    session.on('close', () => {
      this.#channels--
      sftp?.abort()
    })
  }

  #start(channel: ServerChannel, principal: Principal): SftpSession {
    const session = new SftpSession(channel, this.socket, {
      tree: this.gateway.as(principal),
      owner: { id: principal.userId, name: principal.username },
      log: this.#log,
      inlet: this.#inlet,
      handleLimit: this.limits.handles,
      budget: this.budget,
      keepsPartial: () => this.gateway.settings.bool('sftp_keep_partial_uploads'),
      onIdle: () => this.#endIfIdle(),
    })
    this.#sessions.add(session)
    void session.settled.then(() => {
      this.#sessions.delete(session)
      this.#endIfIdle()
    })
    return session
  }

  #endIfIdle(): void {
    if (this.#draining && [...this.#sessions].every((session) => session.idle)) this.end()
  }

  #watchIdle(): void {
    const { idleSeconds } = this.limits
    if (idleSeconds === 0) return
    const since = Date.now()
    this.#idleTimer = setInterval(
      () => {
        const last = Math.max(since, ...[...this.#sessions].map((session) => session.lastRequest))
        if (Date.now() - last < idleSeconds * 1000) return
        this.#log.info('nothing was asked for too long')
        this.end()
      },
      Math.max(1000, (idleSeconds * 1000) / 4),
    )
  }

  #closed(): void {
    clearTimeout(this.#loginTimer)
    clearInterval(this.#idleTimer)
    this.#principal?.signal.removeEventListener('abort', this.#onAuthorityEnd)
    for (const session of this.#sessions) session.abort()
  }
}

/** Terminals and variables are asked for by habit and change nothing. */
function acceptQuietly(accept: (() => void) | undefined): void {
  // ssh2 gives nothing to call where the client wants no answer.
  accept?.()
}

function refuse(channel: ServerChannel): void {
  channel.stderr.write('This server speaks SFTP only: there is no shell, and no commands can be run.\r\n')
  channel.exit(1)
  channel.end()
}

/** IPv4 addresses on a socket for both families come as IPv6. */
function plainAddress(address: string): string {
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address
}
