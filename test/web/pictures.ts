/** Takes the pictures of docs/console.md: `npm run docs:pictures`. */
import { mkdir, utimes, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import sharp from 'sharp'
import t from 'tap'
import { tone } from './documents.js'
import { button, rowOf, startSite, visit } from './site.js'

const target = fileURLToPath(new URL('../../../docs/images/', import.meta.url))

const screens = { wide: { width: 1100, height: 640 }, narrow: { width: 390, height: 700 } } as const

/** A picture of the sea, as SVG. `sun`: how high it is, from 0 to 1. */
function sea(sky: string, sun: number): string {
  const wave = (y: number, color: string) => `<path fill="${color}" d="M0 ${y}q40-12 80 0t80 0 80 0 80 0V240H0z"/>`
  return `<svg xmlns="http://www.w3.org/2000/svg" width="320" height="240"><rect width="320" height="240" fill="${sky}"/>
<circle cx="${60 + 180 * sun}" cy="${140 - 90 * sun}" r="26" fill="#ffe9a8"/>
${wave(150, '#4f8fb8')}${wave(175, '#356f99')}${wave(200, '#22527a')}</svg>`
}

/** A photo of that picture: a JPEG of 3,200 × 2,400 pixels. */
function photo(sky: string, sun: number): Promise<Buffer> {
  return sharp(Buffer.from(sea(sky, sun)), { density: 720 })
    .jpeg()
    .toBuffer()
}

const log = `# Log of the harbour

## 3 June

- **06:12** High water, 4.1 m. The pilot boat leaves for the *Annabel*.
- **09:40** Buoy 7 is back in its place, see [the chart](Charts/entrance.svg).
- **12:31** Low water, 0.8 m.

| vessel  | from      | berth |
| ------- | --------- | ----- |
| Annabel | Rotterdam | 4     |
| Petrel  | Bergen    | 2     |
`

const program = `/** Heights of the tide between high and low water. */
interface Tide {
  readonly time: Date
  readonly height: number
}

/** The rule of twelfths: the height changes slowly at first, fastest in the middle, and slowly at the end. */
const twelfths = [0, 1, 3, 6, 9, 11, 12]

export function heightAt(time: Date, from: Tide, to: Tide): number {
  const share = (time.getTime() - from.time.getTime()) / (to.time.getTime() - from.time.getTime())
  if (share < 0 || share > 1) throw new RangeError('not between these tides')
  const hour = Math.min(Math.floor(share * 6), 5)
  const [before = 0, after = 12] = [twelfths[hour], twelfths[hour + 1]]
  const part = (before + (after - before) * (share * 6 - hour)) / 12
  return from.height + part * (to.height - from.height)
}
`

const contents: Readonly<Record<string, string | Buffer>> = {
  'Charts/entrance.svg': sea('#dfe7ef', 0.1),
  'Crew/list.txt': 'list',
  'Photos/dawn.jpg': await photo('#f3b7a4', 0.1),
  'Photos/morning.jpg': await photo('#a9d3ee', 0.5),
  'Photos/noon.jpg': await photo('#6db4e8', 1),
  'Photos/afternoon.jpg': await photo('#8fc1e6', 0.8),
  'Photos/evening.jpg': await photo('#f0946c', 0.2),
  'Photos/night.jpg': await photo('#25304f', 0.9),
  'Photos/Regatta/start.jpg': await photo('#a9d3ee', 0.4),
  'Photos/harbour film.mp4': Buffer.alloc(84_300_000),
  'Photos/names of the boats.txt': 'Annabel',
  'fog horn.wav': tone(120),
  'harbour log.md': log,
  'pilot boats.zip': Buffer.alloc(18_240_000),
  'tide tables.pdf': Buffer.alloc(2_480_000),
  'tides.ts': program,
  'weather.csv': Buffer.alloc(46_200),
}

/** The time of the newest files, in seconds since 1970. */
const recently = Date.UTC(2026, 5, 3, 6, 12) / 1000

/** The pages, each with what is done there before the picture is taken. */
const pictures: Readonly<Record<string, { readonly at: string; readonly story: (page: Page) => Promise<unknown> }>> = {
  files: { at: '/', story: (page) => rowOf(page, 'tides.ts').waitFor() },
  tiles: {
    at: '/Photos',
    story: async (page) => {
      await button(page, 'Show as tiles').click()
      await page.locator('.thumbnail img').nth(5).waitFor()
      await page.waitForLoadState('networkidle')
    },
  },
  viewer: {
    at: '/Photos/evening.jpg',
    story: (page) => page.getByRole('img', { name: 'evening.jpg' }).waitFor(),
  },
  text: {
    at: '/tides.ts',
    story: (page) => page.getByRole('textbox', { name: 'tides.ts' }).getByText('share').first().waitFor(),
  },
  document: { at: '/harbour log.md', story: (page) => page.getByRole('cell', { name: 'Petrel' }).waitFor() },
  uploads: { at: '/', story: upload },
  storages: {
    at: '/@manage/storages',
    story: (page) => page.getByRole('cell', { name: '/archive', exact: true }).waitFor(),
  },
  'first-steps': { at: '/@manage/start', story: (page) => page.getByText('shows one of these fingerprints').waitFor() },
}

/** Three files, of which the first is stored and the others are on their way. */
async function upload(page: Page): Promise<void> {
  await rowOf(page, 'tides.ts').waitFor()
  const session = await page.context().newCDPSession(page)
  const speed = 300_000
  await session.send('Network.enable')
  await session.send('Network.emulateNetworkConditions', {
    offline: false,
    latency: 0,
    downloadThroughput: -1,
    uploadThroughput: speed,
  })
  const [chooser] = await Promise.all([page.waitForEvent('filechooser'), button(page, 'Upload').click()])
  const file = (name: string, size: number) => ({ name, mimeType: '', buffer: Buffer.alloc(size) })
  await chooser.setFiles([
    file('berths.txt', 1200),
    file('lighthouse.tif', 3_100_000),
    file('soundings.csv', 1_400_000),
    file('survey of the sea bed.tar', 9_700_000),
  ])
  await page.getByRole('region', { name: 'Uploads' }).getByText('Uploaded', { exact: true }).waitFor()
  // The speed is known after a while.
  await page.waitForTimeout(3000)
}

void t.test('pictures', { timeout: 600_000 }, async (t) => {
  const site = await startSite(t)
  for (const [path, content] of Object.entries(contents)) {
    const file = join(site.folder, path)
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, content)
    const days = path.length * 1.1
    await utimes(file, recently - days * 86_400, recently - days * 86_400)
  }
  for (const name of ['Charts', 'Crew', 'Photos', 'Photos/Regatta'])
    await utimes(join(site.folder, name), recently, recently)
  const add = (path: string, driver: string, addition: object) =>
    site
      .call('/api/admin/storage/create', { mount_path: path, driver, addition: JSON.stringify(addition) })
      .catch(() => 0)
  await add('/archive', 'Memory', {})
  await add('/disk', 'Local', { root_folder_path: '/mnt/disk' })
  await mkdir(target, { recursive: true })
  for (const [name, { at, story }] of Object.entries(pictures)) {
    await visit(t, site, { at }, async (page) => {
      await story(page)
      const session = await page.context().newCDPSession(page)
      for (const [screen, size] of Object.entries(screens)) {
        await page.setViewportSize(size)
        for (const colorScheme of ['light', 'dark'] as const) {
          await page.emulateMedia({ colorScheme })
          // The page adapts itself to the size.
          await page.waitForTimeout(300)
          const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality: 85 })
          await writeFile(join(target, `${name}-${screen}-${colorScheme}.webp`), Buffer.from(data, 'base64'))
        }
      }
    })
  }
})
