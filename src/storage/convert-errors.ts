/** Converts the errors of a stream. */
import { finished, Readable } from 'node:stream'

/**
 * Returns a stream of the same bytes. If `bytes` fails, it fails with what `convert` returns for the error. If the
 * consumer destroys it, `bytes` is destroyed, and `convert` is not called. Does not start `bytes` before the consumer
 * reads, and does not buffer more of it.
 */
export function convertErrors(bytes: Readable, convert: (error: unknown) => Error): Readable {
  let isStarted = false
  let isAwaited = false
  const pass = () => {
    const chunk = bytes.read() as Buffer | null
    isAwaited = chunk === null
    if (chunk !== null) converted.push(chunk)
  }
  const converted = new Readable({
    highWaterMark: 0,
    read: () => {
      if (!isStarted) {
        isStarted = true
        bytes.on('readable', () => {
          if (isAwaited) pass()
        })
      }
      pass()
    },
    destroy: (error, done) => {
      bytes.destroy()
      done(error)
    },
  })
  finished(bytes, { writable: false }, (error) => {
    if (converted.destroyed) return
    if (error) converted.destroy(convert(error))
    else converted.push(null)
  })
  return converted
}
