/** Looking at files, and editing them, in the console. */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import { eventually, withoutBrowser } from './browser.js'
import { pdfOf, picture, tone } from './documents.js'
import { button, createUser, files, rowOf, startSite, visit } from './site.js'

void t.test('looking', { skip: withoutBrowser }, async (t) => {
  const site = await startSite(t)
  const { folder } = site
  const contents = {
    'picture.png': picture,
    'tone.wav': tone(20),
    'letter.pdf': pdfOf('Dear reader'),
    'long.pdf': pdfOf('Dear reader', undefined, 12),
    'notes.md':
      '# Title\n\nSome *text* and a [link](other.md), ![the *sea*](./picture.png), ![none](none.png).\n\n' +
      '- [x] done\n- [ ] open\n\n| a | b |\n| - | - |\n| 1 | 2 |\n\n[down](#the-last-part) [root](/other.md)\n\n' +
      `${'line\n\n'.repeat(100)}## The last part!\n`,
    'other.md': 'the other',
    'script.js': 'const answer = 42\n',
    'latin1.txt': Buffer.from('caf\xe9\n', 'latin1'),
    'program.bin': Buffer.from([0, 1, 2, 3, 0, 255]),
  }
  for (const [name, content] of Object.entries(contents)) await writeFile(join(folder, name), content)

  const open = async (page: Page, name: string) => {
    await rowOf(page, name).click()
    await page.getByRole('heading', { name }).waitFor()
  }

  await t.test('a picture is shown', (t) =>
    visit(t, site, {}, async (page) => {
      await open(page, 'picture.png')
      const image = page.getByRole('img', { name: 'picture.png' })
      await image.waitFor()
      await page.waitForFunction(() => document.querySelector<HTMLImageElement>('img.shown')?.naturalWidth === 4)
      await page.goBack()
      await files(page).waitFor()
    }),
  )

  await t.test('sound is played from any place', (t) =>
    visit(t, site, {}, async (page) => {
      await open(page, 'tone.wav')
      const time = await page.locator('audio').evaluate(async (audio: HTMLAudioElement) => {
        if (audio.readyState < 1) await new Promise((resolve) => (audio.onloadedmetadata = resolve))
        const sought = new Promise((resolve) => (audio.onseeked = resolve))
        audio.currentTime = 15
        await sought
        return [audio.duration, audio.currentTime]
      })
      t.strictSame(time, [20, 15])
    }),
  )

  await t.test('a PDF document is drawn', (t) =>
    visit(t, site, {}, async (page) => {
      await open(page, 'letter.pdf')
      await page.getByRole('img', { name: 'Page 1' }).waitFor()
      await page.waitForFunction(() => {
        const canvas = document.querySelector('canvas')
        const pixels = canvas?.getContext('2d')?.getImageData(0, 0, canvas.width, canvas.height).data
        return pixels?.some((value, at) => at % 4 === 0 && value < 100 && pixels[at + 3] === 255)
      })
    }),
  )

  await t.test('a page of a PDF document that is out of sight releases its pixels and is drawn again', (t) =>
    visit(t, site, { at: '/long.pdf' }, async (page) => {
      const isDrawn = (drawn: boolean) =>
        page.waitForFunction((drawn) => (document.querySelector('canvas')?.width ?? 0) > 612 === drawn, drawn)
      const scroll = (top: number) =>
        page.getByRole('region', { name: 'long.pdf' }).evaluate((pages, top) => (pages.scrollTop = top), top)
      await isDrawn(true)
      const height = await page.getByRole('img', { name: 'Page 1', exact: true }).boundingBox()
      await scroll(1e6)
      await isDrawn(false)
      await scroll(0)
      await isDrawn(true)
      t.strictSame(await page.getByRole('img', { name: 'Page 1', exact: true }).boundingBox(), height)
    }),
  )

  await t.test('the pictures of a folder are listed once', async (t) => {
    await mkdir(join(folder, 'pictures'))
    for (const name of ['1.png', '2.png', '3.png']) await writeFile(join(folder, 'pictures', name), picture)
    await visit(t, site, { at: '/pictures/1.png' }, async (page) => {
      // The first visit has listed them.
      await page.getByRole('link', { name: 'Next picture' }).waitFor()
      let requested = 0
      page.on('request', (request) => {
        if (request.url().endsWith('/api/fs/list')) requested++
      })
      await page.reload()
      for (const name of ['2.png', '3.png']) {
        await page.getByRole('link', { name: 'Next picture' }).waitFor()
        await page.keyboard.press('ArrowRight')
        await page.getByRole('heading', { name }).waitFor()
      }
      await page.getByRole('link', { name: 'Previous picture' }).waitFor()
      t.equal(requested, 1)
    })
  })

  await t.test('Markdown is shown as it is meant, and can be edited', (t) =>
    visit(t, site, {}, async (page) => {
      await open(page, 'notes.md')
      await page.getByRole('heading', { name: 'Title' }).waitFor()
      t.equal(await page.locator('.markdown em').textContent(), 'text')
      t.equal(await page.getByRole('link', { name: 'link', exact: true }).getAttribute('href'), `${site.url}/other.md`)
      await page.locator('.markdown').getByRole('img', { name: 'the' }).waitFor()
      await page.waitForFunction(() => document.querySelector<HTMLImageElement>('.markdown img')?.naturalWidth === 4)
      await page.getByText('none').waitFor()
      await page.getByText('☑ done').waitFor()
      await page.getByText('☐ open').waitFor()
      const last = page.getByRole('heading', { name: 'The last part!' })
      await page.getByRole('link', { name: 'down', exact: true }).click()
      await last.waitFor()
      const isInView = async () => ((await last.boundingBox())?.y ?? Infinity) < 800
      await eventually(t, isInView, true, 'a link within the document scrolls to its heading')
      t.equal(await page.getByRole('link', { name: 'root', exact: true }).getAttribute('href'), `${site.url}/other.md`)
      await page.getByRole('link', { name: 'link', exact: true }).click()
      await page.getByText('the other').waitFor()
      await page.goBack()
      await page.getByRole('heading', { name: 'Title' }).waitFor()
      await page.setViewportSize({ width: 360, height: 700 })
      const [one, two] = await page
        .locator('.markdown td')
        .evaluateAll((cells) => cells.map((cell) => cell.getBoundingClientRect().top))
      t.equal(one, two, 'a table stays one on a narrow screen')
      await button(page, 'Edit').click()
      await page.getByRole('textbox', { name: 'notes.md' }).waitFor()
    }),
  )

  await t.test('a text is edited and saved', (t) =>
    visit(t, site, {}, async (page) => {
      await open(page, 'script.js')
      const text = page.getByRole('textbox', { name: 'script.js' })
      await text.getByText('const answer = 42').waitFor()
      t.ok(await button(page, 'Save').isDisabled())
      await text.focus()
      await page.keyboard.press('Control+Home')
      await page.keyboard.type('// changed')
      await page.keyboard.press('Enter')
      await page.getByText('Not saved yet').waitFor()
      await button(page, 'Save').click()
      await page.getByRole('status').getByText('The file is saved.').waitFor()
      t.equal(await readFile(join(folder, 'script.js'), 'utf8'), '// changed\nconst answer = 42\n')
      await page.keyboard.press('Control+Home')
      await text.focus()
      await page.keyboard.type('/* again */ ')
      await page.getByText('Not saved yet').waitFor()
      await page.keyboard.press('Control+s')
      await page.getByText('Not saved yet').waitFor({ state: 'detached' })
      t.match(await readFile(join(folder, 'script.js'), 'utf8'), '/* again */ ')
    }),
  )

  await t.test('a change of somebody else is never overwritten', (t) =>
    visit(t, site, {}, async (page) => {
      await open(page, 'script.js')
      const text = page.getByRole('textbox', { name: 'script.js' })
      await text.focus()
      await page.keyboard.type('mine ')
      const theirs = 'what somebody else has written meanwhile\n'
      await site.call('/api/fs/get', { path: '/script.js' })
      await visit(t, site, { at: '/script.js' }, async (other) => {
        const response = await other.request.put('/api/fs/put', {
          headers: { 'File-Path': '/script.js' },
          data: theirs,
        })
        t.match(await response.json(), { code: 200 })
      })
      await button(page, 'Save').click()
      await page.getByRole('alert').getByText('Somebody else has changed the file meanwhile.').waitFor()
      t.equal(await readFile(join(folder, 'script.js'), 'utf8'), theirs)
      await text.getByText('mine').waitFor()
    }),
  )

  await t.test('Escape and Tab leave the editor', (t) =>
    visit(t, site, { at: '/script.js' }, async (page) => {
      await page.getByText('Press Escape and then Tab to leave the editor.').waitFor()
      const text = page.getByRole('textbox', { name: 'script.js' })
      t.equal(await text.getAttribute('aria-describedby'), 'hint')
      await text.focus()
      await page.keyboard.press('Escape')
      await page.keyboard.press('Tab')
      await text.and(page.locator(':focus')).waitFor({ state: 'detached' })
      t.equal(await page.getByText('Not saved yet').count(), 0)
    }),
  )

  await t.test('an edited text stays when the file cannot be loaded again', (t) =>
    visit(t, site, { at: '/other.md' }, async (page) => {
      await button(page, 'Edit').click()
      const text = page.getByRole('textbox', { name: 'other.md' })
      await text.focus()
      await page.keyboard.type('mine ')
      await page.getByText('Not saved yet').waitFor()
      await page.route('**/api/fs/get', (route) => route.fulfill({ status: 502 }))
      // What was loaded within a second is not loaded again.
      await page.waitForTimeout(1100)
      const refused = page.waitForResponse('**/api/fs/get')
      await page.evaluate("dispatchEvent(new Event('visibilitychange'))")
      await refused
      await page.waitForTimeout(200)
      await text.getByText('mine').waitFor()
    }),
  )

  await t.test('an edited text outlives the session, for the same user only', async (t) => {
    await createUser(site, 'other')
    await visit(t, site, { at: '/other.md' }, async (page) => {
      const enter = async (username: string, password: string) => {
        await page.getByRole('textbox', { name: 'Username' }).fill(username)
        await page.getByRole('textbox', { name: 'Password' }).fill(password)
        await button(page, 'Sign in').click()
        await button(page, 'Sign out').waitFor()
      }
      const text = page.getByRole('textbox', { name: 'other.md' })
      const edit = async () => {
        await text.focus()
        await page.keyboard.type('mine ')
        await page.context().clearCookies()
        await button(page, 'Save').click()
        await button(page, 'Sign in').waitFor()
        await text.waitFor({ state: 'hidden' })
      }
      await button(page, 'Edit').click()
      await edit()
      await enter('admin', site.adminPassword)
      await text.getByText('mine the other').waitFor()
      await button(page, 'Save').click()
      await page.getByRole('status').getByText('The file is saved.').waitFor()
      t.equal(await readFile(join(folder, 'other.md'), 'utf8'), 'mine the other')
      await edit()
      await enter('other', 'password')
      await button(page, 'Edit').waitFor()
      t.equal(await page.getByText('mine mine').count(), 0)
    })
  })

  await t.test('signing out asks about a text that is not saved', (t) =>
    visit(t, site, { at: '/script.js' }, async (page) => {
      const asked: string[] = []
      page.on('dialog', (dialog) => {
        asked.push(dialog.message())
        void (asked.length === 1 ? dialog.dismiss() : dialog.accept())
      })
      await page.getByRole('textbox', { name: 'script.js' }).focus()
      await page.keyboard.type('mine ')
      await button(page, 'Sign out').click()
      await page.getByRole('textbox', { name: 'script.js' }).getByText('mine').waitFor()
      await button(page, 'Sign out').click()
      await button(page, 'Sign in').waitFor()
      t.equal(asked.length, 2)
    }),
  )

  await t.test('a text in another encoding is shown, but not changed', (t) =>
    visit(t, site, {}, async (page) => {
      await open(page, 'latin1.txt')
      await page.getByText('café').waitFor()
      await page.getByText('You can read this file, but not change it here.').waitFor()
      t.equal(await button(page, 'Save').count(), 0)
    }),
  )

  await t.test('other files are downloaded', (t) =>
    visit(t, site, {}, async (page) => {
      await open(page, 'program.bin')
      await page.getByText('This kind of file cannot be shown here.').waitFor()
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('link', { name: 'Download', exact: true }).click(),
      ])
      t.equal(download.suggestedFilename(), 'program.bin')
      t.strictSame(await readFile(await download.path()), contents['program.bin'])
    }),
  )
})
