/** Images and videos for tests. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import sharp from 'sharp'

const run = promisify(execFile)

type Format = 'jpeg' | 'png' | 'webp' | 'gif' | 'tiff' | 'avif'

/** An image of a single color, by default red. */
export function image(format: Format, width: number, height: number, background = '#c81e1e'): Promise<Buffer> {
  return sharp({ create: { width, height, channels: 3, background } })
    .toFormat(format)
    .toBuffer()
}

/** An image as a camera makes them, of which no two parts are the same: a photo of 12 megapixels has some mebibytes. */
export async function photo(format: 'jpeg' | 'png' | 'tiff', width: number, height: number): Promise<Buffer> {
  const noise = { type: 'gaussian', mean: 128, sigma: 40 } as const
  const grain = sharp({ create: { width: width >> 2, height: height >> 2, channels: 3, background: '#808080', noise } })
  return sharp(await grain.png().toBuffer())
    .resize(width, height)
    .toFormat(format)
    .toBuffer()
}

/** A JPEG with an EXIF orientation that rotates it by 90 degrees. */
export function sideways(width: number, height: number): Promise<Buffer> {
  const background = { r: 30, g: 200, b: 30 }
  return sharp({ create: { width, height, channels: 3, background } })
    .jpeg()
    .withMetadata({ orientation: 6 })
    .toBuffer()
}

/** The width, height and format of a picture. */
export async function looksOf(picture: Buffer): Promise<readonly [number, number, string]> {
  const { width, height, format } = await sharp(picture).metadata()
  return [width, height, format]
}

/** The mean brightness of a picture, 0 to 255. */
export async function brightness(picture: Buffer): Promise<number> {
  const { channels } = await sharp(picture).removeAlpha().stats()
  return channels.reduce((sum, { mean }) => sum + mean, 0) / channels.length
}

/**
 * A video of this many seconds, black in its first half and white in its second. The extension of the name selects the
 * format.
 */
export async function video(file: string, seconds = 4): Promise<void> {
  const half = seconds / 2
  const colour = (name: string) => ['-f', 'lavfi', '-i', `color=${name}:size=320x180:rate=10:duration=${half}`]
  const join = ['-filter_complex', '[0][1]concat=n=2', '-g', '5', '-pix_fmt', 'yuv420p']
  await run('ffmpeg', ['-v', 'error', '-y', ...colour('black'), ...colour('white'), ...join, file])
}
