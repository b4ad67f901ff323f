/** What the viewer of pictures loads of a large photo, and when. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page, Route } from 'playwright-core'
import t from 'tap'
import { image, photo } from '../drivers/pictures.js'
import { eventually, withoutBrowser } from './browser.js'
import { pngOf } from './documents.js'
import { button, startSite, visit } from './site.js'

const shown = (page: Page) => page.locator('img.shown')

/** Waits until the picture of this name is shown, with as many pixels. */
async function loaded(page: Page, name: string, width: number, height: number): Promise<void> {
  await page.waitForFunction((expected) => {
    const image = document.querySelector<HTMLImageElement>('img.shown')
    return image && `${image.alt} ${image.naturalWidth} ${image.naturalHeight}` === expected && image.style.width
  }, `${name} ${width} ${height}`)
}

async function widthOf(page: Page): Promise<number> {
  return Math.round((await shown(page).boundingBox())?.width ?? 0)
}

/** `asked`: what a page asks for of the content of files, such as `1.jpg`, or `1.jpg 1024` for a preview. */
function watch() {
  const asked: string[] = []
  const prepare = async (page: Page) => {
    page.on('request', (request) => {
      const { pathname, searchParams } = new URL(request.url())
      const [, name] = /^\/[dp]\/photos\/(.*)$/.exec(pathname) ?? []
      if (name === undefined) return
      asked.push([name, searchParams.get('size'), request.headers().range].filter(Boolean).join(' '))
    })
  }
  return { asked, prepare }
}

void t.test('a large photo is seen by its preview first', { skip: withoutBrowser }, async (t) => {
  const site = await startSite(t)
  const folder = join(site.folder, 'photos')
  await mkdir(folder)
  const large = await photo('jpeg', 4000, 3000)
  t.ok(large.length > 2 ** 21, `the photo has ${large.length} bytes`)
  for (const name of ['1.jpg', '2.jpg', '3.jpg']) await writeFile(join(folder, name), large)
  await writeFile(join(folder, '4.png'), pngOf(300, 200, [180, 90, 140]))
  await writeFile(join(folder, '5.tiff'), await image('tiff', 1600, 1200))
  // Browsers and the server tell the format by the first bytes.
  await writeFile(join(folder, '6.gif'), await photo('png', 1400, 1000))

  await t.test('the photo itself is not loaded while the preview is sharp, nor those beside it', async (t) => {
    const { asked, prepare } = watch()
    await visit(t, site, { at: '/photos/2.jpg', prepare }, async (page) => {
      await loaded(page, '2.jpg', 1024, 768)
      await eventually(t, async () => [...asked].sort(), ['1.jpg 1024', '2.jpg 1024', '3.jpg 1024'])
      await button(page, 'Details').click()
      await page.getByText('4,000 × 3,000 pixels').waitFor()
      await button(page, 'Turn right').click()
      await page.keyboard.press('ArrowRight')
      await loaded(page, '3.jpg', 1024, 768)
      await page.waitForLoadState('networkidle')
      const whole = asked.filter((each) => each.endsWith('.jpg'))
      t.strictSame(whole, [])
    })
  })

  await t.test('zooming loads it, and it takes the place of the preview', (t) =>
    visit(t, site, { at: '/photos/1.jpg' }, async (page) => {
      await loaded(page, '1.jpg', 1024, 768)
      const fitting = await widthOf(page)
      let held: Route | undefined
      await page.route(/\/p\/photos\/1\.jpg/, (route) => (held = route))
      for (let step = 0; step < 3; step++) await button(page, 'Zoom in').click()
      await page.getByRole('status').getByText('Loading the original …').waitFor()
      const zoomed = Math.round(fitting * 1.5 ** 3)
      await eventually(t, async () => Math.abs((await widthOf(page)) - zoomed) <= 1, true, 'zoomed meanwhile')
      t.equal(await shown(page).evaluate((image: HTMLImageElement) => image.naturalWidth), 1024)
      await held?.continue()
      await loaded(page, '1.jpg', 4000, 3000)
      t.ok(Math.abs((await widthOf(page)) - zoomed) <= 1, 'it is where the preview was')
      t.equal(await page.getByRole('status').getByText('Loading the original …').count(), 0)
      const percent = parseInt((await page.locator('.picture-scale').textContent()) ?? '', 10)
      t.ok(Math.abs(percent - zoomed / 40) <= 1, `${percent}% of its own size`)
      await page.locator('.picture-scale').click()
      await eventually(t, () => widthOf(page), fitting)
      t.equal(await shown(page).evaluate((image: HTMLImageElement) => image.naturalWidth), 4000, 'it stays')
    }),
  )

  await t.test('its own size is that of the photo', (t) =>
    visit(t, site, { at: '/photos/1.jpg' }, async (page) => {
      await loaded(page, '1.jpg', 1024, 768)
      await page.keyboard.press('1')
      await loaded(page, '1.jpg', 4000, 3000)
      await eventually(t, () => widthOf(page), 4000)
    }),
  )

  await t.test('a large window loads it by itself, unless the browser saves data', async (t) => {
    const size = { width: 2600, height: 1700 }
    await visit(t, site, { at: '/photos/1.jpg', ...size }, (page) => loaded(page, '1.jpg', 4000, 3000))
    const { asked, prepare } = watch()
    const saving = async (page: Page) => {
      await prepare(page)
      await page.addInitScript(`Object.defineProperty(navigator, 'connection', { value: { saveData: true } })`)
    }
    await visit(t, site, { at: '/photos/1.jpg', ...size, prepare: saving }, async (page) => {
      await loaded(page, '1.jpg', 1024, 768)
      await page.waitForLoadState('networkidle')
      t.strictSame(asked, ['1.jpg 1024'])
    })
  })

  await t.test('small pictures, and those that may move, are loaded themselves', async (t) => {
    const { asked, prepare } = watch()
    await visit(t, site, { at: '/photos/4.png', prepare }, async (page) => {
      await loaded(page, '4.png', 300, 200)
      t.notOk(asked.includes('4.png 1024'))
    })
    await visit(t, site, { at: '/photos/6.gif' }, (page) => loaded(page, '6.gif', 1400, 1000))
  })

  await t.test(
    'what the browser cannot show stays as a preview, and without a preview the photo is loaded',
    async (t) => {
      await visit(t, site, { at: '/photos/5.tiff' }, async (page) => {
        await loaded(page, '5.tiff', 1024, 768)
        const failed = page.waitForEvent('requestfinished', (request) => request.url().includes('/p/photos/5.tiff'))
        await page.keyboard.press('1')
        await failed
        await page.waitForLoadState('networkidle')
        await loaded(page, '5.tiff', 1024, 768)
      })
      const prepare = async (page: Page) => {
        await page.route(/size=1024/, (route) => route.fulfill({ status: 500 }))
      }
      await visit(t, site, { at: '/photos/1.jpg', prepare }, (page) => loaded(page, '1.jpg', 4000, 3000))
    },
  )
})
