/**
 * The speed of the console in Chromium: the first view, a folder of many entries, and an upload of many small files.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { findProgram, lacks } from '../programs.js'
import { eventually, withoutBrowser } from './browser.js'
import { button, files, rowOf, startSite, visit } from './site.js'

const isLarge = process.env.TIDEGATE_VARIANTS === 'all'
const entries = isLarge ? 100_000 : 10_000
const smallFiles = isLarge ? 2000 : 300

/** Rounds of a measurement, of which the best counts: other programs use the machine too. */
const rounds = 3

/** Milliseconds of a task of a page's main thread from which it is a long one (W3C Long Tasks). */
const longTask = 50

const options = { skip: withoutBrowser || lacks('rclone') }

void t.test(`a folder of ${entries} entries is shown within a second, and scrolls smoothly`, options, async (t) => {
  const site = await startSite(t)
  const many = join(site.folder, 'many')
  await mkdir(many)
  for (let number = 0; number < entries; number++) await writeFile(join(many, `${number}.txt`), '')
  await visit(t, site, {}, async (page) => {
    await rowOf(page, 'many').waitFor()
    const bytes = await page.evaluate<number>(`
      const loaded = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
      loaded.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)
    `)
    t.comment(`the first view: ${bytes} bytes, compressed`)
    t.ok(bytes > 20_000 && bytes < 120_000, `the first view has ${bytes} bytes`)
    const shown: number[] = []
    for (let round = 0; round < rounds; round++) {
      await page.goto('/')
      await rowOf(page, 'many').waitFor()
      shown.push(await millisecondsUntilShown(page))
    }
    t.equal(await files(page).getAttribute('aria-rowcount'), String(entries + 1))
    const longest: number[] = []
    for (let round = 0; round < rounds; round++) longest.push(await longestTaskOfScrolling(t, page))
    t.comment(`milliseconds until the first rows: ${shown.join(', ')}; longest tasks: ${longest.join(', ')}`)
    t.ok(Math.min(...shown) < 1000, `the first rows were shown after ${Math.min(...shown)} ms`)
    t.ok(Math.min(...longest) <= longTask, `the longest task of scrolling took ${Math.min(...longest)} ms`)
  })
})

/** Opens the folder `many`. Resolves to the milliseconds until an entry of it is painted. */
function millisecondsUntilShown(page: Page): Promise<number> {
  return page.evaluate<number>(`(async () => {
    const row = (name) => document.querySelector('[role=row][aria-label^="' + name + '"] .name')
    const frame = () => new Promise(requestAnimationFrame)
    const began = performance.now()
    row('many').click()
    while (row('0.txt') === null) await frame()
    await frame()
    return Math.round(performance.now() - began)
  })()`)
}

/** The first and the last index of the entries in view, once all of them are loaded; undefined before. */
function entriesInView(page: Page): Promise<readonly [number, number] | undefined> {
  return files(page).evaluate((grid) => {
    const view = grid.querySelector('.grid-rows')?.getBoundingClientRect()
    const rows = [...grid.querySelectorAll<HTMLElement>('[data-index]')].filter((row) => {
      const { top, bottom } = row.getBoundingClientRect()
      return view !== undefined && bottom > view.top && top < view.bottom
    })
    if (rows.length === 0 || rows.some((row) => row.querySelector('.name') === null)) return undefined
    const indexes = rows.map((row) => Number(row.getAttribute('data-index')))
    return [Math.min(...indexes), Math.max(...indexes)]
  })
}

/**
 * Scrolls by the wheel, by keys and to places far apart, which loads many pages of entries, and waits until each is
 * shown. Resolves to the milliseconds of the longest task; 0 if none was long enough to be reported.
 */
async function longestTaskOfScrolling(t: Test, page: Page): Promise<number> {
  await page.evaluate(`
    tasks = []
    observer = new PerformanceObserver((list) => tasks.push(...list.getEntries().map(({ duration }) => duration)))
    observer.observe({ entryTypes: ['longtask'] })
  `)
  const isShown = (index: number, what: string) => {
    const read = async () => {
      const [first = NaN, last = NaN] = (await entriesInView(page)) ?? []
      return first <= index && index <= last
    }
    return eventually(t, read, true, `${what} shows entry ${index}`)
  }
  await files(page).hover()
  for (let turns = 0; turns < 40; turns++) {
    await page.mouse.wheel(0, 600)
    await wait(20)
  }
  const rows = files(page).locator('.grid-rows')
  await eventually(t, () => rows.evaluate((element) => element.scrollTop), 40 * 600, 'the wheel scrolls')
  const box = await rows.locator('[data-index]').first().boundingBox()
  await isShown(Math.ceil((40 * 600) / (box?.height ?? NaN)), 'the wheel')
  await rows.locator('[data-index]').nth(3).focus()
  const active = () => page.evaluate<number>('Number(document.activeElement.dataset.index)')
  for (const [end, index, step] of [
    ['End', entries - 1, 'PageUp'],
    ['Home', 0, 'PageDown'],
  ] as const) {
    await page.keyboard.press(end)
    await eventually(t, active, index, end)
    await isShown(index, end)
    for (let [press, before] = [0, index]; press < 2; press++, before = await active()) {
      await page.keyboard.press(step)
      await eventually(t, async () => Math.abs((await active()) - index) > Math.abs(before - index), true, step)
      await isShown(await active(), step)
    }
  }
  for (const part of [0.3, 0.7, 0.1, 0.9, 0]) {
    await rows.evaluate((element, part) => (element.scrollTop = element.scrollHeight * part), part)
    await isShown(Math.ceil(entries * part), 'scrolling')
  }
  return page.evaluate<number>(`
    tasks.push(...observer.takeRecords().map(({ duration }) => duration))
    observer.disconnect()
    Math.round(Math.max(0, ...tasks))
  `)
}

void t.test(`${smallFiles} small files are uploaded at half the rate of rclone or better`, options, async (t) => {
  const site = await startSite(t)
  const source = join(t.testdir(), 'tree')
  const folders = smallFiles / 50
  for (let folder = 0; folder < folders; folder++) {
    await mkdir(join(source, `f${folder}`), { recursive: true })
    for (let file = 0; file < 50; file++)
      await writeFile(join(source, `f${folder}`, `${file}.txt`), Buffer.alloc(1024, file))
  }
  const count = async (folder: string) =>
    (await readdir(join(site.folder, folder), { recursive: true })).filter((name) => name.endsWith('.txt')).length
  const byRclone = await seconds(() => copyByRclone(site.url, site.adminPassword, source, 'rclone'))
  t.equal(await count('rclone'), smallFiles)
  const byConsole: number[] = []
  for (let round = 0; round < rounds; round++) {
    await mkdir(join(site.folder, `console-${round}`))
    await visit(t, site, { at: `/console-${round}` }, async (page) => {
      const choosing = page.waitForEvent('filechooser')
      await button(page, 'Choose a folder').click()
      const chooser = await choosing
      const upload = async () => {
        await chooser.setFiles(source)
        const number = smallFiles.toLocaleString('en-US')
        await page
          .getByRole('region', { name: 'Uploads' })
          .getByText(`${number} of ${number}`, { exact: true })
          .waitFor()
      }
      byConsole.push(await seconds(upload))
    })
    t.equal(await count(`console-${round}`), smallFiles)
  }
  t.comment(`rclone: ${byRclone.toFixed(1)} s; the console: ${byConsole.map((time) => time.toFixed(1)).join(', ')} s`)
  t.ok(Math.min(...byConsole) <= 2 * byRclone, 'the console has half the rate of rclone or a better one')
})

async function seconds(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return (performance.now() - began) / 1000
}

async function copyByRclone(url: string, password: string, from: string, to: string): Promise<void> {
  const rclone = findProgram('rclone') ?? 'rclone'
  const obscured = spawn(rclone, ['obscure', '-'], { stdio: ['pipe', 'pipe', 'inherit'] })
  obscured.stdin.end(password)
  let secret = ''
  obscured.stdout.setEncoding('utf8').on('data', (text: string) => (secret += text))
  await once(obscured, 'close')
  const remote = `:webdav,url='${url}/dav',user=admin,pass=${secret.trim()}:${to}`
  const copy = spawn(rclone, ['copy', from, remote, '--config', ''], { stdio: 'inherit' })
  const [status] = (await once(copy, 'close')) as [number]
  if (status !== 0) throw new Error(`rclone ended with status ${status}`)
}
