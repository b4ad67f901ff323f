/** The page of a folder in a browser: its entries, what can be done with them, and what they must not do. */
import { deepEqual } from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { http } from '../../protocols/http/index.js'
import { consoleFolder } from '../../protocols/http/site/console.js'
import { asPath } from '../../src/base/path.js'
import { adminPassword, serve } from '../protocols/http/served.js'
import {
  axeViolations,
  eventually,
  openPage,
  signIn,
  startBrowser,
  withoutBrowser,
  type BrowserOptions,
} from './browser.js'

/** A server with the console, and a page of it. At the end of the test, the browser must not have complained. */
async function opened(t: Test, options: BrowserOptions = {}) {
  const served = await serve(t, '', [], {}, consoleFolder)
  const browser = await startBrowser()
  const { page, complaints } = await openPage(browser, served.url, options)
  t.teardown(() => deepEqual(complaints, []))
  return { served, page }
}

const row = (page: Page, name: string) => page.getByRole('row', { name: new RegExp(`^${name}`) })
const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
const dialog = (page: Page, title: string) => page.getByRole('dialog', { name: title })
const confirm = (page: Page, action: string) =>
  dialog(page, action).getByRole('button', { name: action, exact: true }).click()
const status = (page: Page, text: string) => page.getByRole('status').filter({ hasText: text }).waitFor()

/** Closes the dialog of this title, after a check of its accessibility. */
async function checked(t: Test, page: Page, title: string): Promise<void> {
  await dialog(page, title).waitFor()
  t.same(await axeViolations(page), [], title)
  await page.keyboard.press('Escape')
  await dialog(page, title).waitFor({ state: 'detached' })
}

void t.test('entries are changed by dialogs', { skip: withoutBrowser }, async (t) => {
  const { served, page } = await opened(t)
  for (const name of ['a.txt', 'b.txt', 'c.txt']) await served.put(`/docs/${name}`, `content of ${name}`)
  await served.put('/docs/sub/b.txt', 'older')
  await signIn(page, 'admin', adminPassword)
  await page.goto('/docs')
  await row(page, 'a\\.txt').waitFor()
  t.same(await axeViolations(page), [])
  for (const name of ['Rename', 'Move', 'Copy', 'Delete', 'Download']) {
    t.equal(await button(page, name).count(), 0, `${name} needs a selection`)
  }

  await button(page, 'New folder').click()
  await dialog(page, 'New folder').getByRole('textbox', { name: 'Name' }).fill('sub')
  await confirm(page, 'New folder')
  await dialog(page, 'New folder').getByRole('alert').filter({ hasText: '“sub” exists already' }).waitFor()
  await dialog(page, 'New folder').getByRole('textbox', { name: 'Name' }).fill('new')
  await confirm(page, 'New folder')
  await row(page, 'new').waitFor()

  await row(page, 'a\\.txt').getByRole('checkbox').check()
  await button(page, 'Rename').click()
  await dialog(page, 'Rename').getByRole('textbox', { name: 'Name' }).fill('first.txt')
  await confirm(page, 'Rename')
  await row(page, 'first\\.txt').waitFor()

  await row(page, 'first\\.txt').getByRole('checkbox').uncheck()
  for (const name of ['b\\.txt', 'c\\.txt']) await row(page, name).getByRole('checkbox').check()
  await button(page, 'Copy').click()
  await page.getByRole('dialog').getByRole('treeitem', { name: 'sub' }).click()
  await confirm(page, 'Copy')
  await dialog(page, 'Copy').getByRole('alert').filter({ hasText: '“b.txt” exists already' }).waitFor()
  t.same(await served.names('/docs/sub'), ['b.txt'], 'nothing is copied')
  await dialog(page, 'Copy').getByRole('combobox').selectOption('Replace it')
  await confirm(page, 'Copy')
  await status(page, '2 entries are copied')
  t.equal(await served.content('/docs/sub/b.txt'), 'content of b.txt')
  t.same(await served.names('/docs/sub'), ['b.txt', 'c.txt'])

  await row(page, 'c\\.txt').click({ button: 'right' })
  await page.getByRole('menuitem', { name: 'Move' }).click()
  await dialog(page, 'Move').getByRole('button', { name: 'New folder' }).click()
  await dialog(page, 'Move')
    .getByRole('textbox', { name: /^Name of the new folder/ })
    .fill('moved')
  await page.keyboard.press('Enter')
  await dialog(page, 'Move').getByText('Move 1 entry to /docs/moved').waitFor()
  t.same(await axeViolations(page), [])
  await confirm(page, 'Move')
  await row(page, 'c\\.txt').waitFor({ state: 'detached' })
  t.same(await served.names('/docs/moved'), ['c.txt'])

  await row(page, 'first\\.txt').click({ button: 'right' })
  await page.getByRole('menu').waitFor()
  t.same(await axeViolations(page), [], 'the menu')
  await page.getByRole('menuitem', { name: 'Delete' }).click()
  await dialog(page, 'Delete').getByText('“first.txt” will be deleted').waitFor()
  await confirm(page, 'Delete')
  await row(page, 'first\\.txt').waitFor({ state: 'detached' })
  t.same(await served.names('/docs'), ['moved', 'new', 'sub', 'b.txt'])

  for (const action of ['New folder', 'Rename', 'Move', 'Copy', 'Delete', 'Link']) {
    if (action === 'Rename') await row(page, 'b\\.txt').getByRole('checkbox').check()
    await button(page, action).click()
    await checked(t, page, action)
  }
})

void t.test('a folder is used by keys alone', { skip: withoutBrowser }, async (t) => {
  const { served, page } = await opened(t)
  for (const name of ['a.txt', 'b.txt', 'c.txt', 'd.txt']) await served.put(`/docs/${name}`, name)
  await signIn(page, 'admin', adminPassword)
  await row(page, 'docs').focus()
  await page.keyboard.press('Enter')
  await page.waitForURL('**/docs')
  /** Resolves when a key goes to the menu or the dialog: before that, it goes to the list. */
  const hasFocus = (selector: string) =>
    page.waitForFunction((what) => document.activeElement?.closest(what) != null, selector)
  const focused = (name: string) => page.locator(`[role="row"][aria-label^="${name}"]:focus`).waitFor()
  await focused('a.txt')
  await page.keyboard.press('ArrowDown')
  await focused('b.txt')
  await page.keyboard.press('Shift+ArrowDown')
  await page.getByText('2 selected').waitFor()
  await page.keyboard.press('Shift+F10')
  await page.getByRole('menu').waitFor()
  await hasFocus('[role="menu"]')
  await page.keyboard.press('Escape')
  await focused('c.txt')
  await page.keyboard.press('Delete')
  await dialog(page, 'Delete').waitFor()
  await hasFocus('dialog, [role="dialog"]')
  await page.keyboard.press('Escape')
  await focused('c.txt')
  await page.keyboard.press('Delete')
  await dialog(page, 'Delete').getByRole('button', { name: 'Delete' }).press('Enter')
  await row(page, 'b\\.txt').waitFor({ state: 'detached' })
  t.same(await served.names('/docs'), ['a.txt', 'd.txt'])
  await page.keyboard.press('Home')
  await page.keyboard.press('F2')
  await dialog(page, 'Rename').waitFor()
  // The name without its extension is selected.
  await page.keyboard.type('renamed')
  await page.keyboard.press('Enter')
  await row(page, 'renamed\\.txt').waitFor()
  await page.keyboard.press('Backspace')
  await page.waitForURL((url) => url.pathname === '/')
  await focused('docs')
})

void t.test('a range of entries is selected whether or not it was in view', { skip: withoutBrowser }, async (t) => {
  const { served, page } = await opened(t)
  const fs = served.gateway.as(await served.gateway.accounts.tokens.principalOf(served.token, http))
  const count = 1203
  for (let index = 0; index < count; index++) await fs.mkdir(asPath(`/many/${index}`), { parents: true })
  await signIn(page, 'admin', adminPassword)
  await page.goto('/many')
  await row(page, '0,').focus()
  t.equal(await page.getByRole('grid', { name: 'Files' }).getAttribute('aria-rowcount'), String(count + 1))
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Shift+End')
  await page.getByText(`${(count - 1).toLocaleString('en')} selected`).waitFor()
  await row(page, '1202').waitFor()
  await page.keyboard.press('Control+a')
  await page.getByText(`${count.toLocaleString('en')} selected`).waitFor()
  await page.keyboard.press('Space')
  await page.getByText(`${(count - 1).toLocaleString('en')} selected`).waitFor()
  await page.keyboard.press('Delete')
  await confirm(page, 'Delete')
  await status(page, '1,202 entries are deleted')
  t.same(await served.names('/many'), ['1202'])
})

void t.test('a move whose request fails goes on there', { skip: withoutBrowser }, async (t) => {
  const { served, page } = await opened(t)
  const fs = served.gateway.as(await served.gateway.accounts.tokens.principalOf(served.token, http))
  const count = 501
  for (let index = 0; index < count; index++) await fs.mkdir(asPath(`/many/${index}`), { parents: true })
  await fs.mkdir(asPath('/first'))
  await signIn(page, 'admin', adminPassword)
  await page.goto('/many')
  await row(page, '0,').focus()
  await page.keyboard.press('Control+a')
  let requests = 0
  await page.route('**/api/fs/move', (route) => (++requests === 2 ? route.abort() : route.continue()))
  await button(page, 'Move').click()
  await page.getByRole('dialog').getByRole('treeitem', { name: 'first' }).click()
  await confirm(page, 'Move')
  await dialog(page, 'Move').getByRole('alert').waitFor()
  await confirm(page, 'Move')
  await status(page, '501 entries are moved')
  t.equal(requests, 3)
  t.equal((await served.names('/first')).length, count)
})

void t.test('a dialog stays when the request of one before it ends', { skip: withoutBrowser }, async (t) => {
  const { served, page } = await opened(t)
  await served.put('/docs/a.txt', 'content')
  await signIn(page, 'admin', adminPassword)
  await page.goto('/docs')
  await row(page, 'a\\.txt').waitFor()
  for (const code of [200, 500]) {
    let release: (() => void) | undefined
    const held = new Promise<void>((resolve) => (release = resolve))
    await page.route('**/api/fs/mkdir', async (route) => {
      await held
      await route.fulfill({ json: { code, message: 'the disk is on strike', data: null } })
    })
    const requested = page.waitForRequest('**/api/fs/mkdir')
    await button(page, 'New folder').click()
    await dialog(page, 'New folder').getByRole('textbox', { name: 'Name' }).fill('new')
    await confirm(page, 'New folder')
    await requested
    await page.keyboard.press('Escape')
    await dialog(page, 'New folder').waitFor({ state: 'detached' })
    await button(page, 'New folder').click()
    await dialog(page, 'New folder').waitFor()
    release?.()
    const notice = code === 200 ? 'The folder' : 'the disk is on strike'
    await page.locator('.notice').filter({ hasText: notice }).waitFor()
    t.equal(await dialog(page, 'New folder').count(), 1)
    await page.keyboard.press('Escape')
    await dialog(page, 'New folder').waitFor({ state: 'detached' })
    await page.unroute('**/api/fs/mkdir')
  }
})

void t.test('several entries are renamed by a pattern, after a preview', { skip: withoutBrowser }, async (t) => {
  const { served, page } = await opened(t)
  for (const name of ['IMG_1.jpg', 'IMG_2.jpg', 'IMG_10.jpg', 'photo 2.jpg', 'other.txt'])
    await served.put(`/p/${name}`, name)
  await signIn(page, 'admin', adminPassword)
  await page.goto('/p')
  for (const name of ['IMG_1\\.', 'IMG_2', 'IMG_10']) await row(page, name).getByRole('checkbox').check()
  await button(page, 'Rename').click()
  const field = (name: string) => dialog(page, 'Rename').getByRole('textbox', { name, exact: true })
  const preview = dialog(page, 'Rename').getByRole('list', { name: 'Preview' })
  await field('Find').fill('IMG_(\\d+)')
  await dialog(page, 'Rename').getByRole('checkbox', { name: 'Regular expression' }).check()
  await field('Replace with').fill('photo $1')
  await preview.getByText('photo 10.jpg').waitFor()
  await preview.getByRole('listitem').filter({ hasText: 'IMG_2' }).getByText('exists already').waitFor()
  const action = dialog(page, 'Rename').getByRole('button', { name: 'Rename' })
  await eventually(t, () => action.isDisabled(), true, 'a name is taken')
  await field('Find').fill('IMG_(')
  await dialog(page, 'Rename').getByRole('alert').getByText('This is not a regular expression.').waitFor()
  await eventually(t, () => action.isDisabled(), true, 'the pattern is faulty')
  await dialog(page, 'Rename').getByRole('combobox').selectOption('Name and number')
  await field('Name, with # for the number').fill('IMG_##')
  await dialog(page, 'Rename').getByRole('spinbutton', { name: 'First number' }).fill('9')
  await preview.getByText('IMG_11.jpg').waitFor()
  t.same(await axeViolations(page), [])
  await confirm(page, 'Rename')
  await status(page, '3 entries are renamed')
  t.same(await served.names('/p'), ['IMG_09.jpg', 'IMG_10.jpg', 'IMG_11.jpg', 'other.txt', 'photo 2.jpg'])
  t.equal(await served.content('/p/IMG_11.jpg'), 'IMG_10.jpg', 'in an order in which no new name is taken')
})

void t.test(
  'a file is downloaded and linked, and a selection is requested as a zip',
  { skip: withoutBrowser },
  async (t) => {
    const { served, page } = await opened(t)
    await served.put('/docs/a b#?.txt', 'content')
    await served.put('/docs/c.txt', 'content')
    await served.put('/docs/d.txt', 'content')
    await signIn(page, 'admin', adminPassword)
    await page.goto('/docs')
    await row(page, 'a b').getByRole('checkbox').check()
    const [download] = await Promise.all([page.waitForEvent('download'), button(page, 'Download').click()])
    t.equal(download.suggestedFilename(), 'a b#_.txt')
    t.equal(await readFile(await download.path(), 'utf8'), 'content')
    await button(page, 'Link').click()
    const address = dialog(page, 'Link').getByRole('textbox', { name: 'Address' })
    await dialog(page, 'Link').getByRole('combobox').selectOption('never')
    await dialog(page, 'Link').getByText('The link does not expire.').waitFor()
    const link = await address.inputValue()
    t.equal(await (await fetch(link)).text(), 'content', 'without an account')
    await dialog(page, 'Link').getByRole('button', { name: 'Copy link' }).click()
    await status(page, 'The link is copied')
    await row(page, 'c\\.txt').getByRole('checkbox').check()
    await eventually(t, () => button(page, 'Link').isDisabled(), true, 'only a file has a link')
    const [zip] = await Promise.all([page.waitForEvent('download'), button(page, 'Download').click()])
    t.match(zip.url(), '/api/fs/zip?')
    t.equal(new URL(zip.url()).searchParams.get('path'), '/docs')
    t.same(new URL(zip.url()).searchParams.getAll('names'), ['a b#?.txt', 'c.txt'])
    await page.getByRole('checkbox', { name: 'Select all' }).click()
    const [whole] = await Promise.all([page.waitForEvent('download'), button(page, 'Download').click()])
    t.same(new URL(whole.url()).searchParams.getAll('names'), [], 'the whole folder')
  },
)

void t.test(
  'what the user may not do has no button, and is disabled in the menu',
  { skip: withoutBrowser },
  async (t) => {
    const { served, page } = await opened(t)
    await served.put('/docs/a.txt', 'content')
    await served.as('ann', ['rename', 'copy'])
    await signIn(page, 'ann', 'password')
    await page.goto('/docs')
    for (const name of ['Upload', 'New folder']) await eventually(t, () => button(page, name).count(), 0, name)
    await row(page, 'a\\.txt').getByRole('checkbox').check()
    for (const name of ['Rename', 'Copy', 'Download', 'Link']) {
      await eventually(t, () => button(page, name).isEnabled(), true, name)
    }
    for (const name of ['Move', 'Delete']) t.equal(await button(page, name).count(), 0, name)
    await row(page, 'a\\.txt').click({ button: 'right' })
    t.equal(await page.getByRole('menuitem', { name: 'Delete' }).getAttribute('aria-disabled'), 'true')
    await page.keyboard.press('Escape')
    await row(page, 'a\\.txt').focus()
    await page.keyboard.press('Delete')
    t.equal(await dialog(page, 'Delete').count(), 0)
  },
)

void t.test('a folder with a password asks for it, and can be changed then', { skip: withoutBrowser }, async (t) => {
  const { served, page } = await opened(t)
  await served.put('/closed/a.txt', 'content')
  await served.put('/closed/sub/c.txt', 'content of c')
  await served.rule('/closed', { password: 'pässword', passwordSub: true })
  await served.as('ann', ['write', 'rename', 'move', 'copy', 'remove'])
  await signIn(page, 'ann', 'password')
  await row(page, 'closed').click()
  await page.getByLabel('Password').fill('wrong')
  await button(page, 'Open folder').click()
  await page.getByRole('alert').filter({ hasText: 'The password is wrong' }).waitFor()
  t.same(await axeViolations(page), [])
  await page.getByLabel('Password').fill('pässword')
  await button(page, 'Open folder').click()
  await row(page, 'a\\.txt').waitFor()
  await page.getByRole('checkbox', { name: 'Select all' }).click()
  const requested = page.context().waitForEvent('request', (each) => each.url().includes('/api/fs/zip'))
  const [zip] = await Promise.all([page.waitForEvent('download'), button(page, 'Download').click()])
  t.equal(zip.suggestedFilename(), 'closed.zip')
  t.match(await readFile(await zip.path(), 'latin1'), 'content of c')
  const request = await requested
  t.equal(new URL(request.url()).search, '', 'no password is in a URL')
  t.equal(new URLSearchParams(request.postData() ?? '').get('password'), 'pässword')
  await row(page, 'sub').getByRole('checkbox').uncheck()
  await button(page, 'Rename').click()
  await dialog(page, 'Rename').getByRole('textbox', { name: 'Name' }).fill('b.txt')
  await confirm(page, 'Rename')
  await row(page, 'b\\.txt').getByRole('checkbox').uncheck()
  await button(page, 'New folder').click()
  await dialog(page, 'New folder').getByRole('textbox', { name: 'Name' }).fill('inner')
  await confirm(page, 'New folder')
  await row(page, 'inner').waitFor()
  t.same(await served.names('/closed'), ['inner', 'sub', 'b.txt'])
})

void t.test('a copy between storages is a task', { skip: withoutBrowser }, async (t) => {
  const { served, page } = await opened(t)
  await served.put('/docs/a.txt', 'content')
  await served.mount('/other', 'Local')
  await signIn(page, 'admin', adminPassword)
  await page.goto('/docs')
  await row(page, 'a\\.txt').getByRole('checkbox').check()
  await button(page, 'Copy').click()
  await page.getByRole('dialog').getByRole('treeitem', { name: 'other' }).click()
  await confirm(page, 'Copy')
  await status(page, 'A task does this in the background')
  await page.getByRole('status').getByRole('link', { name: 'Tasks', exact: true }).click()
  await page.waitForURL('**/@tasks')
  await served.ended('copy')
  t.equal(await served.content('/other/a.txt'), 'content')
})

/** Each tries to run a script, to load something, or to look like a part of the page. */
const hostile = `# Title
<script>window.ran = 1</script>
<img src="x" onerror="window.ran = 2"><img src="https://remote.invalid/a.png">
![remote](https://remote.invalid/b.png)
<svg onload="window.ran = 3"><style>@import "https://remote.invalid/c.css"</style></svg>
<style>body { display: none }</style><link rel="stylesheet" href="https://remote.invalid/d.css">
<iframe src="https://remote.invalid/e"></iframe><object data="https://remote.invalid/f"></object>
<form action="https://remote.invalid/g"><input name="password"></form>
<a href="javascript:window.ran = 4" id="console" name="body" style="position: fixed" onclick="window.ran = 5">js</a>
<math><mtext></form><form><mglyph><style></math><img src onerror="window.ran = 6">
<video src="https://remote.invalid/h" poster="https://remote.invalid/i"></video><base href="https://remote.invalid/">

[script](javascript:window.ran=10) [near](sub/file.txt) [taken](../api/a%20b.md#top) [far](https://remote.invalid/j)

| a | b |
| - | - |
| 1 | 2 |
`

void t.test('notes and names of others are shown as text, and do nothing', { skip: withoutBrowser }, async (t) => {
  const { served, page } = await opened(t)
  const names = [
    '<img src=x onerror=window.ran=7>',
    '"><script>window.ran=8</script>',
    'javascript:window.ran=9',
    '@login',
  ]
  for (const name of names) await served.post('/api/fs/mkdir', { path: `/docs/${name.replaceAll('/', '')}` })
  await served.rule('/docs', { readme: hostile, header: 'https://remote.invalid/readme.md' })
  await signIn(page, 'admin', adminPassword)
  await page.goto('/docs')
  const notes = page.locator('.markdown')
  await notes.getByRole('heading', { name: 'Title' }).waitFor()
  await notes.getByRole('cell', { name: '2' }).waitFor()
  t.equal(await page.evaluate(() => 'ran' in globalThis), false)
  const forbidden =
    'script, img, svg, style, link, iframe, object, form, input, video, base, [onerror], [style], [id], [name]'
  t.equal(await notes.locator(forbidden).count(), 0)
  t.match(await notes.textContent(), 'remote', 'a picture is shown as its description')
  t.equal(await notes.locator('a[href]:not([href^="http"])').count(), 0, 'no link runs a script')
  const far = notes.getByRole('link', { name: 'far' })
  t.match([await far.getAttribute('target'), await far.getAttribute('rel')], ['_blank', /noopener/])
  t.equal(await notes.getByRole('link', { name: 'near' }).getAttribute('href'), `${served.url}/docs/sub/file.txt`)
  t.equal(await notes.getByRole('link', { name: 'taken' }).getAttribute('href'), `${served.url}/@/api/a%20b.md#top`)
  t.equal(await page.getByRole('link', { name: 'https://remote.invalid/readme.md' }).count(), 1, 'a URL is a link')
  t.same(await axeViolations(page), [])
  for (const name of ['<img', '">', 'javascript:', '@login']) {
    await page.getByRole('row').filter({ hasText: name }).click()
    await page.getByText('This folder is empty.').waitFor()
    await page.goBack()
  }
  t.equal(await page.evaluate(() => 'ran' in globalThis), false)
})

void t.test('a folder is usable at 360 pixels, in dark colors and as tiles', { skip: withoutBrowser }, async (t) => {
  const { served, page } = await opened(t, { width: 360, height: 640, colors: 'dark' })
  for (const name of ['a.txt', 'b.txt', 'a rather long name of a file that does not fit.txt'])
    await served.put(`/${name}`, 'x')
  await signIn(page, 'admin', adminPassword)
  for (const view of ['tiles', 'list']) {
    await button(page, 'More').click()
    await page.getByRole('menuitemcheckbox', { name: 'Tiles' }).click()
    await page
      .locator('.tile')
      .first()
      .waitFor({ state: view === 'tiles' ? 'visible' : 'detached' })
    await row(page, 'b\\.txt').getByRole('checkbox').check({ force: true })
    t.same(await axeViolations(page), [], view)
    t.ok(
      await page.evaluate<boolean>('document.documentElement.scrollWidth <= innerWidth'),
      `${view}: nothing is beside`,
    )
    await row(page, 'b\\.txt').getByRole('checkbox').uncheck({ force: true })
  }
  await row(page, 'b\\.txt').getByRole('checkbox').check()
  await row(page, 'a\\.txt').getByRole('checkbox').check()
  await button(page, 'More').click()
  await page.getByRole('menuitem', { name: 'Rename' }).click()
  await checked(t, page, 'Rename')
})
