/** One SSH connection with one SFTP channel on it. Requests go side by side; each has a time limit. */
import { createHash } from 'node:crypto'
import {
  Client,
  type Attributes,
  type CipherAlgorithm,
  type ConnectConfig,
  type FileEntryWithStats,
  type SFTPWrapper,
  type Stats,
} from 'ssh2'
import { GatewayError } from '../../src/errors.js'
import { translated } from './errors.js'

/** Milliseconds to connect and sign in. */
const connectLimit = 15_000
/** Bytes: what every server takes, and what is enough. */
const smallPiece = 31_952
const largePiece = 261_120
/** Milliseconds for one request. */
const requestLimit = 60_000

/** As the library has them, but with the one first that processors do by themselves. */
const ciphers: CipherAlgorithm[] = [
  'aes128-gcm@openssh.com',
  'aes256-gcm@openssh.com',
  'chacha20-poly1305@openssh.com',
  'aes128-ctr',
  'aes192-ctr',
  'aes256-ctr',
]

export interface Account {
  readonly host: string
  readonly port: number
  readonly username: string
  readonly password: string
  readonly privateKey: string
  readonly passphrase: string
}

/** The server's fingerprint is shown to `isKnown`, which says whether it is the right one. */
export type HostCheck = (fingerprint: string) => Promise<boolean>

export interface FileSystemUsage {
  readonly f_frsize: number
  readonly f_blocks: number
  readonly f_bfree: number
  readonly f_bavail: number
  readonly f_files: number
  readonly f_favail: number
}

/** Flags of OPEN (draft §6.3). */
const openFlags = { read: 0x01, update: 0x01 | 0x02, new: 0x01 | 0x02 | 0x08 | 0x20 } as const

type Callback<T> = (error: Error | null | undefined, value: T) => void

export class Connection {
  /** What broke it; undefined while it stands. */
  #broken: GatewayError | undefined
  readonly #waiting = new Set<(error: GatewayError) => void>()
  /** Streams and handles on it. */
  users = 0

  private constructor(
    private readonly client: Client,
    private readonly sftp: SFTPWrapper,
  ) {
    const lost = (error?: Error) => {
      this.#break(new GatewayError('unavailable', { reason: 'the connection to the server was lost', cause: error }))
    }
    client.on('error', lost)
    client.on('close', () => lost())
    sftp.on('close', () => lost())
  }

  /** Rejects with `denied`, `unavailable` or `timeout`, and with `aborted` as soon as the signal says so. */
  static open(account: Account, isKnown: HostCheck, signal: AbortSignal): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const client = new Client()
      let faulty: GatewayError | undefined
      const fail = (error?: Error & { level?: string }) => {
        signal.removeEventListener('abort', stop)
        // The library tells of a connection that was reset twice.
        client.on('error', () => undefined)
        client.destroy()
        reject(faulty ?? connectError(error))
      }
      const stop = () => {
        faulty = new GatewayError('aborted', { reason: 'the storage was stopped' })
        fail()
      }
      signal.addEventListener('abort', stop, { once: true })
      client.once('error', fail)
      client.once('close', () => fail())
      client.on('keyboard-interactive', (_name, _instructions, _language, prompts, finish) => {
        finish(prompts.map(() => account.password))
      })
      client.once('ready', () => {
        // The last packet of each request would wait for the answer to the one before.
        client.setNoDelay(true)
        client.sftp((error, sftp) => {
          if (error) {
            fail(error)
            return
          }
          signal.removeEventListener('abort', stop)
          client.removeListener('error', fail)
          client.removeAllListeners('close')
          resolve(new Connection(client, sftp))
        })
      })
      const config: ConnectConfig = {
        host: account.host,
        port: account.port,
        username: account.username,
        ...(account.privateKey !== '' && { privateKey: account.privateKey }),
        ...(account.passphrase !== '' && { passphrase: account.passphrase }),
        ...(account.password !== '' && { password: account.password, tryKeyboard: true }),
        algorithms: { cipher: ciphers },
        readyTimeout: connectLimit,
        keepaliveInterval: 15_000,
        keepaliveCountMax: 3,
        hostVerifier: (key: Buffer, verify: (isRight: boolean) => void) => {
          const fingerprint = `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=+$/, '')}`
          void isKnown(fingerprint).then(
            (isRight) => {
              if (!isRight)
                faulty = new GatewayError('unavailable', { reason: `the server's key is another one: ${fingerprint}` })
              verify(isRight)
            },
            (error: unknown) => {
              faulty = translated(error)
              verify(false)
            },
          )
        },
      }
      try {
        client.connect(config)
      } catch (error) {
        signal.removeEventListener('abort', stop)
        // A key that cannot be read, for instance.
        reject(new GatewayError('invalid', { reason: (error as Error).message, cause: error }))
      }
    })
  }

  /**
   * Bytes of one request. The library makes of a longer one several that wait for each other; how much the server takes it knows, but
   * tells nobody.
   */
  get pieceSize(): number {
    const sizes = ['_maxReadLen', '_maxWriteLen'].map((name) => Number(Reflect.get(this.sftp, name) ?? smallPiece))
    return Math.min(largePiece, ...sizes.map((size) => (size >= 1024 ? size : smallPiece)))
  }

  get broken(): boolean {
    return this.#broken !== undefined
  }

  close(): void {
    this.#break(new GatewayError('aborted', { reason: 'the storage was stopped' }))
  }

  #break(error: GatewayError): void {
    if (this.#broken !== undefined) return
    this.#broken = error
    for (const reject of this.#waiting) reject(error)
    this.#waiting.clear()
    this.client.on('error', () => undefined)
    this.client.destroy()
  }

  /** Rejects with GatewayErrors alone; `unavailable` when the connection is lost, and what was asked may have been done. */
  #ask<T>(request: (sftp: SFTPWrapper, done: Callback<T>) => void): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#broken !== undefined) {
        reject(this.#broken)
        return
      }
      const timer = setTimeout(() => {
        this.#break(new GatewayError('timeout', { reason: 'the server does not answer' }))
      }, requestLimit)
      const end = () => {
        clearTimeout(timer)
        this.#waiting.delete(fail)
      }
      const fail = (error: unknown) => {
        end()
        reject(translated(error))
      }
      this.#waiting.add(fail)
      try {
        request(this.sftp, (error, value) => {
          if (error) {
            fail(error)
            return
          }
          end()
          resolve(value)
        })
      } catch (error) {
        // The library's word for an extension that the server has not announced.
        fail(new GatewayError('unsupported', { cause: error }))
      }
    })
  }

  /** The same for what is answered without a value. */
  async #do(request: (sftp: SFTPWrapper, done: (error?: Error | null) => void) => void): Promise<void> {
    await this.#ask<undefined>((sftp, done) => request(sftp, (error) => done(error, undefined)))
  }

  open(path: string, how: keyof typeof openFlags, mode?: number): Promise<Buffer> {
    return this.#ask((sftp, done) => sftp.open(path, openFlags[how], mode === undefined ? {} : { mode }, done))
  }

  closeHandle(handle: Buffer): Promise<void> {
    return this.#do((sftp, done) => sftp.close(handle, done))
  }

  fstat(handle: Buffer): Promise<Stats> {
    return this.#ask((sftp, done) => sftp.fstat(handle, done))
  }

  stat(path: string): Promise<Stats> {
    return this.#ask((sftp, done) => sftp.stat(path, done))
  }

  lstat(path: string): Promise<Stats> {
    return this.#ask((sftp, done) => sftp.lstat(path, done))
  }

  /** Bytes read, less than asked only at the end; 0 there. */
  async read(handle: Buffer, into: Buffer, position: number): Promise<number> {
    let filled = 0
    while (filled < into.length) {
      const at = filled
      const bytes = await this.#ask<number>((sftp, done) => {
        const told = (error: Error | null | undefined, count: number) => {
          const isEnd = (error as { code?: unknown } | undefined)?.code === 1
          if (isEnd) done(undefined, 0)
          else done(error, count)
        }
        sftp.read(handle, into, at, into.length - at, position + at, told)
      })
      if (bytes === 0) break
      filled += bytes
    }
    return filled
  }

  write(handle: Buffer, data: Buffer, position: number): Promise<void> {
    return this.#do((sftp, done) => sftp.write(handle, data, 0, data.length, position, done))
  }

  openFolder(path: string): Promise<Buffer> {
    return this.#ask((sftp, done) => sftp.opendir(path, done))
  }

  /** The next names, `undefined` behind the last. */
  async readFolder(handle: Buffer): Promise<readonly FileEntryWithStats[] | undefined> {
    return this.#ask<readonly FileEntryWithStats[] | undefined>((sftp, done) =>
      sftp.readdir(handle, (error, list) => {
        const isEnd = (error as { code?: unknown } | undefined)?.code === 1
        if (isEnd) done(undefined, undefined)
        else done(error, list)
      }),
    )
  }

  mkdir(path: string): Promise<void> {
    return this.#do((sftp, done) => sftp.mkdir(path, done))
  }

  rmdir(path: string): Promise<void> {
    return this.#do((sftp, done) => sftp.rmdir(path, done))
  }

  unlink(path: string): Promise<void> {
    return this.#do((sftp, done) => sftp.unlink(path, done))
  }

  setAttributes(path: string, to: Partial<Attributes>): Promise<void> {
    return this.#do((sftp, done) => sftp.setstat(path, to, done))
  }

  /** OpenSSH's extension: of a link itself. `unsupported` where the server has it not. */
  setLinkAttributes(path: string, to: Partial<Attributes>): Promise<void> {
    return this.#do((sftp, done) => sftp.ext_openssh_lsetstat(path, to, done))
  }

  setHandleAttributes(handle: Buffer, to: Partial<Attributes>): Promise<void> {
    return this.#do((sftp, done) => sftp.fsetstat(handle, to, done))
  }

  /** Version 3's own: fails where the name is taken. */
  renameNew(from: string, to: string): Promise<void> {
    return this.#do((sftp, done) => sftp.rename(from, to, done))
  }

  /** OpenSSH's extension: replaces. `unsupported` where the server has it not. */
  renameOver(from: string, to: string): Promise<void> {
    return this.#do((sftp, done) => sftp.ext_openssh_rename(from, to, done))
  }

  hardLink(from: string, to: string): Promise<void> {
    return this.#do((sftp, done) => sftp.ext_openssh_hardlink(from, to, done))
  }

  sync(handle: Buffer): Promise<void> {
    return this.#do((sftp, done) => sftp.ext_openssh_fsync(handle, done))
  }

  /** All of the source; the server reads and writes by itself. */
  copyData(from: Buffer, to: Buffer): Promise<void> {
    return this.#do((sftp, done) => sftp.ext_copy_data(from, 0, 0, to, 0, done))
  }

  usage(path: string): Promise<FileSystemUsage> {
    return this.#ask((sftp, done) => sftp.ext_openssh_statvfs(path, done))
  }
}

function connectError(error: (Error & { level?: string }) | undefined): GatewayError {
  if (error?.level === 'client-authentication') {
    // Not `unauthenticated`: that is about whoever asks the gateway.
    return new GatewayError('denied', {
      reason: 'the server refuses the user name, the key or the password',
      cause: error,
    })
  }
  if (error?.level === 'client-timeout') return new GatewayError('timeout', { cause: error })
  // What the system says names the address of the server, which is not everybody's to know.
  if (error?.level === 'client-socket' || error?.level === 'client-dns') {
    return new GatewayError('unavailable', { reason: 'the server cannot be reached', cause: error })
  }
  const reason = error === undefined ? 'the server closed the connection' : `cannot connect: ${error.message}`
  return new GatewayError('unavailable', { reason, cause: error })
}
