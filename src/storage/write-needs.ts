/** What backends need of a source before they can store it: see the trait `writeNeeds`. */
import type { Source } from '../contract/call-options.js'
import type { Entry } from '../contract/entry.js'
import { isGatewayError } from '../contract/errors.js'
import type { Traits } from '../contract/traits.js'
import type { Spool } from './spool.js'

/** Sends a source by `send`, through the spool if the backend needs more than the source has. */
export async function sendAsNeeded(
  source: Source,
  { writeNeeds, writeHashes }: Pick<Traits, 'writeNeeds' | 'writeHashes'>,
  spool: Spool,
  signal: AbortSignal | undefined,
  send: (source: Source) => Promise<Entry>,
): Promise<Entry> {
  const sendSpooled = async () => {
    const lacking = writeHashes.filter((name) => source.hashes?.[name] === undefined)
    const spooled = await spool.receive(source, signal, false, lacking)
    try {
      return await send(spooled)
    } finally {
      await spooled.dispose()
    }
  }
  const isTooLittle =
    (writeNeeds === 'size' && source.size === undefined) ||
    (writeNeeds === 'reread' && !source.rereadable) ||
    writeHashes.some((name) => source.hashes?.[name] === undefined)
  if (isTooLittle) return sendSpooled()
  if (source.size !== undefined) return send(source)
  const body = { isRead: false }
  const read: Source['read'] = (range, options) => {
    body.isRead = true
    return source.read(range, options)
  }
  const { modified, hashes, rereadable } = source
  try {
    return await send({ modified, hashes, rereadable, read })
  } catch (error) {
    // Some backends report only now that they need the size.
    if (body.isRead || !isGatewayError(error, 'unsupported')) throw error
    return sendSpooled()
  }
}
