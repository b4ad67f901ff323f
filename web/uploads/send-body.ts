/** Requests with a file, or a part of one, as their body, by XMLHttpRequest: `fetch` reports no progress of a body. */
import { ApiError, apiUrl, unreachable, unwrapped, type Data, type EndpointPath } from '../api/client.ts'

export interface SendOptions {
  readonly signal: AbortSignal
  /** Called with the number of bytes of the body that were sent. */
  readonly onProgress?: (sent: number) => void
}

/** Statuses by which a proxy reports that it does not reach the server. */
const gatewayStatuses: ReadonlySet<number> = new Set([502, 503, 504])

/**
 * Resolves to the `data` of the response. Rejects with `ApiError`, whose code is `unreachable` if the connection is
 * lost, and with the reason of the signal.
 */
export function sendBody<Path extends EndpointPath>(
  method: 'PUT' | 'POST',
  path: Path,
  headers: Readonly<Record<string, string>>,
  body: Blob | null,
  { signal, onProgress }: SendOptions,
): Promise<Data<Path>> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    const request = new XMLHttpRequest()
    const abort = (): void => request.abort()
    const fail = (error: unknown): void => reject(error instanceof Error ? error : new Error(String(error)))
    request.open(method, apiUrl(path))
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value)
    request.upload.onprogress = ({ loaded }) => onProgress?.(loaded)
    request.onload = () => {
      try {
        resolve(dataOf<Path>(request))
      } catch (error) {
        fail(error)
      }
    }
    request.onerror = () => fail(new ApiError(unreachable, 'the connection was lost'))
    request.onabort = () => fail(signal.reason)
    request.onloadend = () => signal.removeEventListener('abort', abort)
    signal.addEventListener('abort', abort)
    request.send(body)
  })
}

function dataOf<Path extends EndpointPath>(request: XMLHttpRequest): Data<Path> {
  let envelope: Parameters<typeof unwrapped>[0]
  try {
    envelope = JSON.parse(request.responseText) as typeof envelope
  } catch {
    throw new ApiError(gatewayStatuses.has(request.status) ? unreachable : request.status, request.statusText)
  }
  return unwrapped(envelope, Number(request.getResponseHeader('Retry-After')) || undefined) as Data<Path>
}
