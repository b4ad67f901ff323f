/** A folder of photos as of a camera. */
import { randomBytes } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import sharp from 'sharp'
import { scaled, type Bench } from './row.js'

const amount = 2000
/** How many of them have pictures of their own. */
const pictures = 12
const [width, height] = [4000, 3000]

export const photoCount = (bench: Bench): number => scaled(bench, amount)

/** The folder, below the served one. */
export const photoFolder = 'photos'
export const photoName = (index: number): string => `IMG_${String(index).padStart(4, '0')}.jpg`

/** Creates the folder, unless it exists. Each photo is a file of its own, whose last bytes no other one has. */
export async function makePhotos(bench: Bench): Promise<void> {
  const folder = join(bench.files, photoFolder)
  if ((await mkdir(folder, { recursive: true })) === undefined) return
  const count = photoCount(bench)
  const sources = await Promise.all(Array.from({ length: Math.min(pictures, count) }, makePhoto))
  for (let index = 0; index < count; index++) {
    const source = sources[index % sources.length] ?? Buffer.alloc(0)
    await writeFile(join(folder, photoName(index)), Buffer.concat([source, randomBytes(16)]))
  }
}

/** A JPEG of 12 megapixels and about 4 MB. */
async function makePhoto(): Promise<Buffer> {
  const noise = { type: 'gaussian', mean: 128, sigma: 30 } as const
  const grain = sharp({ create: { width: width >> 2, height: height >> 2, channels: 3, background: '#808080', noise } })
  return sharp(await grain.png().toBuffer())
    .resize(width, height)
    .jpeg({ quality: 90 })
    .toBuffer()
}
