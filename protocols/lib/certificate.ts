/** The certificate and the key of the HTTPS port, read again when their files change. */
import { X509Certificate } from 'node:crypto'
import { constants } from 'node:fs'
import { open, stat } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import { GatewayError } from '../../src/base/errors.js'
import type { Log } from '../../src/base/log.js'

/** PEM files. A symlink is followed each time. */
export interface CertificateFiles {
  /** The certificate of the server, and those between it and the root. */
  readonly certificate: string
  readonly key: string
}

interface Pair {
  readonly cert: Buffer
  readonly key: Buffer
}

/** Milliseconds between two looks at the files. */
const lookInterval = 10_000

/**
 * A pair is used only if its key belongs to its certificate. Until the files have such a pair again, the last one stays
 * in use: programs that renew certificates replace one file after the other.
 */
export class Certificate {
  #pair: Pair
  #seen: string
  #reading: Promise<void> = Promise.resolve()
  readonly #listeners = new Set<(pair: Pair) => void>()
  readonly #timer: NodeJS.Timeout

  private constructor(
    private readonly files: CertificateFiles,
    private readonly log: Pick<Log, 'info' | 'warn'>,
    { pair, seen }: { readonly pair: Pair; readonly seen: string },
  ) {
    this.#pair = pair
    this.#seen = seen
    this.#timer = setInterval(() => void this.#look(), lookInterval).unref()
  }

  /** Rejects with `invalid` if the files cannot be read, or have no usable pair. */
  static async load(files: CertificateFiles, log: Pick<Log, 'info' | 'warn'>): Promise<Certificate> {
    // Before they are read: a later change is then seen.
    const seen = await stateOf(files)
    return new Certificate(files, log, { pair: await readPair(files), seen })
  }

  get pair(): Pair {
    return this.#pair
  }

  /** Calls `listener` with each new pair. */
  onChange(listener: (pair: Pair) => void): void {
    this.#listeners.add(listener)
  }

  /** Reads the files again. Never rejects: the log says why the pair in use stays. */
  reload(): Promise<void> {
    this.#reading = this.#reading.then(() => this.#read())
    return this.#reading
  }

  close(): void {
    clearInterval(this.#timer)
    this.#listeners.clear()
  }

  async #look(): Promise<void> {
    if ((await stateOf(this.files)) !== this.#seen) await this.reload()
  }

  async #read(): Promise<void> {
    try {
      this.#seen = await stateOf(this.files)
      const pair = await readPair(this.files)
      if (pair.cert.equals(this.#pair.cert) && pair.key.equals(this.#pair.key)) return
      this.#pair = pair
      for (const listener of this.#listeners) listener(pair)
      this.log.info({ expires: new X509Certificate(pair.cert).validTo }, 'the TLS certificate was read again')
    } catch (error) {
      this.log.warn({ err: error }, 'the TLS certificate in use stays')
    }
  }
}

/** What changes when one of the files does. */
async function stateOf({ certificate, key }: CertificateFiles): Promise<string> {
  const states = await Promise.all(
    [certificate, key].map((file) =>
      stat(file, { bigint: true }).then(
        ({ dev, ino, size, mtimeNs }) => [dev, ino, size, mtimeNs].join(' '),
        (error: unknown) => (error as NodeJS.ErrnoException).code,
      ),
    ),
  )
  return states.join(', ')
}

async function readPair({ certificate, key }: CertificateFiles): Promise<Pair> {
  const pair = { cert: await readPem('tls_certificate', certificate), key: await readPem('tls_key', key) }
  try {
    createSecureContext(pair)
    return pair
  } catch (error) {
    const { message } = error as Error
    const reason = `tls_certificate ${certificate} and tls_key ${key} are no certificate and its key: ${message}`
    throw new GatewayError('invalid', { reason, cause: error })
  }
}

async function readPem(option: string, file: string): Promise<Buffer> {
  try {
    // A named pipe without a writer would never be read.
    const handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK)
    try {
      if (!(await handle.stat()).isFile()) throw new Error('it is no file')
      return await handle.readFile()
    } finally {
      await handle.close()
    }
  } catch (error) {
    const { message } = error as Error
    throw new GatewayError('invalid', { reason: `${option} cannot be read: ${message}`, cause: error })
  }
}
