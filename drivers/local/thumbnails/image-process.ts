/**
 * A child process that creates thumbnails of images, one at a time, so that a malicious file that exploits a decoder
 * does not reach the daemon. The image is received in chunks, one message each; the response is one message.
 */

/** The messages of one request, in this order. The first one ends an incomplete request. */
export type ImageRequest =
  /** Bytes of the image that follows. */
  | { readonly length: number }
  | { readonly chunk: Uint8Array }
  /** The image is complete. The picture fits into a square of so many pixels. */
  | { readonly size: number }

export type ImageResponse =
  | { readonly ready: true }
  /** The library does not work on this system. */
  | { readonly ready: false; readonly fault: string }
  | { readonly picture: Uint8Array }
  | { readonly fault: string }

/** Maximum number of pixels of an image. Larger ones are rejected. */
const maxPixels = 100_000_000
/** Seconds that decoding may take. */
const decodeTimeout = 10
/** A photo of 256 pixels has about 10 kB. */
const quality = 80
/** How much time the encoder takes, of 0 to 6. More saves little. */
const effort = 2

/**
 * The part of the library that is used. Declared here, because the library is optional and may be missing when this
 * file is compiled.
 */
interface Image {
  resize(size: { width: number; height: number; fit: 'inside'; withoutEnlargement: boolean }): Image
  timeout(limit: { seconds: number }): Image
  webp(options: { quality: number; effort: number }): Image
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
  const send = (message: ImageResponse) => process.send?.(message)
  const { default: sharp } = (await import(library)) as { readonly default: ImageLibrary }
  // Only decoders of raster images. Others may read more files, or run scripts.
  sharp.block({ operation: ['VipsForeignLoad'] })
  const loaders = ['Jpeg', 'Png', 'Webp', 'Tiff', 'Heif', 'Nsgif'].map((name) => `VipsForeignLoad${name}`)
  sharp.unblock({ operation: loaders })
  sharp.cache(false)
  sharp.concurrency(1)

  const createThumbnail = (bytes: Uint8Array, size: number): Promise<Uint8Array> =>
    // The result has neither the metadata of the file, such as its place, nor its color profile.
    sharp(bytes, { limitInputPixels: maxPixels, failOn: 'error', autoOrient: true })
      .resize({ width: size, height: size, fit: 'inside', withoutEnlargement: true })
      .timeout({ seconds: decodeTimeout })
      .webp({ quality, effort })
      .toBuffer()
  let image = Buffer.alloc(0)
  let received = 0
  process.on('message', (request: ImageRequest) => {
    if ('length' in request) {
      image = Buffer.allocUnsafeSlow(request.length)
      received = 0
    } else if ('chunk' in request) {
      image.set(request.chunk, received)
      received += request.chunk.length
    } else {
      const bytes = image.subarray(0, received)
      image = Buffer.alloc(0)
      createThumbnail(bytes, request.size).then(
        (picture) => send({ picture }),
        (error: unknown) => send({ fault: messageOf(error) }),
      )
    }
  })
  // At once: a decoder that hangs would keep the process.
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))
  send({ ready: true })
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : 'unknown'
}

main().catch((error: unknown) => {
  process.send?.({ ready: false, fault: messageOf(error) } satisfies ImageResponse, () => process.exit())
})
