/** Thumbnails by Local: formats, hostile and corrupt files, concurrent callers, the cache, and the options. */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
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
import { getPriority, tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import t, { type Test } from 'tap'
import { decoderTurns, spawnLimited } from '../../../drivers/local/thumbnails/limited-process.js'
import { ThumbnailCache } from '../../../drivers/local/thumbnails/picture-folder.js'
import type { Thumbnail, ThumbnailKind, ThumbnailOptions } from '../../../src/contract/capabilities.js'
import type { Driver } from '../../../src/contract/driver.js'
import { asPath } from '../../../src/base/path.js'
import type { Release } from '../../../src/base/fair-share.js'
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
  /** The data folder. */
  readonly data: string
  readonly driver: Driver
  readonly of: (name: string, kind?: ThumbnailKind, options?: ThumbnailOptions) => Promise<Thumbnail>
}

interface Places {
  readonly folder?: string
  readonly data?: string
}

/** A storage with the default options, except for these. */
async function mounted(
  t: Test,
  options: Parameters<typeof openLocal>[1] = {},
  { folder: given, data: givenData }: Places = {},
): Promise<Mounted> {
  const folder = given ?? (await folderOf(t))
  const data = givenData ?? (await folderOf(t))
  const driver = await openLocal(folder, options, { own: { data, protectedPaths: [] } })
  t.teardown(() => driver.close?.())
  const of = async (name: string, kind: ThumbnailKind = 'image', given: ThumbnailOptions = {}) => {
    if (!driver.thumbnail) throw new Error('no thumbnails')
    return driver.thumbnail(asPath(`/${name}`), kind, given)
  }
  return { folder, data, driver, of }
}

/** The processes of this one that decode images. */
function decoders(): number[] {
  const words = ['-o', 'pid,args', '--ppid', String(process.pid)]
  return [
    ...execFileSync('ps', words)
      .toString()
      .matchAll(/^ *(\d+) .*image-process/gm),
  ].map(([, pid]) => Number(pid))
}

/** The files of thumbnails in the data folder. */
async function keptIn(data: string): Promise<string[]> {
  const names = await readdir(join(data, 'thumbnails'), { recursive: true, withFileTypes: true })
  return names.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
}

/** Files in the folder that this process has open. */
async function openFiles(folder: string): Promise<string[]> {
  const descriptors = await readdir('/proc/self/fd')
  const files = await Promise.all(descriptors.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')))
  return files.filter((file) => file.startsWith(`${folder}/`))
}

void t.test('thumbnails of all image formats fit into a square of 256 or 1,024 pixels', async (t) => {
  const { folder, driver, of } = await mounted(t)
  t.same(driver.traits?.thumbnails?.includes('image'), true, 'without any option')
  for (const format of ['jpeg', 'png', 'webp', 'gif', 'tiff', 'avif'] as const) {
    await writeFile(join(folder, format), await image(format, 1600, 1200))
    const { type, bytes } = await of(format)
    t.equal(type, 'image/webp')
    t.same(await looksOf(bytes), [256, 192, 'webp'], format)
  }
  t.same(await looksOf((await of('jpeg', 'image', { size: 1024 })).bytes), [1024, 768, 'webp'])
  t.same(await looksOf((await of('jpeg', 'image', { size: 256 })).bytes), [256, 192, 'webp'])
  for (const [name, [width, height], seen] of [
    ['small', [10, 20], [10, 20]],
    ['wide', [3000, 2], [256, 1]],
    ['high', [2, 3000], [1, 256]],
  ] as const) {
    await writeFile(join(folder, name), await image('png', width, height))
    t.same((await looksOf((await of(name)).bytes)).slice(0, 2), seen, name)
  }
  await writeFile(join(folder, 'sideways'), await sideways(400, 200))
  t.same(await looksOf((await of('sideways')).bytes), [128, 256, 'webp'], 'the EXIF orientation is applied')
  t.same(await openFiles(folder), [])
})

void t.test('a file that is not an image has no thumbnail; a corrupt image is reported', async (t) => {
  const { folder, driver, of } = await mounted(t)
  const put = (name: string, content: string | Buffer) => writeFile(join(folder, name), content)
  await put('text.jpg', 'not a picture')
  await put('empty.jpg', '')
  await put('large.ico', Buffer.alloc(2 ** 21))
  await put('vector.svg', '<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>')
  for (const name of ['text.jpg', 'empty.jpg', 'vector.svg']) await t.rejects(of(name), { code: 'unsupported' }, name)
  await t.rejects(of('large.ico'), { code: 'invalid', message: /no thumbnails are made of such images/ })

  const whole = await image('jpeg', 2000, 2000)
  await put('cut.jpg', whole.subarray(0, whole.length / 2))
  await put('head.png', (await image('png', 50, 50)).subarray(0, 20))
  await put('lie.webp', Buffer.concat([Buffer.from('RIFF\0\0\0\0WEBPVP8 '), Buffer.alloc(100)]))
  await put('a.heic', Buffer.from('0000001c6674797068656963000000006d69663168656963', 'hex'))
  // 60,000 × 60,000 pixels in a few bytes.
  const bomb = await image('png', 1, 1)
  bomb.writeUInt32BE(60_000, 16)
  bomb.writeUInt32BE(60_000, 20)
  bomb.writeUInt32BE(crc32(bomb.subarray(12, 29)), 29)
  await put('bomb.png', bomb)
  for (const name of ['cut.jpg', 'head.png', 'lie.webp', 'a.heic', 'bomb.png']) {
    await t.rejects(of(name), { code: 'invalid', message: /no thumbnail can be made of this image/ }, name)
  }
  await put('cut.jpg', whole)
  t.same(await looksOf((await of('cut.jpg')).bytes), [256, 256, 'webp'], 'the file is whole now')
  t.same(await openFiles(folder), [])
  await mkdir(join(folder, 'folder'))
  await symlink('/etc/hostname', join(folder, 'outside.png'))
  await t.rejects(of('folder'), { code: 'is_folder' })
  await t.rejects(of('none'), { code: 'not_found' })
  await t.rejects(of('outside.png'), { code: 'denied' })
  await t.rejects(of('cut.jpg', 'image', { size: 1024, signal: AbortSignal.abort() }), { code: 'aborted' })
  const plain = await openLocal(folder, { thumbnail: false })
  await t.rejects(async () => plain.thumbnail?.(asPath('/cut.jpg'), 'image'), { code: 'unsupported' })
  t.same(plain.traits?.thumbnails, [])
  t.same(driver.traits?.thumbnails?.[0], 'image')
})

void t.test('a decoder of images has limits, and is killed if it hangs', async (t) => {
  const { folder, of } = await mounted(t)
  for (const name of ['a.png', 'b.png', 'c.png']) await writeFile(join(folder, name), await image('png', 3000, 3000))
  await of('c.png')
  const [pid = 0] = decoders()
  const limits = await readFile(`/proc/${pid}/limits`, 'utf8')
  t.match(limits, /^Max data size +805306368 /m, '768 MiB')
  t.match(limits, /^Max file size +0 /m)
  t.match(limits, /^Max core file size +0 /m)
  t.equal((await readFile(`/proc/${pid}/oom_score_adj`, 'utf8')).trim(), '1000')
  t.equal(getPriority(pid), Math.min(getPriority() + 10, 19))
  t.notMatch(await readFile(`/proc/${pid}/environ`, 'utf8'), /HOME=/)
  // Stopped, so that it certainly has the image when it is killed.
  process.kill(pid, 'SIGSTOP')
  const hanging = of('a.png')
  await t.rejects(hanging, { code: 'timeout', message: /takes too long/ })
  t.ok(await until(() => !decoders().includes(pid)), 'it is killed')
  t.same(await looksOf((await of('b.png')).bytes), [256, 256, 'webp'], 'the next image has another decoder')
})

void t.test('a crash of a decoder affects only its image, of which no thumbnail is tried again', async (t) => {
  const { folder, of } = await mounted(t)
  for (const name of ['a.png', 'b.png', 'c.png']) await writeFile(join(folder, name), await image('png', 3000, 3000))
  await of('c.png')
  const [pid = 0] = decoders()
  process.kill(pid, 'SIGSTOP')
  const begun = of('a.png')
  await until(() => decoderTurns.held === 1)
  // Another user has a turn of its own, and thus a decoder of its own.
  t.same(await looksOf((await of('b.png', 'image', { holder: 2 })).bytes), [256, 256, 'webp'])
  process.kill(pid, 'SIGKILL')
  await t.rejects(begun, { code: 'invalid', message: /it broke the decoder/ })
  const running = decoders()
  await t.rejects(of('a.png'), { code: 'invalid', message: /it broke the decoder/ })
  t.same(decoders(), running, 'no decoder is started for it')
  t.same(await looksOf((await of('a.png', 'image', { size: 1024 })).bytes), [1024, 1024, 'webp'])
  await utimes(join(folder, 'a.png'), new Date(), new Date(1000))
  t.same(await looksOf((await of('a.png')).bytes), [256, 256, 'webp'], 'the file has changed')
})

void t.test('a program with limits ends if it takes too much memory or time, or writes a file', async (t) => {
  const folder = await folderOf(t)
  const run = async (script: string): Promise<string> => {
    const options = { processorTime: 1, stdio: 'ignore' } as const
    const child = spawnLimited(process.execPath, ['-e', script], options)
    const [status, signal] = (await once(child, 'close')) as [number | null, string | null]
    return signal ?? (status === 0 ? 'ended' : 'failed')
  }
  t.equal(await run(''), 'ended')
  const memory = await run('const kept = []; for (;;) kept.push(Buffer.alloc(2 ** 24, 1))')
  t.ok(['SIGABRT', 'SIGTRAP', 'SIGILL', 'failed'].includes(memory), memory)
  const time = await run('for (;;);')
  t.ok(['SIGXCPU', 'SIGKILL'].includes(time), time)
  const file = join(folder, 'file')
  t.not(await run(`require('fs').writeFileSync(${JSON.stringify(file)}, 'text')`), 'ended')
  t.notOk((await readFile(file, 'utf8').catch(() => '')).includes('text'))
})

void t.test(
  'a user does not wait for the pictures of another one, and what nobody waits for is not made',
  async (t) => {
    const { folder, data, of } = await mounted(t)
    const names = Array.from({ length: 40 }, (_, number) => `${number}.png`)
    for (const name of [...names, 'other.png']) await writeFile(join(folder, name), await image('png', 300, 300))
    const releases: Release[] = []
    const takeShare = () => {
      for (;;) releases.push(decoderTurns.take(1))
    }
    t.throws(takeShare, { code: 'busy' })
    const leaving = names.map(() => new AbortController())
    const all = names.map((name, index) =>
      t.rejects(of(name, 'image', { holder: 1, signal: leaving[index]?.signal }), { code: 'aborted' }),
    )
    t.same(await looksOf((await of('other.png', 'image', { holder: 2 })).bytes), [256, 256, 'webp'])
    for (const each of leaving) each.abort()
    await Promise.all(all)
    for (const release of releases) release()
    t.equal(decoderTurns.held, 0)
    t.equal((await keptIn(data)).length, 1)
  },
)

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
        t.equal(type, 'image/jpeg')
        t.same(await looksOf(bytes), [256, 144, 'jpeg'], name)
        t.equal((await brightness(bytes)) > 128, bright, `${name} at ${position}`)
        const larger = await of(name, 'video', { size: 1024 })
        t.same(await looksOf(larger.bytes), [320, 180, 'jpeg'], 'no larger than the video')
      }
    }
    const { folder, of } = await mounted(t)
    await video(join(folder, 'plain.mp4'))
    const upright = await readFile(join(folder, 'plain.mp4'))
    // The matrix in the header of the track: a rotation by 90 degrees (ISO/IEC 14496-12, 8.3.2).
    const matrix = Int32Array.from([0, 0x10000, 0, -0x10000, 0, 0, 0, 0, 0x40000000])
    for (const [index, value] of matrix.entries()) upright.writeInt32BE(value, upright.indexOf('tkhd') + 44 + 4 * index)
    await writeFile(join(folder, 'upright.mp4'), upright)
    const stretched = ['-c', 'copy', '-aspect', '1:2', join(folder, 'stretched.mp4')]
    execFileSync('ffmpeg', ['-v', 'error', '-i', join(folder, 'plain.mp4'), ...stretched])
    t.same(await looksOf((await of('upright.mp4', 'video')).bytes), [144, 256, 'jpeg'], 'as the phone was held')
    t.same(await looksOf((await of('stretched.mp4', 'video')).bytes), [90, 180, 'jpeg'], 'pixels that are not square')
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
    const left = t.rejects(of('a.mp4', 'video', { signal: leaving.signal }), { code: 'aborted' })
    await until(() => programs() !== null)
    leaving.abort()
    await left
    await until(() => programs() === null)
    t.equal(programs(), null)
    t.same(await looksOf((await of('a.mp4', 'video')).bytes), [256, 144, 'jpeg'], 'a later caller gets a thumbnail')
    t.same(await openFiles(folder), [])
    await video(join(folder, 'b.mp4'))
    const closing = t.rejects(of('b.mp4', 'video'), { code: 'aborted' }, 'closing the driver aborts the work')
    await until(() => programs() !== null)
    await driver.close?.()
    await closing
  },
)

void t.test('thumbnails are kept in the data folder, for other storages and after a restart', async (t) => {
  const { folder, data, of } = await mounted(t)
  await writeFile(join(folder, 'a.png'), await image('png', 300, 300))
  const { bytes } = await of('a.png')
  const [kept = '', ...others] = await keptIn(data)
  t.same(others, [])
  t.equal((await stat(join(data, 'thumbnails'))).mode & 0o777, 0o700)
  t.equal((await stat(kept)).mode & 0o777, 0o600)
  t.ok((await readFile(kept)).equals(bytes))
  await writeFile(kept, 'another')
  t.equal((await of('a.png')).bytes.toString(), 'another', 'the kept thumbnail is returned')
  const again = await mounted(t, {}, { folder, data })
  t.equal((await again.of('a.png')).bytes.toString(), 'another')
  const parent = await mounted(t, {}, { folder: join(folder, '..'), data })
  t.equal((await parent.of(`${basename(folder)}/a.png`)).bytes.toString(), 'another', 'the same file')
  await utimes(join(folder, 'a.png'), new Date(), new Date(1000))
  t.ok((await of('a.png')).bytes.equals(bytes), 'a changed file gets a new thumbnail')
})

void t.test('an overwritten file has a new thumbnail, also with the same size and time', async (t) => {
  const { folder, of } = await mounted(t)
  const file = join(folder, 'a.png')
  const [red, black] = [await image('png', 300, 300), await image('png', 300, 300, 'black')]
  const padded = (bytes: Buffer) => Buffer.concat([bytes, Buffer.alloc(5000 - bytes.length)])
  const time = new Date(1_600_000_000_000)
  const shown: number[] = []
  for (const bytes of [red, black]) {
    await writeFile(file, padded(bytes))
    await utimes(file, time, time)
    shown.push(await brightness((await of('a.png')).bytes))
  }
  t.ok((shown[0] ?? 0) > 50 && (shown[1] ?? 255) < 10, `brightness ${shown.join(', ')}`)
  await rm(file)
  await t.rejects(of('a.png'), { code: 'not_found' })
})

void t.test('thumb_cache_folder names another folder for thumbnails', async (t) => {
  const cache = join(await folderOf(t), 'new', 'thumbs')
  const { folder, data, of } = await mounted(t, { thumb_cache_folder: cache })
  await writeFile(join(folder, 'a.png'), await image('png', 300, 300))
  const { bytes } = await of('a.png')
  const [group = ''] = await readdir(cache)
  t.equal((await readdir(join(cache, group))).length, 1)
  t.equal((await stat(cache)).mode & 0o777, 0o700)
  t.same(await readdir(data), [])
  await rm(cache, { recursive: true })
  await writeFile(cache, 'a file in its place')
  t.ok((await of('a.png')).bytes.equals(bytes), 'thumbnails are generated even if they cannot be kept')
})

void t.test('of too many thumbnails those are removed that were used least recently', async (t) => {
  const folder = await folderOf(t)
  const silent = () => undefined
  const log = { debug: silent, info: silent, warn: silent, error: silent }
  const picture = Buffer.alloc(1000)
  const cache = new ThumbnailCache(folder, log, 10_000)
  const kept = async () => {
    const names = Array.from({ length: 12 }, (_, number) => String(number))
    const found = await Promise.all(names.map(async (name) => ((await cache.get(name)) ? [name] : [])))
    return found.flat()
  }
  const stray = join(folder, '00', 'tidegate_thumb_00.tmp')
  await mkdir(join(folder, '00'))
  await writeFile(stray, 'of a killed process')
  await writeFile(join(folder, '00', 'file'), 'not ours')
  await utimes(stray, new Date(0), new Date(0))
  for (let number = 0; number < 9; number++) {
    await cache.put(String(number), picture)
    await cache.swept()
    const [latest = ''] = await newestIn(folder)
    const time = new Date(Date.now() - (20 - number) * 86_400_000)
    await utimes(latest, time, time)
  }
  t.notOk((await readdir(join(folder, '00'))).includes(basename(stray)))
  t.ok(await cache.get('0'), 'the oldest one is used')
  for (const name of ['9', '10']) {
    await cache.swept()
    await cache.put(name, picture)
  }
  await cache.swept()
  t.same(await kept(), ['0', '3', '4', '5', '6', '7', '8', '9', '10'], '90 % of the limit')
  t.ok((await readdir(join(folder, '00'))).includes('file'))
})

/** The files in the folders of a folder, the newest first. */
async function newestIn(folder: string): Promise<string[]> {
  const files: { readonly file: string; readonly time: number }[] = []
  for (const group of await readdir(folder)) {
    for (const name of await readdir(join(folder, group))) {
      const file = join(folder, group, name)
      files.push({ file, time: (await stat(file)).mtimeMs })
    }
  }
  return files.sort((one, other) => other.time - one.time).map(({ file }) => file)
}

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
  const log = { debug: silent, warn: silent, error: silent, info: (_: object, message: string) => told.push(message) }
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
