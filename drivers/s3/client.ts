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

const connectionTimeout = 10_000
/** Milliseconds in which nothing moves on a connection. */
const idleTimeout = 60_000
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

  constructor(options: S3Options) {
    this.bucket = options.bucket
    const agent = { keepAlive: true, maxFreeSockets: 32 }
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
      maxAttempts: 3,
      logger: { trace: silent, debug: silent, info: silent, warn: silent, error: silent },
      requestHandler: {
        connectionTimeout,
        socketTimeout: idleTimeout,
        httpAgent: new HttpAgent(agent),
        httpsAgent: new HttpsAgent(agent),
      },
    }
    this.client = new S3Client(config)
    this.#sendDigestOfDeletions()
    if (options.user_agent !== '') this.#sendUserAgent(options.user_agent)
  }

  /** One request with `signal`, or with none where there is none. `send` gets what to hand to the SDK. */
  async call<Answer>(
    send: (client: S3Client, options: { abortSignal: AbortSignal }) => Promise<Answer>,
    signal: AbortSignal | undefined,
  ): Promise<Answer> {
    if (this.#closed || signal?.aborted) throw new GatewayError('aborted')
    const controller = new AbortController()
    const forward = () => {
      controller.abort()
    }
    signal?.addEventListener('abort', forward, { once: true })
    this.#calls.add(controller)
    try {
      return await send(this.client, { abortSignal: controller.signal })
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
