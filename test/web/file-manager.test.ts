/** Moving, copying and selecting in the list of files: by dragging, by the clipboard, by menus and by fingers. */
import { mkdir, readFile, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Locator, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { axeViolations, eventually, withoutBrowser } from './browser.js'
import { button, createUser, dialog, files, rowOf, selectEntries, startSite, visit, type Site } from './site.js'

const options = { skip: withoutBrowser }

/** Makes files, with their paths as content, and folders, whose paths end with a slash. */
async function make({ folder }: Site, ...paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    if (path.endsWith('/')) await mkdir(join(folder, path), { recursive: true })
    else await writeFile(join(folder, path), path)
  }
}

const namesIn = async ({ folder }: Site, path: string) =>
  (await readdir(join(folder, path))).filter((name) => !name.startsWith('.')).sort()

const status = (page: Page, text: string) => page.getByRole('status').filter({ hasText: text }).waitFor()
const menuItem = (page: Page, name: string) => page.getByRole('menuitem', { name, exact: true })
const breadcrumb = (page: Page, name: string) =>
  page.getByRole('navigation', { name: 'Path' }).getByRole('link', { name, exact: true })

/** The middle of an element. */
async function middleOf(element: Locator): Promise<readonly [x: number, y: number]> {
  const { x = 0, y = 0, width = 0, height = 0 } = (await element.boundingBox()) ?? {}
  return [x + width / 2, y + height / 2]
}

/** Drags by the mouse. Calls `over` before it drops. */
async function drag(page: Page, from: Locator, to: Locator, over?: () => Promise<unknown>): Promise<void> {
  await page.mouse.move(...(await middleOf(from)))
  await page.mouse.down()
  const [x, y] = await middleOf(to)
  await page.mouse.move(x, y - 3, { steps: 3 })
  await page.mouse.move(x, y)
  await over?.()
  await page.mouse.up()
}

/** The background of the list, below its rows. */
async function belowRows(page: Page): Promise<readonly [x: number, y: number]> {
  const { x = 0, y = 0, width = 0, height = 0 } = (await files(page).boundingBox()) ?? {}
  return [x + width / 2, y + height - 10]
}

async function axeInBothSchemes(t: Test, page: Page, what: string): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    t.strictSame(await axeViolations(page), [], `${what}, ${colorScheme}`)
  }
}

/** Drops a new file of the desktop on a row, and waits until it is uploaded. */
async function dropFile(page: Page, to: Locator, file: string, over?: () => Promise<unknown>): Promise<void> {
  await writeFile(file, 'desktop')
  const session = await page.context().newCDPSession(page)
  const [x, y] = await middleOf(to)
  const data = { items: [], files: [file], dragOperationsMask: 1 }
  for (const type of ['dragEnter', 'dragOver'] as const)
    await session.send('Input.dispatchDragEvent', { type, x, y, data })
  await over?.()
  await session.send('Input.dispatchDragEvent', { type: 'drop', x, y, data })
  await page.getByRole('region', { name: 'Uploads' }).getByText('Uploaded', { exact: true }).waitFor()
}

void t.test('rows are dragged onto folders and onto the path', options, async (t) => {
  const site = await startSite(t)
  await make(site, 'a/b/', 'a/c/', 'a/1.txt', 'a/2.txt', 'a/3.txt')

  await t.test('one row, or the whole selection, with a mark on the target', (t) =>
    visit(t, site, { at: '/a' }, async (page) => {
      await rowOf(page, '1.txt').waitFor()
      await drag(page, rowOf(page, '1.txt'), rowOf(page, 'b'), async () => {
        await page.locator('[data-drop="taken"]').and(rowOf(page, 'b')).waitFor()
        t.equal(await page.locator('.drag-image').textContent(), '1.txt')
      })
      await status(page, '1 entry is moved.')
      await rowOf(page, '1.txt').waitFor({ state: 'detached' })
      t.strictSame(await namesIn(site, 'a/b'), ['1.txt'])
      t.equal(await page.locator('[data-drop]').count(), 0, 'the mark is gone')

      await selectEntries(page, '2.txt', '3.txt')
      await drag(page, rowOf(page, '3.txt'), breadcrumb(page, 'Home'), async () => {
        await page.locator('[data-drop="taken"]').and(breadcrumb(page, 'Home')).waitFor()
        t.equal(await page.locator('.drag-image').textContent(), '2 entries')
      })
      await status(page, '2 entries are moved.')
      t.strictSame(await namesIn(site, ''), ['2.txt', '3.txt', 'a'])
    }),
  )

  await t.test('with Ctrl they are copied, also as tiles', (t) =>
    visit(t, site, {}, async (page) => {
      await button(page, 'Show as tiles').click()
      await page.locator('.tile').first().waitFor()
      await page.keyboard.down('Control')
      await drag(page, rowOf(page, '2.txt'), rowOf(page, 'a'))
      await page.keyboard.up('Control')
      await status(page, '1 entry is copied.')
      t.strictSame(await namesIn(site, ''), ['2.txt', '3.txt', 'a'])
      t.ok((await namesIn(site, 'a')).includes('2.txt'))
    }),
  )

  await t.test(
    'a folder is dropped neither on itself, nor on one in it, nor where the user may not write',
    async (t) => {
      await createUser(site, 'ann')
      const grants = [{ path: '/a/c', allow: [], deny: ['write'] }]
      await site.call('/api/admin/group/create', { name: 'readers', description: '', members: [], grants })
      const { content } = (await site.call('/api/admin/group/list')) as { content: { id: number; members?: unknown }[] }
      const users = (await site.call('/api/admin/user/list')) as { content: { id: number; username: string }[] }
      const ann = users.content.find(({ username }) => username === 'ann')
      await site.call('/api/admin/user/update', { ...ann, groups: content.map(({ id }) => id) })
      await visit(t, site, { user: { username: 'ann', password: 'password' }, at: '/a' }, async (page) => {
        const moves: string[] = []
        page.on('request', (request) => request.url().endsWith('/move') && moves.push(request.url()))
        const refused = (target: Locator) => page.locator('[data-drop="refused"]').and(target).waitFor()
        await selectEntries(page, 'b', 'c')
        await drag(page, rowOf(page, 'b'), rowOf(page, 'c'), () => refused(rowOf(page, 'c')))
        await drag(page, rowOf(page, 'b'), breadcrumb(page, 'a'), () => refused(breadcrumb(page, 'a')))
        await button(page, '2 selected').click()
        // Whether the user may write there is asked for when it is dragged over.
        await page.mouse.move(...(await middleOf(rowOf(page, '2.txt'))))
        await page.mouse.down()
        const [x, y] = await middleOf(rowOf(page, 'c'))
        await page.mouse.move(x, y, { steps: 3 })
        await eventually(
          t,
          async () => {
            await page.mouse.move(x + Math.random() * 20, y)
            return rowOf(page, 'c').getAttribute('data-drop')
          },
          'refused',
        )
        await page.mouse.up()
        t.strictSame(moves, [])
      })
    },
  )

  await t.test('a name that exists there is asked about, and nothing is replaced without that', async (t) => {
    await make(site, 'x/', 'x/2.txt')
    await visit(t, site, {}, async (page) => {
      await selectEntries(page, '2.txt', '3.txt')
      await drag(page, rowOf(page, '3.txt'), rowOf(page, 'x'))
      const asked = dialog(page, 'Move')
      await asked.getByText('“2.txt” exists already.').waitFor()
      await axeInBothSchemes(t, page, 'the question')
      await asked.getByRole('button', { name: 'Move', exact: true }).click()
      await rowOf(page, '3.txt').waitFor({ state: 'detached' })
      t.strictSame(await namesIn(site, 'x'), ['2.txt', '3.txt'])
      t.equal(await readFile(join(site.folder, 'x/2.txt'), 'utf8'), 'x/2.txt', 'it is skipped')
    })
  })

  await t.test('files of the desktop are uploaded to the folder that they are dropped on', async (t) => {
    const local = join(t.testdir(), 'from the desktop.txt')
    await visit(t, site, {}, async (page) => {
      await rowOf(page, 'x').waitFor()
      await dropFile(page, rowOf(page, 'x'), local, () => page.getByText('Drop to upload to “x”').waitFor())
      t.ok((await namesIn(site, 'x')).includes('from the desktop.txt'))
    })
  })
})

void t.test('entries are cut, copied and pasted by keys', options, async (t) => {
  const site = await startSite(t)
  await make(site, 'from/inner/', 'to/', 'from/1.txt', 'from/2.txt', 'from/3.txt')
  await visit(t, site, { at: '/from' }, async (page) => {
    const pasteHere = button(page, 'Paste here')
    await rowOf(page, 'inner').focus()
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Control+x')
    await status(page, '1 entry cut in /from')
    await page.locator('[data-cut]').and(rowOf(page, '1.txt')).waitFor()
    t.match(await rowOf(page, '1.txt').getAttribute('aria-label'), /, cut$/)
    t.ok(await pasteHere.isDisabled(), 'it is here')
    await axeInBothSchemes(t, page, 'something is cut')

    await breadcrumb(page, 'Home').click()
    await rowOf(page, 'to').click()
    await page.getByText('This folder is empty.').waitFor()
    await page.keyboard.press('Control+v')
    await rowOf(page, '1.txt').waitFor()
    await status(page, '1 entry is moved.')
    await button(page, '1 selected').waitFor()
    t.equal(await pasteHere.count(), 0, 'what was cut is pasted once')
    t.strictSame(await namesIn(site, 'from'), ['2.txt', '3.txt', 'inner'])

    await page.goto('/from')
    await selectEntries(page, '2.txt', '3.txt')
    await page.keyboard.press('Control+c')
    await status(page, '2 entries copied in /from')
    await rowOf(page, 'inner').click()
    await page.getByText('This folder is empty.').waitFor()
    await pasteHere.click()
    await rowOf(page, '3.txt').waitFor()
    t.strictSame(await namesIn(site, 'from/inner'), ['2.txt', '3.txt'])
    await pasteHere.click()
    await dialog(page, 'Copy').getByText('“2.txt” exists already.').waitFor()
    await dialog(page, 'Copy').getByRole('combobox').selectOption('Replace it')
    await dialog(page, 'Copy').getByRole('button', { name: 'Copy', exact: true }).click()
    await status(page, '2 entries are copied.')
    await button(page, 'Clear the clipboard').click()
    await pasteHere.waitFor({ state: 'detached' })
  })
  t.strictSame(await namesIn(site, 'from'), ['2.txt', '3.txt', 'inner'])
})

void t.test('the keys of the clipboard are those of texts and of other programs too', options, async (t) => {
  const site = await startSite(t)
  await make(site, 'a/', 'a/1.txt', '2.txt')
  await writeFile(join(site.folder, 'README.md'), 'Some words')
  await visit(t, site, { width: 1440 }, async (page) => {
    await selectEntries(page, '2.txt')
    const filter = page.getByRole('textbox', { name: 'Filter this folder' })
    await filter.fill('2')
    await filter.press('Control+a')
    await filter.press('Control+x')
    t.equal(await filter.inputValue(), '', 'the field is cut')
    await filter.press('Control+v')
    t.equal(await filter.inputValue(), '2')
    await filter.fill('')
    await page.getByText('Some words').click({ clickCount: 3 })
    await page.keyboard.press('Control+c')
    t.equal(await button(page, 'Paste here').count(), 0, 'a text was selected')

    // The browser of the tests has no other programs whose files could be copied.
    const pasted = (target: string) =>
      page.evaluate<boolean>(`{
        const clipboardData = new DataTransfer()
        clipboardData.items.add(new File(['picture'], 'image.png', { type: 'image/png' }))
        const event = new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true })
        document.querySelector('${target}').dispatchEvent(event)
        event.defaultPrevented
      }`)
    await page.evaluate('getSelection().removeAllRanges()')
    t.equal(await pasted('.filter'), false, 'a field gets what is meant for it')
    t.equal(await pasted('[role=grid]'), true)
    await rowOf(page, 'image.png').waitFor()
    t.equal(await readFile(join(site.folder, 'image.png'), 'utf8'), 'picture')
  })
})

void t.test('the background has a menu, by the mouse and by keys', options, async (t) => {
  const site = await startSite(t)
  await make(site, 'a/', 'a/1.txt', 'a/2.txt')
  await visit(t, site, { at: '/a' }, async (page) => {
    const menu = page.getByRole('menu', { name: 'Actions of the folder' })
    await rowOf(page, '2.txt').waitFor()
    await selectEntries(page, '1.txt')
    await page.mouse.click(...(await belowRows(page)), { button: 'right' })
    await menu.waitFor()
    t.strictSame(await menu.getByRole('menuitem').allTextContents(), [
      ...['New folder', 'New file', 'Download from URLs', 'Upload', 'Upload a folder'],
      ...['Paste', 'Select all', 'Refresh', 'Share', 'Properties'],
    ])
    await axeInBothSchemes(t, page, 'the menu of the folder')
    await menu.getByRole('menuitemcheckbox', { name: 'Descending' }).click()
    await eventually(t, () => rowOf(page, '2.txt').getAttribute('data-index'), '0')

    await rowOf(page, '2.txt').focus()
    await page.keyboard.press('Shift+F10')
    await page.locator('[role=menu]:focus').waitFor()
    await page.keyboard.press('n')
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await dialog(page, 'New file').getByRole('textbox', { name: 'Name' }).fill('1.txt')
    await page.keyboard.press('Enter')
    await dialog(page, 'New file').getByRole('alert').getByText('“1.txt” exists already.').waitFor()
    await axeInBothSchemes(t, page, 'the question for a name')
    await dialog(page, 'New file').getByRole('textbox', { name: 'Name' }).fill('new.txt')
    await page.keyboard.press('Enter')
    await rowOf(page, 'new.txt').waitFor()
    t.equal(await readFile(join(site.folder, 'a/new.txt'), 'utf8'), '')

    await button(page, '1 selected').click()
    await page.mouse.click(...(await belowRows(page)), { button: 'right' })
    const choosing = page.waitForEvent('filechooser')
    await menu.getByRole('menuitem', { name: 'Upload', exact: true }).click()
    await (await choosing).setFiles({ name: 'chosen.txt', mimeType: '', buffer: Buffer.from('chosen') })
    await rowOf(page, 'chosen.txt').waitFor()
    await page.mouse.click(...(await belowRows(page)), { button: 'right' })
    await menu.getByRole('menuitemcheckbox', { name: 'Tiles' }).click()
    await page.locator('.tile').first().waitFor()
  })
})

void t.test('a drag whose row has left the page moves nothing at the next drop', options, async (t) => {
  const site = await startSite(t)
  await make(site, 'a/', '1.txt')
  await visit(t, site, {}, async (page) => {
    await rowOf(page, 'a').waitFor()
    const moves: string[] = []
    page.on('request', (request) => {
      if (request.url().endsWith('/api/fs/move')) moves.push(request.url())
    })
    // The row goes before the drag ends: the page gets no `dragend`.
    await page.evaluate(`{
      const row = [...document.querySelectorAll('[data-index]')].find((each) => each.textContent.includes('1.txt'))
      const dataTransfer = new DataTransfer()
      row.dispatchEvent(new DragEvent('dragstart', { dataTransfer, bubbles: true, cancelable: true }))
    }`)
    await dropFile(page, rowOf(page, 'a'), join(t.testdir(), 'new.txt'))
    t.ok((await namesIn(site, 'a')).includes('new.txt'))
    t.strictSame(moves, [])
    t.ok((await namesIn(site, '')).includes('1.txt'))
  })
})

void t.test('an administrator finds all actions in one line, and the rest under More', options, async (t) => {
  const site = await startSite(t)
  await make(site, '1.txt')
  await createUser(site, 'ann')
  const users = (await site.call('/api/admin/user/list')) as { content: { id: number; username: string }[] }
  const ann = users.content.find(({ username }) => username === 'ann')
  await site.call('/api/admin/user/update', { ...ann, permission: 0 })
  await visit(t, site, {}, async (page) => {
    await selectEntries(page, '1.txt')
    const bar = page.locator('.toolbar')
    const tops = await bar.locator('button:visible').evaluateAll((all) => all.map((e) => e.getBoundingClientRect().top))
    t.ok(tops.length > 8, 'the buttons were found')
    t.ok(Math.max(...tops) - Math.min(...tops) < 10, 'one line')
    await button(page, 'More').click()
    await page.getByRole('menu', { name: 'Actions', exact: true }).waitFor()
    await menuItem(page, 'Check rights').click()
    await page.getByRole('heading', { name: 'Check rights' }).waitFor()
  })
  await visit(t, site, { user: { username: 'ann', password: 'password' } }, async (page) => {
    await rowOf(page, '1.txt').waitFor()
    for (const name of ['Upload', 'New folder', 'Download from URLs', 'Share']) {
      await eventually(t, () => button(page, name).count(), 0, name)
    }
  })
})

void t.test('properties', options, async (t) => {
  const site = await startSite(t)
  await make(site, 'a/b/c/', 'a/1.txt', 'a/b/2.txt', 'a/b/c/3.txt')
  await visit(t, site, {}, async (page) => {
    const shown = dialog(page, 'Properties')
    const fact = (name: string) =>
      shown
        .locator('dt', { hasText: new RegExp(`^${name}$`) })
        .locator('xpath=following-sibling::dd[1]')
        .textContent()
    await rowOf(page, 'a').focus()
    await page.keyboard.press('Alt+Enter')
    await shown.getByText('not counted yet').waitFor()
    t.equal(await fact('Type'), 'Folder')
    t.equal(await fact('Storage'), 'Local')
    await eventually(t, () => fact('You may'), 'read, upload and create, rename, move, copy, delete, share')
    await shown.getByRole('button', { name: 'Count' }).click()
    await shown.getByText('3 files, 2 folders, 27 bytes').waitFor()
    await axeInBothSchemes(t, page, 'a folder')
    await page.keyboard.press('Escape')

    await page.goto('/a')
    await page.keyboard.press('Tab')
    await rowOf(page, '1.txt').click({ button: 'right' })
    await menuItem(page, 'Properties').click()
    await shown.getByRole('button', { name: 'Copy' }).waitFor()
    t.strictSame([await fact('Name'), await fact('Type'), await fact('Size')], ['1.txt', 'Text (TXT)', '7 bytes'])
    await page.keyboard.press('Escape')
    await rowOf(page, '1.txt').focus()
    await page.keyboard.press('Control+a')
    await button(page, '2 selected').waitFor()
    await page.keyboard.press('Alt+Enter')
    await shown.getByText('2 entries').waitFor()
    await shown.getByRole('button', { name: 'Count' }).click()
    await shown.getByText('3 files, 1 folder, 27 bytes').waitFor()
    await axeInBothSchemes(t, page, 'several')
    await page.keyboard.press('Escape')
    await button(page, '2 selected').click()

    let release: (() => void) | undefined
    const held = new Promise<void>((resolve) => (release = resolve))
    await page.route('**/api/fs/list', async (route) => {
      await held
      await route.abort()
    })
    await page.mouse.click(...(await belowRows(page)), { button: 'right' })
    await menuItem(page, 'Properties').click()
    await shown.getByRole('button', { name: 'Count' }).click()
    await shown.getByRole('button', { name: 'Stop' }).click()
    await shown.getByText('There is more: the count has ended before.').waitFor()
    release?.()
  })
})

void t.test('fingers select by a long press, and then by taps', options, async (t) => {
  const site = await startSite(t)
  await make(site, 'a/', '1.txt', '2.txt', '3.txt')
  await visit(t, site, { touch: true, width: 390, height: 700 }, async (page) => {
    const session = await page.context().newCDPSession(page)
    const touch = async (
      type: 'touchStart' | 'touchMove' | 'touchEnd',
      ...at: readonly (readonly [number, number])[]
    ) => session.send('Input.dispatchTouchEvent', { type, touchPoints: at.map(([x, y]) => ({ x, y })) })
    const tap = async (target: Locator) => page.touchscreen.tap(...(await middleOf(target)))
    const box = await rowOf(page, '1.txt').boundingBox()
    t.ok((box?.height ?? 0) >= 44)
    await touch('touchStart', await middleOf(rowOf(page, '1.txt')))
    await button(page, '1 selected').waitFor()
    await touch('touchEnd')
    t.equal(new URL(page.url()).pathname, '/', 'it is not opened')
    t.equal(await page.getByRole('menu').count(), 0)
    await tap(rowOf(page, '2.txt'))
    await button(page, '2 selected').waitFor()
    t.equal(new URL(page.url()).pathname, '/')

    const bar = page.locator('.below')
    const lowest = await bar.boundingBox()
    t.ok((lowest?.y ?? 0) + (lowest?.height ?? 0) > 699, 'the actions are at the bottom')
    for (const each of await bar.getByRole('button').all()) {
      const { width = 0, height = 0 } = (await each.boundingBox()) ?? {}
      t.ok(width >= 44 && height >= 44, 'large enough for a finger')
    }
    await axeInBothSchemes(t, page, 'a selection on a phone')
    await tap(bar.getByRole('button', { name: 'More' }))
    await menuItem(page, 'Cut').waitFor()
    await axeInBothSchemes(t, page, 'the menu on a phone')
    await tap(menuItem(page, 'Cut'))
    await status(page, '2 entries cut in /')
    await tap(button(page, '2 selected'))
    await tap(rowOf(page, 'a'))
    await page.getByText('This folder is empty.').waitFor()
    await tap(button(page, 'Paste here'))
    await rowOf(page, '2.txt').waitFor()
    t.strictSame(await namesIn(site, 'a'), ['1.txt', '2.txt'])

    await page.goto('/')
    const [x, y] = await middleOf(rowOf(page, '3.txt'))
    await touch('touchStart', [x, y])
    await touch('touchMove', [x, y - 60])
    // Longer than a long press.
    await page.waitForTimeout(700)
    await touch('touchEnd')
    t.equal(await page.getByRole('row', { selected: true }).count(), 0, 'a finger that moves scrolls')
    await touch('touchStart', await belowRows(page))
    await page.getByRole('menu', { name: 'Actions of the folder' }).waitFor()
    await touch('touchEnd')
    const menu = await page.getByRole('menu').boundingBox()
    t.ok(menu && menu.y >= 0 && menu.y + menu.height <= 700, 'the menu is in the window')
    await tap(menuItem(page, 'New folder'))
    await dialog(page, 'New folder').waitFor()
  })
})

void t.test('the README.md of a folder is shown below its entries', options, async (t) => {
  const site = await startSite(t)
  await make(site, 'few/', 'many/', 'large/', 'ruled/')
  for (let number = 0; number < 250; number++) await make(site, `many/${number}.txt`)
  await writeFile(join(site.folder, 'few/ReadMe.MD'), '# The *few*\n\n<script>ran = 1</script>')
  await writeFile(join(site.folder, 'many/zz readme.md'), 'not this one')
  await writeFile(join(site.folder, 'many/README.md'), '# The many')
  await writeFile(join(site.folder, 'large/README.md'), 'x'.repeat(300_000))
  await writeFile(join(site.folder, 'ruled/README.md'), 'of the file')
  await site.call('/api/admin/meta/create', { path: '/ruled', readme: 'of the rule' })
  await visit(t, site, { at: '/few' }, async (page) => {
    await page.getByRole('heading', { name: 'The few' }).waitFor()
    await axeInBothSchemes(t, page, 'a README.md')
    t.equal(await page.evaluate(`'ran' in globalThis`), false)
    await page.goto('/many')
    await page.getByRole('heading', { name: 'The many' }).waitFor()
    t.ok((await files(page).getByRole('row').count()) > 5, 'the entries are there too')
    await page.goto('/large')
    await rowOf(page, 'README.md').waitFor()
    await page.goto('/ruled')
    await page.getByText('of the rule').waitFor()
    t.equal(await page.getByText('of the file').count(), 0)
    await page.goto('/@profile')
    await page.getByRole('combobox', { name: 'README.md of folders' }).selectOption('Hidden')
    await page.goto('/few')
    await rowOf(page, 'ReadMe.MD').waitFor()
    await page.waitForLoadState('networkidle')
    t.equal(await page.getByRole('heading', { name: 'The few' }).count(), 0)
  })
})
