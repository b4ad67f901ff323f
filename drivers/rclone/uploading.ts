/** Sends a body to a remote: rclone fetches it from an address of its own. */
import { throwIfAborted } from '../../src/contract/cancellation.js'
import type { Source } from '../../src/contract/call-options.js'
import { GatewayError } from '../../src/contract/errors.js'
import type { Path } from '../../src/contract/path.js'
import type { OneTimeSources } from './one-time-sources.js'
import type { Remote } from './remote.js'

/** Milliseconds that rclone has to discard an upload whose body has failed, until its call is canceled. */
const discardTimeout = 3000

interface UploadOptions {
  readonly modified: Date | undefined
  readonly signal: AbortSignal | undefined
  /** Called when every byte has arrived here, before the last one is sent to rclone. */
  readonly beforeEnd?: (() => Promise<void>) | undefined
}

/**
 * Stores the body at `to`. Resolves to its length when rclone reports that it is stored. Rejects with the error of the
 * body or of `beforeEnd` if one of them has failed, otherwise with that of rclone. After that nothing is stored, or a
 * part under the name `to`.
 */
export async function uploadTo(
  remote: Remote,
  sources: OneTimeSources,
  source: Source,
  to: Path,
  { modified, signal, beforeEnd }: UploadOptions,
): Promise<number> {
  throwIfAborted(signal)
  const body = await sources.offer({ source, modified, signal, beforeEnd })
  const canceled = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const stop = () => {
    body.close()
    timer ??= setTimeout(() => canceled.abort(), discardTimeout)
  }
  signal?.addEventListener('abort', stop, { once: true })
  body.sent.catch(stop)
  try {
    await remote.copyUrl(body.url, to, source.size !== undefined, canceled.signal)
    return await body.sent
  } catch (error) {
    if (signal?.aborted) throw new GatewayError('aborted', { cause: error })
    if (body.hasSourceFailed()) await body.sent
    throw error
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', stop)
    body.close()
  }
}
