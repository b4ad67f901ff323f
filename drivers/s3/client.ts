/** The client of one bucket. Every call is aborted by its signal and by `close()`, and rejects with a GatewayError. */
import { createHash } from 'node:crypto'
import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3'
import { GatewayError } from '../../src/base/errors.js'
import { translated } from './errors.js'
import type { S3Options } from './index.js'

// Suppresses the SDK's warning that its later versions require a newer Node.js: the package is pinned
// (@aws-sdk/core: submodules/client/emitWarningIfUnsupportedVersion.js).
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'

/** Milliseconds to establish a connection, and until an idle pooled connection is closed. */
const connectTimeout = 10_000
/** Milliseconds without traffic on a connection before the request fails. */
const idleTimeout = 60_000
/** Milliseconds until a response must have started, including all retries. */
const defaultTimeout = 30_000
/** Maximum number of attempts per request, where the error is transient. */
const maxAttempts = 3
const silent = () => undefined

/** Parses a server address with or without a scheme; `scheme` is the default. Throws `invalid`, naming the field. */
export function parseServerUrl(text: string, field: string, scheme = 'https:'): URL {
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
    private readonly responseTimeout = defaultTimeout,
  ) {
    this.bucket = options.bucket
    const agent = { keepAlive: true, maxFreeSockets: 32, timeout: connectTimeout }
    const config: S3ClientConfig = {
      endpoint: parseServerUrl(options.endpoint, 'endpoint').href,
      region: options.region === '' ? 'openlist' : options.region,
      forcePathStyle: options.force_path_style,
      credentials: {
        accessKeyId: options.access_key_id,
        secretAccessKey: options.secret_access_key,
        ...(options.session_token === '' ? {} : { sessionToken: options.session_token }),
      },
      // Many servers other than Amazon's support no checksum but MD5 (aws/aws-sdk-js-v3#6810).
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
      maxAttempts,
      logger: { trace: silent, debug: silent, info: silent, warn: silent, error: silent },
      requestHandler: {
        connectionTimeout: connectTimeout,
        socketTimeout: idleTimeout,
        throwOnRequestTimeout: true,
        httpAgent: new HttpAgent(agent),
        httpsAgent: new HttpsAgent(agent),
      },
    }
    this.client = new S3Client(config)
    this.#sendDigestOfDeletions()
    this.#stopRetriesOnTimeout()
    if (options.user_agent !== '') this.#sendUserAgent(options.user_agent)
  }

  /**
   * Sends one request. `send` receives the client and the options to pass to the SDK. The response to a `prompt`
   * request must start within the response timeout, otherwise the call rejects with `timeout`. A `lengthy` request, one
   * with a body or with work for the server, is limited only by the idle timeout.
   */
  async call<Answer>(
    send: (client: S3Client, options: HandlerOptions) => Promise<Answer>,
    signal: AbortSignal | undefined,
    duration: 'prompt' | 'lengthy' = 'prompt',
  ): Promise<Answer> {
    if (this.#closed || signal?.aborted) throw new GatewayError('aborted')
    const controller = new AbortController()
    const forward = () => {
      controller.abort()
    }
    signal?.addEventListener('abort', forward, { once: true })
    this.#calls.add(controller)
    try {
      return await send(
        this.client,
        new DeadlineOptions(controller.signal, duration === 'prompt' ? this.responseTimeout : 0),
      )
    } catch (error) {
      throw controller.signal.aborted ? new GatewayError('aborted', { cause: error }) : translated(error)
    } finally {
      signal?.removeEventListener('abort', forward)
      this.#calls.delete(controller)
    }
  }

  /** Whether `close()` was called. Every call rejects with `aborted` from then on. */
  get closed(): boolean {
    return this.#closed
  }

  close(): void {
    this.#closed = true
    for (const call of this.#calls) call.abort()
    this.client.destroy()
  }

  /** Prevents a retry once the response timeout has expired. */
  #stopRetriesOnTimeout(): void {
    this.client.middlewareStack.add(
      (next) => async (args) => {
        try {
          return await next(args)
        } catch (error) {
          // The SDK retries every error that it considers transient, timeouts included
          // (@smithy/core: submodules/retry/service-error-classification/constants.js).
          throw isResponseTimeout(error)
            ? new GatewayError('timeout', { reason: 'the S3 server does not answer' })
            : error
        }
      },
      { step: 'finalizeRequest', priority: 'low', name: 'responseTimeout' },
    )
  }

  /**
   * Servers that predate the newer checksums, such as Swift, require `Content-MD5` on DeleteObjects
   * (aws/aws-sdk-js-v3#6920).
   */
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

/** The SDK options of one call. The SDK reads them before each attempt. */
class DeadlineOptions implements HandlerOptions {
  readonly #start = performance.now()

  constructor(
    readonly abortSignal: AbortSignal,
    private readonly responseTimeout: number,
  ) {}

  /** Milliseconds until the response to an attempt must have started; 0: no limit. */
  get requestTimeout(): number {
    return this.responseTimeout && Math.max(1, this.#start + this.responseTimeout - performance.now())
  }
}

/**
 * Whether the SDK threw this error because `requestTimeout` expired (set-request-timeout.js of the
 * package @smithy/node-http-handler). The system's own ETIMEDOUT also has a `syscall`.
 */
function isResponseTimeout(error: unknown): boolean {
  if (!(error instanceof Error) || error.name !== 'TimeoutError') return false
  const { code, syscall } = error as NodeJS.ErrnoException
  return code === 'ETIMEDOUT' && syscall === undefined
}
