/** Thumbnails in the console: which files have one, how they are turned, and when another one is shown. */
import { mkdir, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page, Request } from 'playwright-core'
import t from 'tap'
import { image, sideways, video } from '../drivers/pictures.js'
import { lacks } from '../programs.js'
import { eventually, withoutBrowser } from './browser.js'
import { button, rowOf, startSite, visit } from './site.js'

/** The picture in the tile of a file, as an expression of the page; null while it has none. */
const picture = (name: string) => `document.querySelector('.tile[aria-label^="${name}"] img:not(.unseen)')`

/** The width and height of the picture in a tile; undefined while it has none. */
async function pictureOf(page: Page, name: string): Promise<readonly number[] | undefined> {
  const size = await page.evaluate<readonly number[] | null>(`(() => {
    const shown = ${picture(name)}
    return shown && [shown.naturalWidth, shown.naturalHeight]
  })()`)
  return size ?? undefined
}

/** Whether the picture in a tile is more blue than red. */
function isBlue(page: Page, name: string): Promise<boolean> {
  return page.evaluate<boolean>(`(() => {
    const canvas = document.createElement('canvas')
    canvas.width = canvas.height = 1
    const context = canvas.getContext('2d')
    const shown = ${picture(name)}
    if (shown) context.drawImage(shown, 0, 0, 1, 1)
    const [red, , blue] = context.getImageData(0, 0, 1, 1).data
    return blue > red
  })()`)
}

void t.test('thumbnails of files', { skip: withoutBrowser || lacks('ffmpeg', 'ffprobe') }, async (t) => {
  const site = await startSite(t)
  const folder = join(site.folder, 'photos')
  await mkdir(folder)
  const photo = await image('jpeg', 4000, 3000)
  await writeFile(join(folder, 'beach.jpg'), photo)
  await writeFile(join(folder, 'upright.jpg'), await sideways(4000, 3000))
  await writeFile(join(folder, 'broken.jpg'), photo.subarray(0, photo.length / 2))
  await writeFile(join(folder, 'text.txt'), 'text')
  await video(join(folder, 'film.mp4'))

  await t.test('pictures and films have one; others, and broken ones, have the symbol of their kind', (t) =>
    visit(t, site, { at: '/photos' }, async (page) => {
      const asked: URL[] = []
      page.on('request', (request) => asked.push(new URL(request.url())))
      await button(page, 'Show as tiles').click()
      await eventually(t, () => pictureOf(page, 'beach.jpg'), [256, 192])
      await eventually(t, () => pictureOf(page, 'upright.jpg'), [192, 256], 'as its EXIF data say')
      await eventually(t, () => pictureOf(page, 'film.mp4'), [256, 144])
      await rowOf(page, 'film.mp4').locator('.thumbnail-kind').waitFor()
      await eventually(t, () => rowOf(page, 'broken.jpg').locator('img').count(), 0)
      await rowOf(page, 'broken.jpg').locator('svg.icon-picture').waitFor()
      await rowOf(page, 'text.txt').locator('svg.icon-text').waitFor()
      const downloads = asked.filter(({ pathname }) => /^\/[dp]\//.test(pathname))
      t.equal(downloads.length, 4, 'each file was asked for once')
      t.ok(downloads.every(({ searchParams }) => searchParams.get('type') === 'thumb'))
      // The box is above the picture.
      await rowOf(page, 'beach.jpg').getByRole('checkbox').click()
      await button(page, '1 selected').waitFor()
    }),
  )

  await t.test('a file that is replaced has another one, in the page that is open', (t) =>
    visit(t, site, { at: '/photos' }, async (page) => {
      await button(page, 'Show as tiles').click()
      await eventually(t, () => pictureOf(page, 'beach.jpg'), [256, 192])
      t.notOk(await isBlue(page, 'beach.jpg'))
      await writeFile(join(folder, 'beach.jpg'), await image('jpeg', 4000, 3000, '#1e1ec8'))
      await button(page, 'Refresh').click()
      await eventually(t, () => isBlue(page, 'beach.jpg'), true)
      // With the time of the first one, which the page does not tell apart; a page that is loaded anew asks the server.
      const { mtime } = await stat(join(folder, 'beach.jpg'))
      await writeFile(join(folder, 'beach.jpg'), photo)
      await utimes(join(folder, 'beach.jpg'), mtime, mtime)
      await page.reload()
      await eventually(t, () => pictureOf(page, 'beach.jpg'), [256, 192])
      await eventually(t, () => isBlue(page, 'beach.jpg'), false)
    }),
  )

  await t.test('only what is in view is asked for, a few at a time', async (t) => {
    const many = join(site.folder, 'many')
    await mkdir(many)
    const small = await image('jpeg', 300, 200)
    for (let number = 100; number < 400; number++) await writeFile(join(many, `${number}.jpg`), small)
    await visit(t, site, { at: '/many' }, async (page) => {
      const asked = new Set<string>()
      let [running, most] = [0, 0]
      await page.route(/type=thumb/, async (route) => {
        asked.add(new URL(route.request().url()).pathname)
        most = Math.max(most, ++running)
        await route.continue()
      })
      const end = (request: Request) => {
        if (request.url().includes('type=thumb')) running--
      }
      page.on('requestfinished', end)
      page.on('requestfailed', end)
      await button(page, 'Show as tiles').click()
      await eventually(t, () => pictureOf(page, '100.jpg'), [256, 171])
      await page.waitForLoadState('networkidle')
      t.ok(asked.size < 100, `${asked.size} of 300 are asked for`)
      t.ok(most <= 4, `${most} at a time`)
      await page.evaluate(`document.querySelector('.grid-rows').scrollTo({ top: 1e6 })`)
      await eventually(t, () => pictureOf(page, '399.jpg'), [256, 171])
      t.ok(asked.size < 200, `${asked.size} of 300 are asked for`)
    })
  })
})
