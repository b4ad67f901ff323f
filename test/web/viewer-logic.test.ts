/** What the viewers read from files of others, and what they compute, without a browser. */
import { readFile } from 'node:fs/promises'
import t from 'tap'
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

void t.test('the keys of the viewer are those of its page', async (t) => {
  const source = await readFile('web/viewers/picture/picture-keys.ts', 'utf8')
  const [, table = ''] = (await readFile('docs/console.md', 'utf8')).split('## Keys in the viewer of pictures')
  const keys = Array.from(source.matchAll(/case '([^=R ])':/g), ([, key = '']) => key)
  t.ok(keys.length >= 6, 'the keys were found')
  for (const key of keys) t.ok(table.includes(`\`${key.toUpperCase()}\``), `${key} is described`)
})
