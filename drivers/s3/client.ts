/** The connection to one bucket: every call of it ends with its signal and with the mount, and rejects with a GatewayError. */
import { createHash } from 'node:crypto'
import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3'
import { GatewayError } from '../../src/errors.js'
import type { S3Options } from './index.js'
import { translated } from './errors.js'

// The package is pinned, and this asks for newer Nodes for later versions of it.
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'

/** Milliseconds for a connection to be made, and of one that is kept to wait for its next request. */
const connectTime = 10_000
/** Milliseconds in which nothing moves on a connection. */
const idleTime = 60_000
/** Milliseconds in which an answer has to begin, with all tries. */
const usualPatience = 30_000
/** Of what failed for the moment. */
const attempts = 3
const silent = () => undefined

/** An address that was typed with or without a scheme. Rejects with `invalid`, naming the field. */
export function addressOf(text: string, field: string, scheme = 'https:'): URL {
  const address = text.includes('://') ? text : `${scheme}//${text}`
  if (URL.canParse(address)) {
    const url = new URL(address)
    if (['http:', 'https:'].includes(url.protocol) && url.hostname !== '') return url
  }
  throw new GatewayError('invalid', { reason: `the field ${field} is no address of a server` })
}

export class BucketClient {
  readonly client: S3Client
  readonly bucket: string
  readonly #calls = new Set<AbortController>()
  #closed = false

  constructor(
    options: S3Options,
    private readonly patience = usualPatience,
  ) {
    this.bucket = options.bucket
    const agent = { keepAlive: true, maxFreeSockets: 32, timeout: connectTime }
    const config: S3ClientConfig = {
      endpoint: addressOf(options.endpoint, 'endpoint').href,
      region: options.region === '' ? 'openlist' : options.region,
      forcePathStyle: options.force_path_style,
      credentials: {
        accessKeyId: options.access_key_id,
        secretAccessKey: options.secret_access_key,
        ...(options.session_token === '' ? {} : { sessionToken: options.session_token }),
      },
      // Other servers than those of Amazon often know no checksums but MD5.
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
      maxAttempts: attempts,
      logger: { trace: silent, debug: silent, info: silent, warn: silent, error: silent },
      requestHandler: {
        connectionTimeout: connectTime,
        socketTimeout: idleTime,
        throwOnRequestTimeout: true,
        httpAgent: new HttpAgent(agent),
        httpsAgent: new HttpsAgent(agent),
      },
    }
    this.client = new S3Client(config)
    this.#sendDigestOfDeletions()
    this.#endWithPatience()
    if (options.user_agent !== '') this.#sendUserAgent(options.user_agent)
  }

  /**
   * One request with `signal`, or with none where there is none. `send` gets what to hand to the SDK. The answer to a prompt one has to
   * begin within the patience, else it is a `timeout`; one with a body, or for which the server has to work, goes on as long as something
   * moves.
   */
  async call<Answer>(
    send: (client: S3Client, options: HandlerOptions) => Promise<Answer>,
    signal: AbortSignal | undefined,
    pace: 'prompt' | 'lengthy' = 'prompt',
  ): Promise<Answer> {
    if (this.#closed || signal?.aborted) throw new GatewayError('aborted')
    const controller = new AbortController()
    const forward = () => {
      controller.abort()
    }
    signal?.addEventListener('abort', forward, { once: true })
    this.#calls.add(controller)
    try {
      return await send(this.client, new PatientOptions(controller.signal, pace === 'prompt' ? this.patience : 0))
    } catch (error) {
      throw controller.signal.aborted ? new GatewayError('aborted', { cause: error }) : translated(error)
    } finally {
      signal?.removeEventListener('abort', forward)
      this.#calls.delete(controller)
    }
  }

  /** Every call is `aborted` from now on. */
  get closed(): boolean {
    return this.#closed
  }

  close(): void {
    this.#closed = true
    for (const call of this.#calls) call.abort()
    this.client.destroy()
  }

  /** A try that has taken what was left of the patience is the last one. */
  #endWithPatience(): void {
    this.client.middlewareStack.add(
      (next) => async (args) => {
        try {
          return await next(args)
        } catch (error) {
          // The SDK tries again whatever has a cause that passes.
          throw isPatienceOver(error) ? new GatewayError('timeout', { reason: 'the S3 server does not answer' }) : error
        }
      },
      { step: 'finalizeRequest', priority: 'low', name: 'patience' },
    )
  }

  /** Servers that predate the newer checksums, Swift among them, want the MD5 of a list of what to delete. */
  #sendDigestOfDeletions(): void {
    this.client.middlewareStack.add(
      (next, context) => async (args) => {
        const request = args.request as { headers: Record<string, string>; body?: unknown }
        if (context.commandName === 'DeleteObjectsCommand' && typeof request.body === 'string') {
          request.headers['content-md5'] = createHash('md5').update(request.body).digest('base64')
        }
        return next(args)
      },
      { step: 'build', name: 'digestOfDeletions' },
    )
  }

  #sendUserAgent(userAgent: string): void {
    this.client.middlewareStack.add(
      (next) => async (args) => {
        const request = args.request as { headers: Record<string, string> }
        request.headers['user-agent'] = userAgent
        return next(args)
      },
      { step: 'finalizeRequest', priority: 'low', name: 'ownUserAgent' },
    )
  }
}

interface HandlerOptions {
  readonly abortSignal: AbortSignal
  readonly requestTimeout: number
}

/** What the SDK is told of one call; it asks before each try. */
class PatientOptions implements HandlerOptions {
  readonly #begun = performance.now()

  constructor(
    readonly abortSignal: AbortSignal,
    private readonly patience: number,
  ) {}

  /** Milliseconds in which the answer to a try has to begin; 0 for as many as it takes. */
  get requestTimeout(): number {
    return this.patience && Math.max(1, this.#begun + this.patience - performance.now())
  }
}

/** Whether this is what the SDK says when `requestTimeout` has passed; the system names its call with a code of the same name. */
function isPatienceOver(error: unknown): boolean {
  if (!(error instanceof Error) || error.name !== 'TimeoutError') return false
  const { code, syscall } = error as NodeJS.ErrnoException
  return code === 'ETIMEDOUT' && syscall === undefined
}
