/** What the viewers read from files of others, and what they compute, without a browser. */
import { readFile } from 'node:fs/promises'
import t from 'tap'
import { photo } from '../drivers/pictures.js'
import { consoleModule } from './console-modules.js'
import { detailsOf, pngOf } from './documents.js'

/** What the expression is in a module that has imported everything of `module`, a file in `web/viewers/`. */
async function evaluated<T>(module: string, expression: string): Promise<T> {
  const { result } = (await consoleModule(
    `import * as m from './viewers/${module}'
     const bytes = (text) => Uint8Array.from(atob(text), (each) => each.charCodeAt(0))
     export const result = JSON.stringify(${expression})`,
    { languages: ['en'] },
  )) as { readonly result: string }
  return JSON.parse(result) as T
}

const gps = {
  1: 'S',
  2: [
    [33, 1],
    [51, 1],
    [2400, 100],
  ],
  3: 'E',
  4: [
    [151, 1],
    [12, 1],
    [0, 1],
  ],
} as const
const camera = {
  0x010f: 'Tide',
  0x0110: 'Tide Cam 2',
  0x8769: {
    0x829a: [[1, 250]],
    0x829d: [[28, 10]],
    0x8827: [200],
    0x9003: '2026:06:03 06:12:00',
    0x920a: [[50, 1]],
    0xa434: 'Tide 50 mm',
  },
  0x8825: gps,
} as const

void t.test('the details that a camera writes are read', async (t) => {
  const read = (bytes: Buffer) =>
    evaluated<object>('picture/exif.ts', `m.cameraDetailsIn(bytes(${JSON.stringify(bytes.toString('base64'))}))`)
  const details = detailsOf(camera)
  const expected = {
    taken: '2026-06-03T06:12:00',
    camera: 'Tide Cam 2',
    lens: 'Tide 50 mm',
    exposure: 0.004,
    aperture: 2.8,
    sensitivity: 200,
    focalLength: 50,
  }
  const place = { latitude: -(33 + 51 / 60 + 24 / 3600), longitude: 151.2 }
  const jpeg = Buffer.concat([Buffer.from('ffd8ffe10000', 'hex'), Buffer.from('Exif\0\0'), details])
  t.strictSame(await read(jpeg), { ...expected, place }, 'of JPEG')
  t.strictSame(await read(pngOf(4, 4, [0, 0, 0], details)), { ...expected, place }, 'of PNG')

  await t.test('what is faulty or missing is left out, and none is followed in circles', async (t) => {
    const readTags = (tags: Parameters<typeof detailsOf>[0]) =>
      read(Buffer.concat([Buffer.from('Exif\0\0'), detailsOf(tags)]))
    t.strictSame(await read(Buffer.alloc(0)), {})
    t.strictSame(await read(Buffer.from('Exif\0\0MM\0*')), {}, 'a header that is cut off')
    // A directory that is its own directory of the camera and of the place.
    t.strictSame(await readTags({ 0x0110: 'Loop', 0x8769: [8], 0x8825: [8] }), { camera: 'Loop' })
    t.strictSame(await readTags({ 0x0110: 'Far', 0x8769: [0xfffffff0], 0x8825: [0xffffffff] }), { camera: 'Far' })
    t.strictSame(await readTags({ 0x8769: { 0x829a: [[1, 0]], 0x829d: [[0, 1]], 0x9003: 'yesterday' } }), {})
    t.strictSame(await readTags({ 0x8825: { ...gps, 2: [[91, 1]] } }), {}, 'no such place')
    t.strictSame(await readTags({ 0x8825: { ...gps, 4: [[0, 0]] } }), {}, 'no number')
    t.strictSame(await readTags({ 0x0110: 'A\u0007\u202e\nB' }), { camera: 'AB' }, 'no control characters')
    const { camera: long } = (await readTags({ 0x0110: 'x'.repeat(60_000) })) as { camera: string }
    t.equal(long.length, 200)
    // Every way to cut it off, and every byte replaced.
    for (let length = 0; length < jpeg.length; length += 7) await read(jpeg.subarray(0, length))
    const hostile = await evaluated<number>(
      'picture/exif.ts',
      `(() => {
        const whole = bytes(${JSON.stringify(jpeg.toString('base64'))})
        for (let at = 12; at < whole.length; at++) {
          for (const value of [0, 1, 127, 255]) m.cameraDetailsIn(whole.with(at, value))
        }
        return whole.length
      })()`,
    )
    t.equal(hostile, jpeg.length)
  })
})

void t.test('subtitles are cues of plain text', async (t) => {
  const cues = (name: string, text: string) =>
    evaluated<{ start: number; end: number; text: string }[]>(
      'media/cues.ts',
      `m.cuesIn(${JSON.stringify(name)}, ${JSON.stringify(text)})`,
    )
  const srt =
    '\ufeff1\r\n00:00:01,500 --> 00:00:02,750 X1:1\r\n<i>High</i> <font color="red">water</font>\r\nat six\r\n\r\n' +
    '2\r\n01:00:00,000 --> 01:00:01,000\r\n{\\an8}<script>alert(1)</script> 1 < 2\r\n\r\n3\r\n00:00:09 --> no time\r\nx\r\n'
  t.strictSame(await cues('a.srt', srt), [
    { start: 1.5, end: 2.75, text: 'High water\nat six' },
    { start: 3600, end: 3601, text: '<script>alert(1)</script> 1 < 2' },
  ])
  const vtt =
    'WEBVTT\n\nSTYLE\n::cue { background: url(https://remote.invalid/a) }\n\nNOTE a note\n\n' +
    'first\n00:01.000 --> 00:02.000 align:start\n<v Ann>Low <c.loud>water</c> &lt;b&gt; &amp;amp;</v>\n\n' +
    '00:03.000 --> 00:02.000\nbackwards\n\n00:04.000 --> 00:05.000\n<00:04.500>later <img src=x>\n'
  t.strictSame(await cues('a.vtt', vtt), [
    { start: 1, end: 2, text: 'Low water <b> &amp;' },
    { start: 4, end: 5, text: 'later <img src=x>' },
  ])
  const ass =
    '[Script Info]\nTitle: x\n[Events]\nFormat: Layer, Start, End, Style, Text\n' +
    'Dialogue: 0,0:00:05.00,0:00:06.50,Default,{\\b1}Second{\\b0}, with a comma\\Nand a line\n' +
    'Dialogue: 0,0:00:01.00,0:00:02.00,Default,First\\hone\n' +
    'Dialogue: 0,0:00:07.00,0:00:08.00,Default,{\\p1}m 0 0 l 100 0{\\p0}\nComment: 0,0:00:01.00,0:00:02.00,,no\n'
  t.strictSame(await cues('a.ass', ass), [
    { start: 1, end: 2, text: 'First\u00a0one' },
    { start: 5, end: 6.5, text: 'Second, with a comma\nand a line' },
  ])
  t.equal(await evaluated('media/cues.ts', `m.escaped('<b>&amp;')`), '&lt;b&gt;&amp;amp;')
  for (const hostile of ['<', '{\\', '&', '<c ', ' ', '00:01', '-->'])
    t.strictSame(await cues('a.srt', hostile.repeat(100_000)), [], `${hostile} again and again`)
})

void t.test('a film has the subtitles that have its name', async (t) => {
  const named = (...names: readonly string[]) =>
    evaluated<readonly { name: string; tag: string }[]>(
      'media/subtitles.ts',
      `m.subtitlesOf({ name: 'the.tide.mkv', related: ${JSON.stringify(names)}.map((name) => ({ name, sign: '' })) })`,
    )
  const found = await named(
    'the.tide.srt',
    'the.tide.zh-CN.forced.VTT',
    'the.tide.2.txt',
    'the.tide2.srt',
    'the.tide.ass',
  )
  t.strictSame(
    found.map(({ name, tag }) => [name, tag]),
    [
      ['the.tide.srt', ''],
      ['the.tide.zh-CN.forced.VTT', 'zh-CN.forced'],
      ['the.tide.ass', ''],
    ],
  )
  const label = (tag: string) =>
    evaluated('media/subtitles.ts', `m.labelOf({ name: '', sign: '', tag: '${tag}', extension: 'srt' })`)
  t.strictSame(await Promise.all(['', 'de', 'zh-CN.forced', 'x y'].map(label)), [
    'SRT',
    'German',
    'Chinese (China) forced',
    'x y',
  ])
})

void t.test('texts are read in the encoding that they have', async (t) => {
  const text = (bytes: Buffer) => evaluated('bytes.ts', `m.textOf(bytes(${JSON.stringify(bytes.toString('base64'))}))`)
  t.equal(await text(Buffer.from('潮汐')), '潮汐')
  t.equal(await text(Buffer.from('\ufeffcafé', 'utf16le')), 'café')
  t.equal(await text(Buffer.from([0xb3, 0xb1, 0xcf, 0xab])), '潮汐', 'GB 18030')
  t.equal(await text(Buffer.from('café, là', 'latin1')), 'café, là')
})

void t.test('the entries of a playlist are paths near it, and nothing else', async (t) => {
  const read = (lines: readonly string[], top = '/') =>
    evaluated<{ paths: readonly string[]; skipped: number } | null>(
      'media/m3u.ts',
      `m.playlistIn(${JSON.stringify(lines.join('\r\n'))}, '/music/lists', '${top}')`,
    )
  t.strictSame(
    await read([
      '\ufeff#EXTM3U',
      '#EXTINF:12,The tide',
      'a b.mp3',
      '../100% #1?.mp3',
      'sub%20folder/c.mp3',
      '..\\d.mp3',
      '/films/e.mp4',
      '../../../../f.mp3',
      'https://remote.invalid/g.mp3',
      '//remote.invalid/h.mp3',
      '\\\\remote.invalid\\i.mp3',
      'C:\\Music\\j.mp3',
      'javascript:alert(1)',
      'k%2f..%2fl.mp3',
      '',
    ]),
    {
      paths: [
        '/music/lists/a b.mp3',
        '/music/100% #1?.mp3',
        '/music/lists/sub folder/c.mp3',
        '/music/d.mp3',
        '/films/e.mp4',
        '/f.mp3',
      ],
      skipped: 6,
    },
  )
  t.strictSame(await read(['/a.mp3', '../../../b.mp3'], '/music'), {
    paths: ['/music/a.mp3', '/music/b.mp3'],
    skipped: 0,
  })
  t.equal(await read(['#EXTM3U', '#EXT-X-TARGETDURATION:10', 'part.ts']), null, 'a stream is no playlist')
  const { paths, skipped } = (await read(Array<string>(10_005).fill('a.mp3'))) ?? { paths: [], skipped: 0 }
  t.strictSame([paths.length, skipped], [10_000, 5])
})

void t.test('files are played in the order of the list, or in a random one', async (t) => {
  const around = (...values: readonly unknown[]) =>
    evaluated('media/play-order.ts', `m.around(...${JSON.stringify(values)}.map((each) => each ?? undefined))`)
  t.strictSame(await around(0, 3, null, 'none'), { next: 1 })
  t.strictSame(await around(2, 3, null, 'none'), { previous: 1 })
  t.strictSame(await around(2, 3, null, 'all'), { previous: 1, next: 0 })
  t.strictSame(await around(2, 3, [2, 0, 1], 'none'), { next: 0 })
  t.strictSame(await around(2, 3, [2, 0, 1], 'all'), { previous: 1, next: 0 })
  t.strictSame(await around(-1, 0, null, 'all'), {})
  const order = await evaluated<readonly number[]>('media/play-order.ts', 'm.shuffled(100, 7)')
  t.equal(order[0], 7)
  t.strictSame(
    [...order].sort((one, other) => one - other),
    Array.from({ length: 100 }, (_, index) => index),
  )
})

void t.test('other programs get the link in their own form', async (t) => {
  const url = 'https://tide.example/d/a%20b.mkv?sign=x:0'
  const links = async (platform: string) =>
    evaluated<Readonly<Record<string, string>>>(
      'media/players.ts',
      `Object.fromEntries(m.programsOn(${JSON.stringify(platform)})
         .map(({ name, link }) => [name, link(new URL(${JSON.stringify(url)}), 'a b; c.mkv')]))`,
    )
  const asParameter = encodeURIComponent(url)
  const intent = (app: string) =>
    'intent://tide.example/d/a%20b.mkv?sign=x:0#Intent;scheme=https;action=android.intent.action.VIEW;' +
    `type=video/*;package=${app};S.title=a%20b%3B%20c.mkv;end`
  t.strictSame(await links('android'), {
    VLC: intent('org.videolan.vlc'),
    'MX Player': intent('com.mxtech.videoplayer.ad'),
    'MX Player Pro': intent('com.mxtech.videoplayer.pro'),
    mpv: intent('is.xyz.mpv'),
  })
  t.strictSame(await links('ios'), {
    VLC: `vlc-x-callback://x-callback-url/stream?url=${asParameter}`,
    Infuse: `infuse://x-callback-url/play?url=${asParameter}`,
    nPlayer: `nplayer-${url}`,
    VidHub: `open-vidhub://x-callback-url/open?url=${asParameter}`,
  })
  t.match(await links('macos'), { IINA: `iina://weblink?url=${asParameter}` })
  const base64 = Buffer.from(url).toString('base64url')
  t.strictSame(await links('windows'), {
    PotPlayer: `potplayer://${url}`,
    'mpv (mpv-handler)': `mpv-handler://play/${base64}/`,
  })
  t.strictSame(await links('linux'), { 'mpv (mpv-handler)': `mpv-handler://play/${base64}/` })
  const platform = (userAgent: string, maxTouchPoints = 0) =>
    evaluated('media/players.ts', `m.platformOf(${JSON.stringify({ userAgent, maxTouchPoints })}) ?? null`)
  t.equal(await platform('Mozilla/5.0 (Linux; Android 16; K)'), 'android')
  t.equal(await platform('Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)'), 'macos')
  t.equal(await platform('Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)', 5), 'ios')
  t.equal(await platform('Mozilla/5.0 (Windows NT 10.0; Win64; x64)'), 'windows')
  t.equal(await platform('Mozilla/5.0 (X11; Linux x86_64)'), 'linux')
  t.equal(await platform('something'), null)
})

void t.test('a picture is zoomed at a point, and never leaves its space', async (t) => {
  const frame = { picture: { width: 2000, height: 1000 }, space: { width: 500, height: 500 }, turns: 0 }
  const zoom = <T>(expression: string) =>
    evaluated<T>('picture/zoom.ts', `(() => { const frame = ${JSON.stringify(frame)}; return ${expression} })()`)
  t.equal(await zoom('m.fitOf(frame)'), 0.25)
  t.equal(await zoom('m.fitOf({ ...frame, turns: -1 })'), 0.25)
  t.equal(await zoom('m.fitOf({ ...frame, space: { width: 5000, height: 5000 } })'), 1, 'a small one keeps its size')
  t.equal(await zoom('m.closeUp(frame)'), 4)
  t.strictSame(await zoom('m.scaled(m.fitting, 4, { x: 100, y: 0 }, frame)'), { scale: 4, x: -300, y: 0 })
  t.match(await zoom('m.scaled(m.fitting, 0.1, { x: 0, y: 0 }, frame)'), { scale: 1 })
  t.match(await zoom('m.scaled(m.fitting, 1e9, { x: 0, y: 0 }, frame)'), { scale: 32 })
  t.strictSame(await zoom('m.moved({ scale: 4, x: 0, y: 0 }, { x: 9999, y: -9999 }, frame)'), {
    scale: 4,
    x: 750,
    y: -250,
  })
})

void t.test('a picture keeps its place when its size becomes known', async (t) => {
  const space = { width: 500, height: 500 }
  const zoom = <T>(expression: string) =>
    evaluated<T>(
      'picture/zoom.ts',
      `(() => {
        const before = { picture: m.guessedSize({ width: 1024, height: 512 }), space: ${JSON.stringify(space)}, turns: 0 }
        const now = { ...before, picture: { width: 6000, height: 3000 } }
        return ${expression}
      })()`,
    )
  t.strictSame(await zoom('before.picture'), { width: 4096, height: 2048 })
  const small = 'm.guessedSize({ width: 900, height: 600 })'
  t.strictSame(await zoom(small), { width: 900, height: 600 }, 'no preview is larger than its picture')
  t.strictSame(await zoom('m.resized(m.fitting, before, now)'), { scale: 1, x: 0, y: 0 })
  t.strictSame(await zoom('m.resized({ scale: 2, x: 100, y: 0 }, before, now)'), { scale: 2, x: 100, y: 0 })
  const own = 'm.scaled(m.fitting, 1 / m.fitOf(before), { x: 0, y: 0 }, before)'
  t.match(await zoom(`m.resized(${own}, before, now)`), { scale: 12 }, 'one in its own size has that')
})

void t.test('the first bytes of a file say how large its picture is', async (t) => {
  const evaluate = (bytes: Buffer, expression = 'm.dimensionsIn(whole)') =>
    evaluated<unknown>(
      'picture/dimensions.ts',
      `(() => { const whole = bytes(${JSON.stringify(bytes.toString('base64'))}); return ${expression} })() ?? null`,
    )
  const jpeg = await photo('jpeg', 400, 300)
  t.strictSame(await evaluate(jpeg), { width: 400, height: 300 })
  t.strictSame(await evaluate(pngOf(70, 40, [0, 0, 0])), { width: 70, height: 40 })
  t.equal(await evaluate(Buffer.from('GIF89a, of which the browser says how large it is')), null)
  t.equal(await evaluate(Buffer.alloc(0)), null)
  // Each way to cut it off, and each byte replaced.
  const head = jpeg.subarray(0, 700)
  await evaluate(head, 'whole.forEach((_, length) => m.dimensionsIn(whole.subarray(0, length)))')
  await evaluate(
    head,
    'whole.forEach((_, at) => [0, 1, 255].forEach((value) => m.dimensionsIn(whole.with(at, value))))',
  )
})

void t.test('the keys of the viewer are those of its page', async (t) => {
  const source = await readFile('web/viewers/picture/picture-keys.ts', 'utf8')
  const [, table = ''] = (await readFile('docs/console.md', 'utf8')).split('## Keys in the viewer of pictures')
  const keys = Array.from(source.matchAll(/case '([^=R ])':/g), ([, key = '']) => key)
  t.ok(keys.length >= 6, 'the keys were found')
  for (const key of keys) t.ok(table.includes(`\`${key.toUpperCase()}\``), `${key} is described`)
})
