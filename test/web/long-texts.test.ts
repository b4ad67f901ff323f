/** Texts of any size: read part by part, from any place, searched, and in every encoding that the console knows. */
import { open, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import { axeViolations, eventually, withoutBrowser } from './browser.js'
import { consoleModule } from './console-modules.js'
import { button, startSite, visit } from './site.js'

const mebibyte = 2 ** 20

/** The cuts of blocks, without a browser. */
interface Cuts {
  readonly endOfLine: (bytes: Uint8Array, encoding: string) => number
  readonly startOfLine: (bytes: Uint8Array, encoding: string) => number
}

void t.test('blocks are cut between lines, or between characters where there is no end of a line', async (t) => {
  const { endOfLine, startOfLine } = (await consoleModule(`export * from './viewers/range-text.ts'`, {
    languages: ['en'],
  })) as Cuts
  const bytes = (text: string, encoding: BufferEncoding = 'utf8') => Buffer.from(text, encoding)
  t.equal(endOfLine(bytes('one\ntwo\nthr'), 'utf-8'), 8)
  t.equal(endOfLine(bytes('one'), 'utf-8'), 3)
  t.equal(endOfLine(bytes('aé').subarray(0, 2), 'utf-8'), 1, 'the first byte of é is of the next block')
  t.equal(endOfLine(bytes('a😀').subarray(0, 4), 'utf-8'), 1)
  t.equal(endOfLine(bytes('é', 'latin1'), 'latin1'), 1)
  t.equal(endOfLine(bytes('a\nb', 'utf16le'), 'utf-16le'), 4)
  t.equal(endOfLine(bytes('\u0a00b', 'utf16le'), 'utf-16le'), 4, 'U+0A00 is no end of a line')
  t.equal(startOfLine(bytes('ne\ntwo\n'), 'utf-8'), 3)
  t.equal(startOfLine(bytes('no end\n'), 'utf-8'), 0, 'the end of the last line begins no other')
  t.equal(startOfLine(bytes('😀a').subarray(1), 'utf-8'), 3)
  t.equal(startOfLine(bytes('a\nb', 'utf16le'), 'utf-16le'), 4)
})

void t.test('long texts', { skip: withoutBrowser }, async (t) => {
  const site = await startSite(t)
  const line = (index: number) => `${String(index).padStart(7, '0')} the harbour is open, ünïcode\n`
  const lines = Array.from({ length: 240_000 }, (_, index) => line(index))
  await writeFile(join(site.folder, 'server.log'), lines.join(''))
  const text = (page: Page, name = 'server.log') => page.getByRole('region', { name })
  const visible = (page: Page, words: string) => async () => {
    const box = await text(page).boundingBox()
    const shown = await text(page).evaluate((view) => view.textContent ?? '')
    return box !== null && shown.includes(words)
  }

  await t.test('one is shown at once, and loaded as it scrolls, with few blocks in the document', (t) =>
    visit(t, site, { at: '/server.log' }, async (page) => {
      await text(page).getByText(line(0).trim()).waitFor()
      let read = 0
      page.on('response', (response) => (read += Number(response.headers()['content-length'] ?? 0)))
      for (let count = 0; count < 30; count++) {
        await text(page).evaluate((view) => (view.scrollTop = view.scrollHeight))
        await page.waitForTimeout(20)
      }
      await eventually(t, async () => (await text(page).locator('pre').count()) === 8, true, 'eight blocks are kept')
      const first = async () => (await text(page).locator('pre').first().textContent()) ?? ''
      await eventually(t, async () => Number((await first()).slice(0, 7)) > 0, true, 'the first ones are released')
      // Block by block to the start again: no line is lost or shown twice.
      await eventually(
        t,
        async () => {
          await text(page).evaluate((view) => (view.scrollTop = 0))
          return (await first()).startsWith(line(0))
        },
        true,
        'the start is loaded again',
      )
      const shown = await text(page).evaluate((view) => view.textContent ?? '')
      const numbers = shown.split('\n').slice(0, -1)
      t.ok(
        numbers.every((each, index) => `${each}\n` === line(index)),
        'the lines are in their order',
      )
      t.ok(read < 30 * mebibyte)
      t.strictSame(await axeViolations(page), [])
    }),
  )

  await t.test('its end and any place are reached without what is between', (t) =>
    visit(t, site, { at: '/server.log' }, async (page) => {
      await text(page).getByText(line(0).trim()).waitFor()
      let requests = 0
      page.on('request', (request) => (requests += request.url().includes('/p/') ? 1 : 0))
      await button(page, 'To the end').click()
      await eventually(t, visible(page, line(239_999)), true, 'the last line is shown')
      await button(page, 'To the start').click()
      await eventually(t, visible(page, line(0)), true, 'the first line is shown')
      const slider = page.getByRole('slider', { name: 'Position in the file' })
      await slider.fill('500')
      await eventually(t, visible(page, line(120_010)), true, 'the middle is shown')
      t.match(await slider.getAttribute('aria-valuetext'), /MB of [\d.]+ MB \(50%\)/)
      t.ok(requests < 30, `${requests} requests`)
    }),
  )

  await t.test('words are found down to the end of the file', (t) =>
    visit(t, site, { at: '/server.log' }, async (page) => {
      await text(page).getByText(line(0).trim()).waitFor()
      await page.getByRole('searchbox', { name: 'Find in the file' }).fill('0200123 THE')
      await page.keyboard.press('Enter')
      await eventually(t, visible(page, line(200_123)), true, 'the line is shown')
      const found = () => page.evaluate("[...(CSS.highlights.get('found') ?? [])].map(String)")
      await eventually(t, found, ['0200123 the'], 'the words are marked')
      await button(page, 'Find next').click()
      await page.getByRole('status').getByText('Not found from here to the end').waitFor()
      await page.getByRole('searchbox', { name: 'Find in the file' }).fill('harbour')
      await page.keyboard.press('Enter')
      await eventually(t, found, ['harbour'])
      await button(page, 'Find next').click()
      await eventually(t, found, ['harbour'])
    }),
  )

  await t.test('a file of 5 GB opens as fast as a small one, and no more of it is read', async (t) => {
    const size = 5_000_000_000
    const path = join(site.folder, 'huge.log')
    await writeFile(path, lines.slice(0, 5000).join(''))
    await truncate(path, size)
    const file = await open(path, 'r+')
    const end = Buffer.from(`\n${lines.slice(-5000).join('')}`)
    await file.write(end, 0, end.length, size - end.length)
    await file.close()
    await visit(t, site, { at: '/huge.log' }, async (page) => {
      let read = 0
      page.on('response', (response) => {
        if (response.url().includes('/p/')) read += Number(response.headers()['content-length'])
      })
      await text(page, 'huge.log').getByText(line(0).trim()).waitFor()
      await button(page, 'To the end').click()
      const shown = () => text(page, 'huge.log').evaluate((view) => view.textContent?.includes('0239999 the') === true)
      await eventually(t, shown, true, 'the last line is shown')
      t.ok(read < mebibyte, `${read} bytes were read`)
    })
  })

  await t.test('UTF-16 and one line without an end are shown, and no program is', async (t) => {
    const utf16 = Buffer.from(`\ufeff${'Wörter\n'.repeat(400_000)}The end.`, 'utf16le')
    await writeFile(join(site.folder, 'utf16.txt'), utf16)
    await writeFile(join(site.folder, 'line.txt'), `${'ä'.repeat(3_000_000)}The end.`)
    await writeFile(join(site.folder, 'program.bin'), Buffer.alloc(5 * mebibyte))
    for (const [name, start] of [
      ['utf16.txt', 'Wörter\nWörter'],
      ['line.txt', 'ääää'],
    ] as const) {
      await visit(t, site, { at: `/${name}` }, async (page) => {
        const shown = (words: string) => async () =>
          text(page, name).evaluate((view, words) => view.textContent?.includes(words) === true, words)
        await eventually(t, shown(start), true)
        await button(page, 'To the end').click()
        await eventually(t, shown('The end.'), true)
        t.notMatch(await text(page, name).textContent(), '\ufffd')
      })
    }
    await visit(t, site, { at: '/program.bin' }, (page) =>
      page.getByText('This kind of file cannot be shown').waitFor(),
    )
  })
})
