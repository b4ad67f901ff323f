/** One SSH connection with one SFTP channel. Requests run concurrently; each has a timeout. */
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
import { GatewayError } from '../../src/base/errors.js'
import { unreachable } from '../lib/network-errors.js'
import { translated } from './errors.js'

/** Milliseconds to connect and authenticate. */
const connectTimeout = 15_000
/**
 * Bytes of one READ or WRITE: the size that every server accepts, and the largest that is used. The library ends the
 * connection at a packet of more than 256 KiB, also if it has asked for it.
 */
const safePieceSize = 31_952
const maxPieceSize = 261_120
/** Milliseconds for one request. */
const requestTimeout = 60_000

/** The library's ciphers, but with AES-GCM first, which processors accelerate. */
const ciphers: CipherAlgorithm[] = [
  'aes128-gcm@openssh.com',
  'aes256-gcm@openssh.com',
  'chacha20-poly1305@openssh.com',
  'aes128-ctr',
  'aes192-ctr',
  'aes256-ctr',
]

export interface SftpAccount {
  readonly host: string
  readonly port: number
  readonly username: string
  readonly password: string
  readonly privateKey: string
  readonly passphrase: string
  /** The name of the client for the server; see `pseudonymOf`. */
  readonly ident: string
}

/** Resolves to whether the host key with this fingerprint (`SHA256:…`) is trusted. */
type HostCheck = (fingerprint: string) => Promise<boolean>

interface FileSystemUsage {
  readonly f_frsize: number
  readonly f_blocks: number
  readonly f_bfree: number
  readonly f_bavail: number
  readonly f_files: number
  readonly f_favail: number
}

/** Flags of OPEN (draft-ietf-secsh-filexfer-02 §6.3). */
const openFlags = { read: 0x01, update: 0x01 | 0x02, new: 0x01 | 0x02 | 0x08 | 0x20 } as const

type Callback<T> = (error: Error | null | undefined, value: T) => void

export class ServerConnection {
  /** The error by which the connection was lost or closed; undefined while it is open. */
  #cause: GatewayError | undefined
  readonly #pending = new Set<(error: GatewayError) => void>()
  /**
   * Maximum bytes of one READ or WRITE: what the server announces (`limits@openssh.com`), or what the library assumes,
   * but not more than the library accepts. The limits are in private fields of the library (ssh2:
   * lib/protocol/SFTP.js).
   */
  readonly pieceSize: number
  /** Number of calls, streams and handles that use the connection. */
  users = 0

  private constructor(
    private readonly client: Client,
    private readonly sftp: SFTPWrapper,
  ) {
    const sizes = ['_maxReadLen', '_maxWriteLen'].map((name) => Number(Reflect.get(sftp, name) ?? safePieceSize))
    this.pieceSize = Math.min(maxPieceSize, ...sizes.map((size) => (size >= 1024 ? size : safePieceSize)))
    const onLost = (error?: Error) => {
      this.#break(new GatewayError('unavailable', { reason: 'the connection to the server was lost', cause: error }))
    }
    client.on('error', onLost)
    client.on('close', () => onLost())
    sftp.on('close', () => onLost())
  }

  /**
   * Connects and authenticates. Rejects with `denied`, `unavailable` or `timeout`, with `invalid` for an unreadable
   * key, and with `aborted` as soon as the signal is aborted.
   */
  static open(account: SftpAccount, isTrusted: HostCheck, signal: AbortSignal): Promise<ServerConnection> {
    return new Promise((resolve, reject) => {
      const client = new Client()
      let failure: GatewayError | undefined
      const fail = (error?: Error & { level?: string }) => {
        signal.removeEventListener('abort', stop)
        // The library emits two errors for one connection reset.
        client.on('error', () => undefined)
        client.destroy()
        reject(failure ?? connectError(error))
      }
      const stop = () => {
        failure = new GatewayError('aborted', { reason: 'the storage was stopped' })
        fail()
      }
      signal.addEventListener('abort', stop, { once: true })
      client.once('error', fail)
      client.once('close', () => fail())
      client.on('keyboard-interactive', (_name, _instructions, _language, prompts, finish) => {
        finish(prompts.map(() => account.password))
      })
      client.once('ready', () => {
        // With Nagle's algorithm, the last packet of a request would wait for the previous acknowledgment.
        client.setNoDelay(true)
        client.sftp((error, sftp) => {
          if (error) {
            fail(error)
            return
          }
          signal.removeEventListener('abort', stop)
          client.removeListener('error', fail)
          client.removeAllListeners('close')
          resolve(new ServerConnection(client, sftp))
        })
      })
      const config: ConnectConfig = {
        host: account.host,
        port: account.port,
        username: account.username,
        ident: account.ident,
        ...(account.privateKey !== '' && { privateKey: account.privateKey }),
        ...(account.passphrase !== '' && { passphrase: account.passphrase }),
        ...(account.password !== '' && { password: account.password, tryKeyboard: true }),
        algorithms: { cipher: ciphers },
        readyTimeout: connectTimeout,
        keepaliveInterval: 15_000,
        keepaliveCountMax: 3,
        hostVerifier: (key: Buffer, verify: (isMatch: boolean) => void) => {
          const fingerprint = `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=+$/, '')}`
          void isTrusted(fingerprint).then(
            (isMatch) => {
              if (!isMatch)
                failure = new GatewayError('unavailable', {
                  reason: `the server's host key does not match: ${fingerprint}`,
                })
              verify(isMatch)
            },
            (error: unknown) => {
              failure = translated(error)
              verify(false)
            },
          )
        },
      }
      try {
        client.connect(config)
      } catch (error) {
        signal.removeEventListener('abort', stop)
        // The library checks the key before it connects. Its message is not for users.
        const isKey = account.privateKey !== ''
        const reason = isKey
          ? 'the private key or its passphrase is not valid'
          : 'the address or the user name is not valid'
        reject(new GatewayError('invalid', { reason, cause: error }))
      }
    })
  }

  get broken(): boolean {
    return this.#cause !== undefined
  }

  close(): void {
    this.#break(new GatewayError('aborted', { reason: 'the storage was stopped' }))
  }

  #break(error: GatewayError): void {
    if (this.#cause !== undefined) return
    this.#cause = error
    for (const reject of this.#pending) reject(error)
    this.#pending.clear()
    this.client.on('error', () => undefined)
    this.client.destroy()
  }

  /**
   * Sends one request. Rejects only with GatewayErrors: with `unavailable` if the connection was lost, in which case
   * the server may have executed the request, and with `unsupported` for an extension that the server has not
   * announced.
   */
  #request<T>(send: (sftp: SFTPWrapper, done: Callback<T>) => void): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#cause !== undefined) {
        reject(this.#cause)
        return
      }
      const timer = setTimeout(() => {
        this.#break(new GatewayError('timeout', { reason: 'the server does not answer' }))
      }, requestTimeout)
      const end = () => {
        clearTimeout(timer)
        this.#pending.delete(fail)
      }
      const fail = (error: unknown) => {
        end()
        reject(translated(error))
      }
      this.#pending.add(fail)
      try {
        send(this.sftp, (error, value) => {
          if (error) {
            fail(error)
            return
          }
          end()
          resolve(value)
        })
      } catch (error) {
        // The library throws if the server has not announced the extension (ssh2: lib/protocol/SFTP.js).
        fail(new GatewayError('unsupported', { cause: error }))
      }
    })
  }

  /** Like `#request`, for requests whose response is only a status. */
  async #requestStatus(send: (sftp: SFTPWrapper, done: (error?: Error | null) => void) => void): Promise<void> {
    await this.#request<undefined>((sftp, done) => send(sftp, (error) => done(error, undefined)))
  }

  open(path: string, access: keyof typeof openFlags, mode?: number): Promise<Buffer> {
    return this.#request((sftp, done) => sftp.open(path, openFlags[access], mode === undefined ? {} : { mode }, done))
  }

  closeHandle(handle: Buffer): Promise<void> {
    return this.#requestStatus((sftp, done) => sftp.close(handle, done))
  }

  fstat(handle: Buffer): Promise<Stats> {
    return this.#request((sftp, done) => sftp.fstat(handle, done))
  }

  stat(path: string): Promise<Stats> {
    return this.#request((sftp, done) => sftp.stat(path, done))
  }

  lstat(path: string): Promise<Stats> {
    return this.#request((sftp, done) => sftp.lstat(path, done))
  }

  /**
   * Fills `into` from this position, by one READ after another. Resolves to the number of bytes read: fewer than
   * requested only at the end of the file.
   */
  async read(handle: Buffer, into: Buffer, position: number): Promise<number> {
    let filled = 0
    while (filled < into.length) {
      const offset = filled
      const bytes = await this.#request<number>((sftp, done) => {
        const onRead = (error: Error | null | undefined, count: number) => {
          const isEnd = (error as { code?: unknown } | undefined)?.code === 1
          if (isEnd) done(undefined, 0)
          else done(error, count)
        }
        sftp.read(handle, into, offset, Math.min(into.length - offset, this.pieceSize), position + offset, onRead)
      })
      if (bytes === 0) break
      filled += bytes
    }
    return filled
  }

  /** Writes at most `pieceSize` bytes. */
  write(handle: Buffer, data: Buffer, position: number): Promise<void> {
    return this.#requestStatus((sftp, done) => sftp.write(handle, data, 0, data.length, position, done))
  }

  openFolder(path: string): Promise<Buffer> {
    return this.#request((sftp, done) => sftp.opendir(path, done))
  }

  /** The next batch of names; `undefined` after the last. */
  async readFolder(handle: Buffer): Promise<readonly FileEntryWithStats[] | undefined> {
    return this.#request<readonly FileEntryWithStats[] | undefined>((sftp, done) =>
      sftp.readdir(handle, (error, list) => {
        const isEnd = (error as { code?: unknown } | undefined)?.code === 1
        if (isEnd) done(undefined, undefined)
        else done(error, list)
      }),
    )
  }

  mkdir(path: string): Promise<void> {
    return this.#requestStatus((sftp, done) => sftp.mkdir(path, done))
  }

  rmdir(path: string): Promise<void> {
    return this.#requestStatus((sftp, done) => sftp.rmdir(path, done))
  }

  unlink(path: string): Promise<void> {
    return this.#requestStatus((sftp, done) => sftp.unlink(path, done))
  }

  setAttributes(path: string, to: Partial<Attributes>): Promise<void> {
    return this.#requestStatus((sftp, done) => sftp.setstat(path, to, done))
  }

  /** Sets attributes of a symlink itself (lsetstat@openssh.com). Rejects with `unsupported` without that extension. */
  setSymlinkAttributes(path: string, to: Partial<Attributes>): Promise<void> {
    return this.#requestStatus((sftp, done) => sftp.ext_openssh_lsetstat(path, to, done))
  }

  setHandleAttributes(handle: Buffer, to: Partial<Attributes>): Promise<void> {
    return this.#requestStatus((sftp, done) => sftp.fsetstat(handle, to, done))
  }

  /** RENAME of SFTP version 3: fails if the new name exists. */
  renameNew(from: string, to: string): Promise<void> {
    return this.#requestStatus((sftp, done) => sftp.rename(from, to, done))
  }

  /** Renames and replaces (posix-rename@openssh.com). Rejects with `unsupported` without that extension. */
  renameReplacing(from: string, to: string): Promise<void> {
    return this.#requestStatus((sftp, done) => sftp.ext_openssh_rename(from, to, done))
  }

  /** Flushes a file to the medium (fsync@openssh.com). Rejects with `unsupported` without that extension. */
  sync(handle: Buffer): Promise<void> {
    return this.#requestStatus((sftp, done) => sftp.ext_openssh_fsync(handle, done))
  }

  /** Copies the whole file on the server (copy-data). Rejects with `unsupported` without that extension. */
  copyData(from: Buffer, to: Buffer): Promise<void> {
    return this.#requestStatus((sftp, done) => sftp.ext_copy_data(from, 0, 0, to, 0, done))
  }

  usage(path: string): Promise<FileSystemUsage> {
    return this.#request((sftp, done) => sftp.ext_openssh_statvfs(path, done))
  }
}

function connectError(error: (Error & { level?: string }) | undefined): GatewayError {
  if (error?.level === 'client-authentication') {
    // Not `unauthenticated`, which concerns the client of the gateway.
    return new GatewayError('denied', {
      reason: 'the server refuses the user name, the key or the password',
      cause: error,
    })
  }
  if (error?.level === 'client-timeout') return new GatewayError('timeout', { cause: error })
  if (error?.level === 'client-socket' || error?.level === 'client-dns') {
    const { code } = error as NodeJS.ErrnoException
    return new GatewayError('unavailable', { reason: unreachable('server', code), cause: error })
  }
  const reason = error === undefined ? 'the server closed the connection' : 'the SSH handshake with the server failed'
  return new GatewayError('unavailable', { reason, cause: error })
}
