/** The viewer of pictures: by mouse, keys and fingers. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { CDPSession, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { axeViolations, eventually, withoutBrowser } from './browser.js'
import { detailsOf, pngOf } from './documents.js'
import { button, createUser, startSite, visit } from './site.js'

/** What hostile details try to do. */
const attack = '<img src=x onerror="localStorage.ran=1"><script>localStorage.ran=1</script>'

/** Details of a photo taken near Sydney. */
const details = detailsOf({
  0x010f: 'Tide',
  0x0110: 'Tide Cam 2',
  0x8769: {
    0x829a: [[1, 250]],
    0x829d: [[28, 10]],
    0x8827: [200],
    0x9003: '2026:06:03 06:12:00',
    0x920a: [[50, 1]],
    0xa434: attack,
  },
  0x8825: {
    1: 'S',
    2: [
      [33, 1],
      [51, 1],
      [0, 1],
    ],
    3: 'E',
    4: [
      [151, 1],
      [12, 1],
      [0, 1],
    ],
  },
})

const stage = (page: Page) => page.locator('.stage')
const shown = (page: Page) => page.locator('img.shown')
/** The size that the picture has on the screen, in whole pixels. */
async function sizeOf(page: Page): Promise<readonly [number, number]> {
  const { width, height } = (await shown(page).boundingBox()) ?? { width: 0, height: 0 }
  return [Math.round(width), Math.round(height)]
}
/** Waits until the picture has this size, but for the rounding of its scale. */
function hasSize(t: Test, page: Page, size: readonly [number, number], message = 'the size'): Promise<void> {
  const differs = async () => (await sizeOf(page)).some((length, index) => Math.abs(length - (size[index] ?? 0)) > 1)
  return eventually(t, differs, false, message)
}
const scaleOf = (page: Page) =>
  page.locator('.picture-scale').evaluate(({ textContent }) => textContent?.replace('Fit the window', ''))
async function loaded(page: Page, name: string): Promise<void> {
  await page.getByRole('heading', { name, exact: true }).waitFor()
  await page.waitForFunction((name) => {
    const image = document.querySelector<HTMLImageElement>('img.shown')
    return image?.alt === name && image.naturalWidth > 0 && image.style.width !== ''
  }, name)
}

void t.test('the viewer of pictures', { skip: withoutBrowser }, async (t) => {
  const site = await startSite(t)
  const { folder } = site
  await mkdir(join(folder, 'photos'))
  const put = (name: string, content: Buffer | string) => writeFile(join(folder, 'photos', name), content)
  await put('1.png', pngOf(2000, 1000, [90, 140, 180], details))
  await put('2.png', pngOf(300, 200, [180, 90, 140]))
  await put('3.png', pngOf(400, 1600, [140, 180, 90]))
  await put('4 broken.png', 'no picture')
  const at = '/photos/1.png'

  await t.test('the wheel, a double click and buttons zoom, and dragging moves it', (t) =>
    visit(t, site, { at }, async (page) => {
      await loaded(page, '1.png')
      const { width = 0, height = 0 } = (await stage(page).boundingBox()) ?? {}
      const fit = Math.min(1, width / 2000, height / 1000)
      const fitting = [Math.round(2000 * fit), Math.round(1000 * fit)] as const
      await hasSize(t, page, fitting, 'it fits')
      await stage(page).hover()
      await page.mouse.wheel(0, -500)
      await page.waitForFunction(
        (least) => (document.querySelector('img.shown')?.getBoundingClientRect().width ?? 0) > least,
        fitting[0] * 1.5,
      )
      await button(page, `${await scaleOf(page)} Fit the window`).click()
      await hasSize(t, page, fitting, 'all of it again')
      await stage(page).dblclick({ position: { x: 100, y: 100 } })
      await hasSize(t, page, [2000, 1000] as const, 'its own size')
      const box = async () => {
        const { x = 0, y = 0 } = (await shown(page).boundingBox()) ?? {}
        return [Math.round(x), Math.round(y)] as const
      }
      const [left, top] = await box()
      await page.mouse.move(600, 400)
      await page.mouse.down()
      await page.mouse.move(560, 390)
      await page.mouse.move(540, 380)
      await page.mouse.up()
      await eventually(t, box, [left - 60, top - 20] as const, 'moved as far as the mouse')
      await stage(page).dblclick({ position: { x: 100, y: 100 } })
      await hasSize(t, page, fitting, 'a second double click shows all')
      await button(page, 'Zoom in').click()
      await hasSize(t, page, [3000 * fit, 1500 * fit])
      await button(page, 'Zoom out').click()
      await hasSize(t, page, fitting)
      t.equal(await button(page, 'Zoom out').getAttribute('aria-disabled'), 'true')
      await button(page, 'Turn right').click()
      const turned = Math.min(1, width / 1000, height / 2000)
      await hasSize(t, page, [1000 * turned, 2000 * turned], 'turned')
      await button(page, 'Turn left').click()
      await hasSize(t, page, fitting)
    }),
  )

  await t.test('everything can be done by keys, and nothing while something else has the focus', (t) =>
    visit(t, site, { at }, async (page) => {
      await loaded(page, '1.png')
      const fitting = await sizeOf(page)
      const press = (key: string) => page.keyboard.press(key)
      await page.waitForFunction(() => document.activeElement?.className.includes('stage'))
      await press('1')
      await hasSize(t, page, [2000, 1000] as const)
      const x = async () => Math.round((await shown(page).boundingBox())?.x ?? 0)
      const before = await x()
      await press('ArrowRight')
      await eventually(t, x, before - 80, 'the arrow moves a picture that is zoomed')
      await press('0')
      await hasSize(t, page, fitting)
      await press('+')
      await press('-')
      await hasSize(t, page, fitting)
      await press('r')
      await eventually(t, async () => (await sizeOf(page))[1] > (await sizeOf(page))[0], true, 'turned')
      await press('Shift+R')
      await hasSize(t, page, fitting)
      await press('i')
      await page.getByRole('complementary', { name: 'Details' }).waitFor()
      await press('Escape')
      await page.getByRole('complementary', { name: 'Details' }).waitFor({ state: 'detached' })
      await press('ArrowRight')
      await loaded(page, '2.png')
      await page.getByText('2 of 4').waitFor()
      await press('PageUp')
      await loaded(page, '1.png')
      await press('f')
      await page.waitForFunction(() => document.fullscreenElement?.className === 'picture')
      await press('ArrowRight')
      await loaded(page, '2.png')
      t.ok(await page.evaluate(() => document.fullscreenElement !== null), 'the next picture fills the screen too')
      await button(page, 'Leave full screen').click()
      await page.waitForFunction(() => document.fullscreenElement === null)
      await button(page, 'Search').click()
      await page.getByRole('dialog', { name: 'Search' }).getByRole('combobox').and(page.locator(':focus')).waitFor()
      await press('i')
      t.equal(await page.getByRole('complementary', { name: 'Details' }).count(), 0, 'typed elsewhere')
    }),
  )

  await t.test('fingers pinch, swipe, drag and tap twice', async (t) => {
    await visit(t, site, { at, width: 390, height: 780 }, async (page) => {
      await loaded(page, '1.png')
      const cdp = await page.context().newCDPSession(page)
      await cdp.send('Emulation.setTouchEmulationEnabled', { enabled: true, maxTouchPoints: 5 })
      const { x = 0, y = 0, width = 0, height = 0 } = (await stage(page).boundingBox()) ?? {}
      const [middle, centre] = [x + width / 2, y + height / 2]
      const fitting = await sizeOf(page)
      await touch(cdp, [
        [
          [middle - 40, centre],
          [middle + 40, centre],
        ],
        [
          [middle - 60, centre],
          [middle + 60, centre],
        ],
        [
          [middle - 80, centre],
          [middle + 80, centre],
        ],
      ])
      await hasSize(t, page, [fitting[0] * 2, fitting[1] * 2] as const, 'twice as large')
      const left = async () => Math.round((await shown(page).boundingBox())?.x ?? 0)
      const before = await left()
      await touch(cdp, [[[middle, centre]], [[middle + 30, centre]], [[middle + 50, centre]]])
      await eventually(t, left, before + 50, 'dragged, and not to another picture')
      const now = Date.now() / 1000
      for (const time of [now, now + 0.1]) await touch(cdp, [[[middle, centre]]], time)
      await hasSize(t, page, fitting, 'two taps show all')
      await touch(cdp, [[[middle, centre]], [[middle - 50, centre]], [[middle - 120, centre + 10]]])
      await loaded(page, '2.png')
      await touch(cdp, [[[middle, centre]], [[middle + 50, centre]], [[middle + 120, centre]]])
      await loaded(page, '1.png')
      await touch(cdp, [[[middle, centre]], [[middle - 20, centre]], [[middle - 40, centre]]])
      await eventually(t, left, Math.round(middle - fitting[0] / 2), 'a short swipe goes back')
      await page.getByText('1 of 4').waitFor()
    })
  })

  await t.test('a slideshow shows one after the other, and begins anew after the last', (t) =>
    visit(
      t,
      site,
      {
        at: '/photos/3.png',
        prepare: (page) => page.clock.install().then(() => page.emulateMedia({ reducedMotion: 'reduce' })),
      },
      async (page) => {
        await loaded(page, '3.png')
        await page.getByText('3 of 4').waitFor()
        await page.keyboard.press('s')
        await page.getByRole('combobox', { name: 'Time for each picture' }).selectOption('30 seconds')
        await page.clock.runFor(20_000)
        t.ok(await page.getByRole('heading', { name: '3.png' }).isVisible(), 'not yet')
        await page.clock.runFor(11_000)
        await page.getByRole('heading', { name: '4 broken.png' }).waitFor()
        await page.getByText('This kind of file cannot be shown here').waitFor()
        await page.clock.runFor(31_000)
        await loaded(page, '1.png')
        await button(page, 'Pause the slideshow').click()
        await page.clock.runFor(60_000)
        t.ok(await page.getByRole('heading', { name: '1.png' }).isVisible(), 'paused')
        const moves = await page.evaluate(`getComputedStyle(document.querySelector('img.shown')).transitionDuration`)
        t.equal(moves, '0s', 'nothing moves for those who do not want it')
        t.equal(await page.evaluate(`localStorage.getItem('slideshow-seconds')`), '30', 'the time is kept')
      },
    ),
  )

  await t.test('a picture alone has no slideshow', async (t) => {
    await mkdir(join(folder, 'alone'))
    await writeFile(join(folder, 'alone', 'one.png'), pngOf(40, 30, [0, 0, 0]))
    await visit(t, site, { at: '/alone/one.png' }, async (page) => {
      await loaded(page, 'one.png')
      await page.keyboard.press('s')
      await button(page, 'Details').waitFor()
      t.equal(await page.getByRole('button', { name: 'slideshow' }).count(), 0)
    })
  })

  await t.test('details are those of the file and the camera, and only text', (t) =>
    visit(t, site, { at }, async (page) => {
      await loaded(page, '1.png')
      const asked = page.waitForRequest((request) => request.headers().range !== undefined)
      await button(page, 'Details').click()
      t.equal((await asked).headers().range, 'bytes=0-131071')
      const panel = page.getByRole('complementary', { name: 'Details' })
      for (const fact of [
        '2,000 × 1,000 pixels',
        'Jun 3, 2026, 6:12 AM',
        'Tide Cam 2',
        '1/250 s, f/2.8, ISO 200, 50 mm',
        '33.85000° S, 151.20000° E',
        attack,
      ]) {
        await panel.getByText(fact, { exact: true }).waitFor()
      }
      t.equal(await page.evaluate('localStorage.ran'), undefined, 'nothing of it runs')
      await page.getByRole('link', { name: 'Next picture' }).click()
      await panel.getByText('300 × 200 pixels').waitFor()
      t.equal(await panel.getByText('Camera').count(), 0)
    }),
  )

  await t.test('the pictures beside it are loaded ahead, and no others', async (t) => {
    const requested = new Set<string>()
    const prepare = async (page: Page) => {
      page.on('request', (request) => {
        const [, name] = /\/p\/photos\/([^?]*)/.exec(request.url()) ?? []
        if (name !== undefined) requested.add(decodeURIComponent(name))
      })
    }
    await visit(t, site, { at: '/photos/2.png', prepare }, async (page) => {
      await loaded(page, '2.png')
      await eventually(t, async () => [...requested].sort(), ['1.png', '2.png', '3.png'])
      await page.waitForLoadState('networkidle')
      t.equal(requested.size, 3)
    })
  })

  await t.test('it is accessible in both languages and colors, wide and narrow', async (t) => {
    await createUser(site, 'ann')
    for (const [locale, name] of [
      ['en-US', 'Details'],
      ['zh-CN', '详细信息'],
    ] as const) {
      for (const size of [
        { width: 1280, height: 800 },
        { width: 390, height: 780 },
      ]) {
        await visit(t, site, { at, locale, ...size }, async (page) => {
          await loaded(page, '1.png')
          await button(page, name).click()
          await page.getByText('Tide Cam 2').waitFor()
          await page.keyboard.press('s')
          for (const colorScheme of ['light', 'dark'] as const) {
            await page.emulateMedia({ colorScheme })
            t.strictSame(await axeViolations(page), [], `${locale}, ${colorScheme}, ${size.width} pixels`)
          }
          t.ok(await page.evaluate<boolean>('document.documentElement.scrollWidth <= innerWidth'), 'everything fits')
        })
      }
    }
  })
})

/** Touches the points of each step, one step after the other, and lifts all fingers. `time`: in seconds since 1970. */
async function touch(
  cdp: CDPSession,
  steps: readonly (readonly (readonly [number, number])[])[],
  time?: number,
): Promise<void> {
  const at = time === undefined ? {} : { timestamp: time }
  for (const [index, points] of steps.entries()) {
    const touchPoints = points.map(([x, y], id) => ({ x, y, id }))
    const type = index === 0 ? 'touchStart' : 'touchMove'
    await cdp.send('Input.dispatchTouchEvent', { type, touchPoints, ...at })
  }
  await cdp.send('Input.dispatchTouchEvent', { type: 'touchEnd', touchPoints: [], ...at })
}
