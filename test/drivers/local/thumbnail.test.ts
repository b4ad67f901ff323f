/** Thumbnails by Local: formats, hostile and corrupt files, concurrent callers, the cache, and the options. */
import { execFileSync } from 'node:child_process'
import {
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  realpath,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Thumbnail, ThumbnailKind } from '../../../src/contract/capabilities.js'
import type { Driver } from '../../../src/contract/driver.js'
import { asPath } from '../../../src/base/path.js'
import { lacks } from '../../programs.js'
import { openLocal } from '../env.js'
import { brightness, image, looksOf, sideways, video } from '../pictures.js'
import { until } from '../../until.js'

async function folderOf(t: Test): Promise<string> {
  const folder = await mkdtemp(join(await realpath(tmpdir()), 'tidegate-thumbnails-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }))
  return folder
}

interface Mounted {
  readonly folder: string
  readonly driver: Driver
  readonly of: (name: string, kind?: ThumbnailKind, signal?: AbortSignal) => Promise<Thumbnail>
}

async function mounted(t: Test, options: Parameters<typeof openLocal>[1] = {}): Promise<Mounted> {
  const folder = await folderOf(t)
  const driver = await openLocal(folder, { thumbnail: true, ...options })
  t.teardown(() => driver.close?.())
  const of = async (name: string, kind: ThumbnailKind = 'image', signal?: AbortSignal) => {
    if (!driver.thumbnail) throw new Error('no thumbnails')
    return driver.thumbnail(asPath(`/${name}`), kind, { signal })
  }
  return { folder, driver, of }
}

/** Files in the folder that this process has open. */
async function openFiles(folder: string): Promise<string[]> {
  const descriptors = await readdir('/proc/self/fd')
  const files = await Promise.all(descriptors.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')))
  return files.filter((file) => file.startsWith(`${folder}/`))
}

void t.test('thumbnails of all image formats are PNGs of one width', async (t) => {
  const { folder, driver, of } = await mounted(t)
  t.same(driver.traits?.thumbnails?.includes('image'), true)
  for (const format of ['jpeg', 'png', 'webp', 'gif', 'tiff', 'avif'] as const) {
    await writeFile(join(folder, format), await image(format, 400, 300))
    const { type, bytes } = await of(format)
    t.equal(type, 'image/png')
    t.same(await looksOf(bytes), [144, 108, 'png'], format)
  }
  for (const [name, [width, height], seen] of [
    ['small', [10, 20], [144, 288]],
    ['wide', [3000, 2], [144, 1]],
    ['high', [2, 3000], [144, 1440]],
  ] as const) {
    await writeFile(join(folder, name), await image('png', width, height))
    t.same((await looksOf((await of(name)).bytes)).slice(0, 2), seen, name)
  }
  await writeFile(join(folder, 'sideways'), await sideways(400, 200))
  t.same(await looksOf((await of('sideways')).bytes), [144, 288, 'png'], 'the EXIF orientation is applied')
  t.same(await openFiles(folder), [])
})

void t.test('a file that is not an image has no thumbnail; a corrupt image is reported', async (t) => {
  const { folder, driver, of } = await mounted(t)
  const put = (name: string, content: string | Buffer) => writeFile(join(folder, name), content)
  await put('text.jpg', 'not a picture')
  await put('empty.jpg', '')
  await put('vector.svg', '<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>')
  for (const name of ['text.jpg', 'empty.jpg', 'vector.svg']) await t.rejects(of(name), { code: 'unsupported' }, name)

  const whole = await image('jpeg', 2000, 2000)
  await put('cut.jpg', whole.subarray(0, whole.length / 2))
  await put('head.png', (await image('png', 50, 50)).subarray(0, 20))
  await put('lie.webp', Buffer.concat([Buffer.from('RIFF\0\0\0\0WEBPVP8 '), Buffer.alloc(100)]))
  // 60,000 × 60,000 pixels in a few bytes.
  const bomb = await image('png', 1, 1)
  bomb.writeUInt32BE(60_000, 16)
  bomb.writeUInt32BE(60_000, 20)
  bomb.writeUInt32BE(crc32(bomb.subarray(12, 29)), 29)
  await put('bomb.png', bomb)
  for (const name of ['cut.jpg', 'head.png', 'lie.webp', 'bomb.png']) {
    await t.rejects(of(name), { code: 'invalid', message: /no thumbnail can be made of this image/ }, name)
  }
  t.same(await openFiles(folder), [])
  await mkdir(join(folder, 'folder'))
  await symlink('/etc/hostname', join(folder, 'outside.png'))
  await t.rejects(of('folder'), { code: 'is_folder' })
  await t.rejects(of('none'), { code: 'not_found' })
  await t.rejects(of('outside.png'), { code: 'denied' })
  await t.rejects(of('text.jpg', 'image', AbortSignal.abort()), { code: 'aborted' })
  const plain = await openLocal(folder)
  await t.rejects(async () => plain.thumbnail?.(asPath('/cut.jpg'), 'image'), { code: 'unsupported' })
  t.same(plain.traits?.thumbnails, [])
  t.same(driver.traits?.thumbnails?.[0], 'image')
})

void t.test('a crash of the image decoder affects only the image that it was decoding', async (t) => {
  const { folder, of } = await mounted(t)
  await writeFile(join(folder, 'a.png'), await image('png', 3000, 3000))
  await of('a.png')
  const words = ['-o', 'pid,args', '--ppid', String(process.pid)]
  const pid = /^ *(\d+) .*image-process/m.exec(execFileSync('ps', words).toString())?.[1]
  // Stopped, so that it certainly has the image when it is killed.
  process.kill(Number(pid), 'SIGSTOP')
  const begun = of('a.png')
  await wait(1000)
  process.kill(Number(pid), 'SIGKILL')
  await t.rejects(begun, { code: 'invalid', message: /it broke the decoder/ })
  t.same(await looksOf((await of('a.png')).bytes), [144, 144, 'png'], 'the next image has a new decoder')
})

void t.test('a large file is rejected without decoding', async (t) => {
  const { folder, of } = await mounted(t)
  const file = join(folder, 'large.png')
  await writeFile(file, await image('png', 10, 10))
  execFileSync('truncate', ['--size', '70M', file])
  await t.rejects(of('large.png'), { code: 'invalid', message: /too large/ })
})

void t.test(
  'video_thumb_pos decides which frame of a video becomes the thumbnail',
  { skip: lacks('ffmpeg', 'ffprobe') },
  async (t) => {
    for (const [position, bright] of [
      ['20%', false],
      ['75%', true],
      ['3', true],
      ['0', false],
      ['1000', false],
    ] as const) {
      const { folder, of } = await mounted(t, { video_thumb_pos: position })
      for (const name of ['a.mp4', 'b.mkv', 'c.webm', 'd.avi']) {
        // All formats for one position, one format for the other positions.
        if (position !== '20%' && name !== 'a.mp4') continue
        await video(join(folder, name))
        const { type, bytes } = await of(name, 'video')
        t.equal(type, 'image/png')
        t.same(await looksOf(bytes), [144, 81, 'png'], name)
        t.equal((await brightness(bytes)) > 128, bright, `${name} at ${position}`)
      }
    }
  },
)

void t.test('a hostile video opens no other file or address', { skip: lacks('ffmpeg', 'ffprobe') }, async (t) => {
  const { folder, of } = await mounted(t)
  let asked = 0
  const server = createServer((_request, response) => {
    asked++
    response.end()
  }).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await new Promise((resolve) => server.once('listening', resolve))
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/x`
  await video(join(folder, 'secret.mp4'))
  const playlist = (target: string) => `#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n${target}\n#EXT-X-ENDLIST\n`
  const hostile: Record<string, string | Buffer> = {
    'http.m3u8': playlist(address),
    'file.mp4': playlist(join(folder, 'secret.mp4')),
    'list.mp4': `ffconcat version 1.0\nfile '${join(folder, 'secret.mp4')}'\n`,
    'dash.mp4': `<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><BaseURL>${address}</BaseURL></MPD>`,
    'text.mkv': 'not a video',
    'empty.mp4': '',
    'cut.mp4': (await readFile(join(folder, 'secret.mp4'))).subarray(0, 400),
    '-i.mp4': 'x',
    '$(touch x).mp4': 'x',
  }
  for (const [name, content] of Object.entries(hostile)) {
    await writeFile(join(folder, name), content)
    await t.rejects(of(name, 'video'), { code: 'invalid', message: /this video/ }, name)
  }
  t.equal(asked, 0)
})

void t.test('one thumbnail is generated for concurrent callers', async (t) => {
  const { folder, of } = await mounted(t, { thumb_concurrency: '1' })
  await writeFile(join(folder, 'a.png'), await image('png', 300, 300))
  const made = await Promise.all(Array.from({ length: 20 }, () => of('a.png')))
  t.equal(new Set(made.map(({ bytes }) => bytes)).size, 1)
})

void t.test(
  'thumbnail: the process stops when the last waiting caller leaves',
  { skip: lacks('ffmpeg', 'ffprobe') },
  async (t) => {
    const { folder, of, driver } = await mounted(t, { thumb_concurrency: '1' })
    await video(join(folder, 'a.mp4'))
    const programs = () =>
      execFileSync('ps', ['-o', 'args', '--ppid', String(process.pid)])
        .toString()
        .match(/ff(mpeg|probe)/g)
    const leaving = new AbortController()
    const left = t.rejects(of('a.mp4', 'video', leaving.signal), { code: 'aborted' })
    await until(() => programs() !== null)
    leaving.abort()
    await left
    await until(() => programs() === null)
    t.equal(programs(), null)
    t.same(await looksOf((await of('a.mp4', 'video')).bytes), [144, 81, 'png'], 'a later caller gets a thumbnail')
    t.same(await openFiles(folder), [])
    const closing = t.rejects(of('a.mp4', 'video'), { code: 'aborted' }, 'closing the driver aborts the work')
    await new Promise((resolve) => setTimeout(resolve, 20))
    await driver.close?.()
    await closing
  },
)

void t.test('thumbnails are cached in thumb_cache_folder', async (t) => {
  const cache = join(await folderOf(t), 'new', 'thumbs')
  const { folder, of } = await mounted(t, { thumb_cache_folder: cache })
  await writeFile(join(folder, 'a.png'), await image('png', 300, 300))
  const { bytes } = await of('a.png')
  const [group = ''] = await readdir(cache)
  const [name = ''] = await readdir(join(cache, group))
  const kept = join(cache, group, name)
  t.equal((await stat(cache)).mode & 0o777, 0o700)
  t.equal((await stat(kept)).mode & 0o777, 0o600)
  t.ok((await readFile(kept)).equals(bytes))
  await writeFile(kept, 'another')
  t.equal((await of('a.png')).bytes.toString(), 'another', 'the cached thumbnail is returned')
  await utimes(join(folder, 'a.png'), new Date(), new Date(1000))
  t.ok((await of('a.png')).bytes.equals(bytes), 'a changed file gets a new thumbnail')
  await rm(cache, { recursive: true })
  await writeFile(cache, 'a file in its place')
  t.ok((await of('a.png')).bytes.equals(bytes), 'thumbnails are generated even if they cannot be cached')
})

void t.test('Local rejects invalid thumbnail options', async (t) => {
  const folder = await folderOf(t)
  for (const text of ['-1', '101%', '-5%', 'x', '', '1e3', '10 20', '50%%']) {
    await t.rejects(openLocal(folder, { video_thumb_pos: text }), { code: 'invalid', message: /video_thumb_pos/ }, text)
  }
  for (const text of ['-1', 'x', '1.5', '99999']) {
    await t.rejects(openLocal(folder, { thumb_concurrency: text }), { code: 'invalid', message: /thumb_concurrency/ })
  }
  await symlink(folder, `${folder}-link`)
  t.teardown(() => rm(`${folder}-link`))
  for (const inside of [folder, join(folder, 'thumbs'), `${folder}-link/thumbs`]) {
    const options = { thumbnail: true, thumb_cache_folder: inside }
    await t.rejects(openLocal(folder, options), { code: 'invalid', message: /outside of the root folder/ })
  }
  for (const text of ['0', '50%', '100%', '12.5', ' 3 ']) await openLocal(folder, { video_thumb_pos: text })
})

void t.test('missing video programs are logged, and thumbnails of images still work', async (t) => {
  const folder = await folderOf(t)
  const told: string[] = []
  const silent = () => undefined
  const log = { debug: silent, info: silent, error: silent, warn: (_: object, message: string) => told.push(message) }
  const path = process.env.PATH
  process.env.PATH = folder
  try {
    const driver = await openLocal(folder, { thumbnail: true }, { log })
    t.same(driver.traits?.thumbnails, ['image'])
    t.same(told, ['no thumbnails of videos: ffmpeg and ffprobe are not installed'])
  } finally {
    process.env.PATH = path
  }
})

/** The CRC of a PNG chunk. */
function crc32(bytes: Buffer): number {
  let crc = 0xffffffff
  for (const byte of bytes) {
    crc ^= byte
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1
  }
  return (crc ^ 0xffffffff) >>> 0
}
