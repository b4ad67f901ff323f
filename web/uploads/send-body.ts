/** Requests with a file, or a part of one, as their body, by XMLHttpRequest: `fetch` reports no progress of a body. */
import { ApiError, apiUrl, unwrapped, type Data, type EndpointPath, type ErrorName } from '../api/client.ts'

export interface SendOptions {
  readonly signal: AbortSignal
  /** Called with the number of bytes of the body that were sent. */
  readonly onProgress?: (sent: number) => void
}

/**
 * Resolves to the `data` of the response. Rejects with `ApiError`, whose name is `unreachable` if the connection is
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
    request.onerror = () => fail(new ApiError('the connection was lost', 'unreachable'))
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
    throw new ApiError(request.statusText, nameOfStatus(request.status))
  }
  return unwrapped(envelope, Number(request.getResponseHeader('Retry-After')) || undefined) as Data<Path>
}

/** What a proxy reports by a status of HTTP: that it accepts no such body, or that it does not reach the server. */
function nameOfStatus(status: number): ErrorName | undefined {
  if (status === 413) return 'too_large'
  return status >= 502 && status <= 504 ? 'unreachable' : undefined
}
