/**
 * A child process that creates thumbnails of images, so that a malicious file that exploits a decoder does not reach
 * the daemon. The image is received in chunks, one message each; the response is one message.
 */
import { writeFileSync } from 'node:fs'

/** A message to the process: a chunk of an image, its end, or its cancellation. */
export interface ImageRequest {
  readonly id: number
  /** Absent: the image is complete or canceled. */
  readonly chunk?: Uint8Array
  /** Whether the request was canceled. */
  readonly canceled?: boolean
}

export type ImageResponse =
  | { readonly ready: boolean }
  | { readonly id: number; readonly picture: Uint8Array }
  | { readonly id: number; readonly fault: string }

/** Width of a thumbnail in pixels. */
const width = 144
/** Maximum height of a thumbnail in pixels. */
const maxHeight = 10 * width
/** Maximum number of pixels of an image. Larger ones are rejected. */
const maxPixels = 100_000_000
/** Images with more pixels may take hundreds of megabytes to decode. They are decoded one at a time. */
const largePixels = 16_000_000
/** Seconds that decoding may take. */
const decodeTimeout = 10

interface ImageSize {
  readonly width: number
  readonly height: number
}

/**
 * The part of the library that is used. Declared here, because the library is optional and may be missing when this
 * file is compiled.
 */
interface Image {
  metadata(): Promise<{ readonly autoOrient: ImageSize }>
  resize(size: ImageSize & { readonly fit: 'fill'; readonly kernel: 'lanczos3' }): Image
  timeout(limit: { seconds: number }): Image
  png(): Image
  toBuffer(): Promise<Uint8Array>
}
interface ImageLibrary {
  (bytes: Uint8Array, options: { limitInputPixels: number; failOn: 'error'; autoOrient: boolean }): Image
  block(what: { operation: readonly string[] }): void
  unblock(what: { operation: readonly string[] }): void
  cache(keep: boolean): void
  concurrency(threads: number): void
}
const library = 'sharp' as string

async function main(): Promise<void> {
  try {
    // If memory runs out, the system kills this process first.
    writeFileSync('/proc/self/oom_score_adj', '1000')
  } catch {
    // Not supported, or not permitted, on this system.
  }
  const send = (message: ImageResponse) => process.send?.(message)
  const { default: sharp } = (await import(library)) as { readonly default: ImageLibrary }
  // Only decoders of raster images. Others may read more files, or run scripts.
  sharp.block({ operation: ['VipsForeignLoad'] })
  const loaders = ['Jpeg', 'Png', 'Webp', 'Tiff', 'Heif', 'Nsgif'].map((name) => `VipsForeignLoad${name}`)
  sharp.unblock({ operation: loaders })
  sharp.cache(false)
  sharp.concurrency(1)

  let lastLarge: Promise<unknown> = Promise.resolve()
  const createThumbnail = async (bytes: Uint8Array): Promise<Uint8Array> => {
    const image = sharp(bytes, { limitInputPixels: maxPixels, failOn: 'error', autoOrient: true })
    const { autoOrient } = await image.metadata()
    const height = Math.round((width * autoOrient.height) / autoOrient.width)
    const size = { width, height: Math.min(Math.max(height, 1), maxHeight) }
    const resized = image.resize({ ...size, fit: 'fill', kernel: 'lanczos3' })
    const decode = () => resized.timeout({ seconds: decodeTimeout }).png().toBuffer()
    if (autoOrient.width * autoOrient.height <= largePixels) return decode()
    const decoded = lastLarge.then(decode)
    lastLarge = decoded.catch(() => undefined)
    return decoded
  }
  const received = new Map<number, Uint8Array[]>()
  process.on('message', ({ id, chunk: piece, canceled: dropped }: ImageRequest) => {
    const chunks = received.get(id) ?? []
    if (piece) {
      received.set(id, [...chunks, piece])
      return
    }
    received.delete(id)
    if (dropped === true) return
    createThumbnail(Buffer.concat(chunks)).then(
      (picture) => send({ id, picture }),
      (error: unknown) => send({ id, fault: error instanceof Error ? error.message : 'unknown' }),
    )
  })
  process.on('disconnect', () => process.exit())
  send({ ready: true })
}

main().catch(() => {
  process.send?.({ ready: false } satisfies ImageResponse, () => process.exit())
})
