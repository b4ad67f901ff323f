/**
 * A process of its own that makes small pictures of images: what a hostile file does to the decoders, it does to this process
 * and not to the daemon. An image comes in messages, piece by piece; the answer is one.
 */
import { writeFileSync } from 'node:fs'

/** The next piece of an image; without one, that is all of it; `dropped`: nobody wants it any more. */
export interface ImageOrder {
  readonly id: number
  readonly piece?: Uint8Array
  readonly dropped?: boolean
}

export type ImageAnswer =
  | { readonly ready: boolean }
  | { readonly id: number; readonly picture: Uint8Array }
  | { readonly id: number; readonly fault: string }

/** Pixels to which the width is brought. */
const width = 144
/** Of a picture that is far higher than wide. */
const highest = 10 * width
/** An image that unfolds into more than this is left alone. */
const pixelLimit = 100_000_000
/** Above this one image may take hundreds of megabytes while it is decoded: such are decoded one after another. */
const largePixels = 16_000_000
/** Seconds. */
const timeLimit = 10

interface ImageSize {
  readonly width: number
  readonly height: number
}

/** As much of the library as is used: it is optional, and may be missing also where this is compiled. */
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
    // Where memory runs out, this process is the one to go.
    writeFileSync('/proc/self/oom_score_adj', '1000')
  } catch {
    // Another system, or one that does not let us.
  }
  const answer = (message: ImageAnswer) => process.send?.(message)
  const { default: sharp } = (await import(library)) as { readonly default: ImageLibrary }
  // Only decoders of plain pictures: others may read further files, or run what they find.
  sharp.block({ operation: ['VipsForeignLoad'] })
  const loaders = ['Jpeg', 'Png', 'Webp', 'Tiff', 'Heif', 'Nsgif'].map((name) => `VipsForeignLoad${name}`)
  sharp.unblock({ operation: loaders })
  sharp.cache(false)
  sharp.concurrency(1)

  let large: Promise<unknown> = Promise.resolve()
  const make = async (bytes: Uint8Array): Promise<Uint8Array> => {
    const image = sharp(bytes, { limitInputPixels: pixelLimit, failOn: 'error', autoOrient: true })
    const { autoOrient } = await image.metadata()
    const height = Math.round((width * autoOrient.height) / autoOrient.width)
    const size = { width, height: Math.min(Math.max(height, 1), highest) }
    const small = image.resize({ ...size, fit: 'fill', kernel: 'lanczos3' })
    const decode = () => small.timeout({ seconds: timeLimit }).png().toBuffer()
    if (autoOrient.width * autoOrient.height <= largePixels) return decode()
    const made = large.then(decode)
    large = made.catch(() => undefined)
    return made
  }
  const pieces = new Map<number, Uint8Array[]>()
  process.on('message', ({ id, piece, dropped }: ImageOrder) => {
    const known = pieces.get(id) ?? []
    if (piece) {
      pieces.set(id, [...known, piece])
      return
    }
    pieces.delete(id)
    if (dropped === true) return
    make(Buffer.concat(known)).then(
      (picture) => answer({ id, picture }),
      (error: unknown) => answer({ id, fault: error instanceof Error ? error.message : 'unknown' }),
    )
  })
  process.on('disconnect', () => process.exit())
  answer({ ready: true })
}

main().catch(() => {
  process.send?.({ ready: false } satisfies ImageAnswer, () => process.exit())
})
