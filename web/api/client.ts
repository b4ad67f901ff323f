/** Calls of the HTTP API. The types of requests and responses come from its OpenAPI document. */
import { isConfirmed } from './recent-sign-in.ts'
import { signedOutErrors, type components, type operations, type paths } from './schema.ts'

/**
 * The name of a failure: one of the server's, or `unreachable` if the request did not reach it or was cut. The
 * `message` is a text for the user, which nothing depends on.
 */
export type ErrorName = components['schemas']['ErrorName'] | 'unreachable'

/** What the server tells of a failure beside its name and its text. */
interface FailureDetails {
  /** Seconds after which the call may be repeated, if the server says so. */
  readonly retryAfter?: number | undefined
  /** The `data` of the envelope. */
  readonly data?: unknown
}

/** A failed call: the `message` and the `error` of the envelope. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly retryAfter: number | undefined
  readonly data: unknown

  constructor(
    message: string,
    /** Undefined: something else answered. */
    readonly error: ErrorName | undefined,
    { retryAfter, data }: FailureDetails = {},
  ) {
    super(message)
    this.retryAfter = retryAfter
    this.data = data
  }
}

/** Whether the server refuses a request because nobody is signed in, or not any more. */
export function isSignedOut(error: unknown): boolean {
  return error instanceof ApiError && (signedOutErrors as readonly unknown[]).includes(error.error)
}

/** Whether the server refuses a request until the user has set up two-step verification. */
export function mustSetUpTwoStep(error: unknown): boolean {
  return error instanceof ApiError && error.error === 'two_step_set_up_required'
}

/** Whether the request did not reach the server, or was cut. */
export function isUnreachable(error: unknown): boolean {
  return error instanceof ApiError && error.error === 'unreachable'
}

type Operation<Path extends keyof paths> = paths[Path] extends { post: infer Post extends operations[keyof operations] }
  ? Post
  : paths[Path] extends { get: infer Get extends operations[keyof operations] }
    ? Get
    : never

/** The paths of the endpoints with an envelope. */
export type EndpointPath = keyof paths & `/api/${string}`

type Body<Path extends EndpointPath> =
  Operation<Path> extends { requestBody?: { content: { 'application/json': infer Fields } } } ? Fields : undefined
type Query<Path extends EndpointPath> =
  Operation<Path> extends { parameters: { query?: infer Fields extends object } } ? Fields : undefined
type Answer<Path extends EndpointPath> =
  Operation<Path> extends { responses: { 200: { content: { 'application/json': infer Envelope } } } } ? Envelope : never

/** The `data` of a success. */
export type Data<Path extends EndpointPath> =
  Extract<Answer<Path>, { code: 200 }> extends { data: infer Content } ? Content : never

export interface CallOptions<Path extends EndpointPath> {
  readonly query?: Query<Path>
  readonly params?: Readonly<Record<string, string>>
  /** The password of the folder. */
  readonly password?: string
  /** Further headers, of ASCII characters. */
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal | undefined
}

/** Resolves to the `data` of the response to a POST. Rejects with `ApiError`, and with the reason of the signal. */
export function post<Path extends EndpointPath>(
  path: Path,
  ...[body, options]: undefined extends Body<Path>
    ? [body?: Body<Path>, options?: CallOptions<Path>]
    : [body: Body<Path>, options?: CallOptions<Path>]
): Promise<Data<Path>> {
  return request(path, 'POST', options ?? {}, body)
}

/** Resolves to the `data` of the response to a GET. Rejects as `post` does. */
export function get<Path extends EndpointPath>(path: Path, options: CallOptions<Path> = {}): Promise<Data<Path>> {
  return request(path, 'GET', options)
}

/** Stores a text as the file that the headers name. Resolves to its entity tag. Rejects as `post` does. */
export async function putFile(headers: Readonly<Record<string, string>>, text: string): Promise<string> {
  const response = await send(apiUrl('/api/fs/put'), { method: 'PUT', headers, body: text })
  await dataOf(response)
  return response.headers.get('ETag') ?? ''
}

/** Resolves to the `data` of the response to a POST of a form with the files. Rejects as `post` does. */
export async function postFiles<Path extends EndpointPath>(
  path: Path,
  query: Query<Path>,
  files: readonly File[],
): Promise<Data<Path>> {
  const form = new FormData()
  for (const file of files) form.append('file', file)
  return confirming<Path>(() => send(apiUrl(path, {}, query ?? {}), { method: 'POST', body: form }))
}

async function request<Path extends EndpointPath>(
  path: Path,
  method: 'GET' | 'POST',
  { query, params, password = '', headers, signal }: CallOptions<Path>,
  body?: unknown,
): Promise<Data<Path>> {
  return confirming<Path>(() =>
    send(apiUrl(path, params, query), {
      method,
      signal: signal ?? null,
      headers: {
        ...(body !== undefined && { 'Content-Type': 'application/json' }),
        ...(password !== '' && { Password: headerText(password) }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    }),
  )
}

/** The `data` of the response. If the user has signed in too long ago, asks for the password and sends it again. */
async function confirming<Path extends EndpointPath>(sent: () => Promise<Response>): Promise<Data<Path>> {
  try {
    return await dataOf<Path>(await sent())
  } catch (error) {
    const isTooOld = error instanceof ApiError && error.error === 'recent_sign_in_required'
    if (!isTooOld || !(await isConfirmed())) throw error
    return dataOf<Path>(await sent())
  }
}

/** The text for a header: its UTF-8 bytes as characters, which is all that a header can hold. */
export function headerText(text: string): string {
  return String.fromCharCode(...new TextEncoder().encode(text))
}

/** The URL of an endpoint, below the path at which the console is served. */
export function apiUrl(path: string, params: Readonly<Record<string, string>> = {}, query: object = {}): URL {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ''))
  const url = new URL(filled.slice(1), document.baseURI)
  for (const [name, value] of Object.entries(query)) {
    for (const item of [value].flat()) if (item !== undefined) url.searchParams.append(name, String(item))
  }
  return url
}

async function send(url: URL, options: RequestInit): Promise<Response> {
  try {
    return await fetch(url, { credentials: 'same-origin', cache: 'no-store', ...options })
  } catch (error) {
    options.signal?.throwIfAborted()
    throw new ApiError(error instanceof Error ? error.message : String(error), 'unreachable')
  }
}

async function dataOf<Path extends EndpointPath>(response: Response): Promise<Data<Path>> {
  let envelope: Envelope
  try {
    envelope = (await response.json()) as Envelope
  } catch {
    throw new ApiError(response.statusText, response.ok ? 'unreachable' : undefined)
  }
  return unwrapped(envelope, Number(response.headers.get('Retry-After')) || undefined) as Data<Path>
}

export interface Envelope {
  readonly code: number
  readonly message: string
  readonly data: unknown
  readonly error?: ErrorName
}

/** The `code` of every success. The codes of failures are for clients that do not know their names. */
const success = 200

/** The `data` of an envelope of success. Throws `ApiError` for others. */
export function unwrapped({ code, message, data, error }: Envelope, retryAfter?: number): unknown {
  if (code !== success) throw new ApiError(message, error, { retryAfter, data })
  return data
}
