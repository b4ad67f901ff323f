/** The side bar and the search dialog: by keyboard, on wide and narrow screens, and for whom they show what. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import { axeViolations, eventually, withoutBrowser } from './browser.js'
import { fullSite, tooLarge } from './every-page.js'
import { button, createUser, dialog, goTo, rowOf, sideBar, visit } from './site.js'

const phone = { width: 390, height: 844 }

/** What the tree says of the folder that keys act on: its name, and whether it is expanded. */
async function activeFolder(page: Page): Promise<string> {
  return sideBar(page)
    .getByRole('tree')
    .evaluate((tree) => {
      const active = tree.querySelector(`[id='${tree.getAttribute('aria-activedescendant')}']`)
      return `${active?.textContent} ${active?.getAttribute('aria-expanded') ?? 'leaf'}`
    })
}

function search(page: Page) {
  return page.getByRole('dialog', { name: 'Search' })
}

async function openSearch(page: Page): Promise<void> {
  await page.keyboard.press('Control+k')
  await search(page).getByRole('combobox').and(page.locator(':focus')).waitFor()
}

/** The names in the search dialog, by their groups. */
async function found(page: Page): Promise<Readonly<Record<string, readonly string[]>>> {
  const groups = await search(page).getByRole('group').all()
  const named = groups.map(async (group) => [
    (await group.getAttribute('aria-label')) ?? '',
    await group.locator('[role=option] > .name:first-of-type').allTextContents(),
  ])
  return Object.fromEntries(await Promise.all(named)) as Record<string, readonly string[]>
}

void t.test('side bar and search', { skip: withoutBrowser }, async (t) => {
  const site = await fullSite(t)
  const { folder, gateway } = site
  await gateway.settings.set(new Map([['announcement', '']]))
  await mkdir(join(folder, 'harbour', 'boats', 'small'), { recursive: true })
  await writeFile(join(folder, 'harbour', 'lighthouse.txt'), '')
  await site.call('/api/admin/index/build', {})
  await createUser(site, 'bob')
  const bob = { username: 'bob', password: 'password' }

  await t.test('the tree is walked by keys, and folders are loaded as they are expanded', (t) =>
    visit(t, site, {}, async (page) => {
      await rowOf(page, 'harbour').waitFor()
      const asked: string[] = []
      page.on('request', (request) => {
        if (request.url().endsWith('/api/fs/dirs')) asked.push((request.postDataJSON() as { path: string }).path)
      })
      await sideBar(page).getByRole('tree').focus()
      t.equal(await activeFolder(page), 'Home true')
      await page.keyboard.press('h')
      await eventually(t, () => activeFolder(page), 'harbour false')
      await page.keyboard.press('ArrowRight')
      await sideBar(page).getByRole('treeitem', { name: 'boats' }).waitFor()
      t.strictSame(asked, ['/harbour'])
      await page.keyboard.press('ArrowRight')
      await eventually(t, () => activeFolder(page), 'boats false')
      await page.keyboard.press('ArrowLeft')
      await eventually(t, () => activeFolder(page), 'harbour true')
      await page.keyboard.press('ArrowLeft')
      await sideBar(page).getByRole('treeitem', { name: 'boats' }).waitFor({ state: 'detached' })
      await page.keyboard.press('ArrowRight')
      await page.keyboard.press('ArrowRight')
      await page.keyboard.press('ArrowDown')
      await page.keyboard.press('ArrowUp')
      await eventually(t, () => activeFolder(page), 'boats false')
      await page.keyboard.press('Enter')
      await page.waitForURL('**/harbour/boats')
      const current = sideBar(page).locator('[role=treeitem][aria-current=page]')
      await eventually(t, () => current.textContent(), 'boats')
      await page.keyboard.press('Home')
      await page.keyboard.press('Enter')
      await page.waitForURL(`${site.url}/`)
      await page.keyboard.press('Tab')
      await page.locator(':focus').getByText('Shares').waitFor()
    }),
  )

  await t.test('the tree shows where the page is, and folders that are made', (t) =>
    visit(t, site, { at: '/harbour/boats/small' }, async (page) => {
      const current = sideBar(page).locator('[role=treeitem][aria-current=page]')
      await eventually(t, () => current.textContent(), 'small')
      await button(page, 'New folder').click()
      await dialog(page, 'New folder').getByRole('textbox').fill('dinghy')
      await page.keyboard.press('Enter')
      await rowOf(page, 'dinghy').waitFor()
      await current.locator('.tree-toggle').click()
      await sideBar(page).getByRole('treeitem', { name: 'dinghy' }).click()
      await page.waitForURL('**/harbour/boats/small/dinghy')
    }),
  )

  await t.test('the side bar has every page for admins, and for others what they may see', async (t) => {
    const links = (page: Page) => sideBar(page).getByRole('link').allTextContents()
    const own = ['Shares', 'Tasks', 'Offline downloads', 'Profile', 'Documentation']
    await visit(t, site, {}, async (page) => {
      await rowOf(page, 'harbour').waitFor()
      const all = await links(page)
      t.strictSame(all.slice(0, own.length), own)
      t.equal(new Set(all.slice(own.length)).size, 17, 'and the pages of the administration')
      for (const name of all) {
        await goTo(page, name)
        await page.getByRole('heading', { level: 1 }).first().waitFor()
        t.equal(await sideBar(page).locator('.place[aria-current=page]').textContent(), name)
      }
    })
    await visit(t, site, { at: '/@tasks', height: 700 }, async (page) => {
      await page.getByText('Copy /program.bin to /other', { exact: true }).waitFor()
      await goTo(page, 'About')
      await page.reload()
      await page.getByRole('heading', { name: 'About' }).waitFor()
      await sideBar(page).getByRole('treeitem', { name: 'harbour' }).waitFor()
      const isInView = async () => {
        const { y = 0, height = 0 } = (await sideBar(page).locator('[aria-current=page]').boundingBox()) ?? {}
        return y > 0 && y + height <= 700
      }
      await eventually(t, isInView, true, 'the current page is in view')
    })
    await visit(t, site, { user: bob }, async (page) => {
      await sideBar(page).getByRole('link', { name: 'Tasks' }).waitFor()
      t.strictSame(
        await links(page),
        own.filter((name) => name !== 'Offline downloads'),
      )
    })
    await visit(t, site, { user: bob, at: '/@manage/users' }, async (page) => {
      await page.getByText('If you need it, ask an administrator for the permission.').waitFor()
      await page.getByRole('link', { name: 'Go to the files' }).click()
      await rowOf(page, 'harbour').waitFor()
    })
  })

  await t.test('the side bar is narrowed to symbols, which is kept', (t) =>
    visit(t, site, {}, async (page) => {
      const width = async () => (await sideBar(page).boundingBox())?.width ?? 0
      const wide = await width()
      await button(page, 'Side bar').click()
      await sideBar(page).getByRole('link', { name: 'Files' }).waitFor()
      t.ok((await width()) < wide / 3)
      t.equal(await button(page, 'Side bar').getAttribute('aria-expanded'), 'false')
      t.strictSame(await axeViolations(page), [])
      await page.reload()
      await sideBar(page).getByRole('link', { name: 'Users', exact: true }).click()
      await page.getByRole('heading', { name: 'Users' }).waitFor()
      await button(page, 'Side bar').click()
      await sideBar(page).getByRole('tree').waitFor()
    }),
  )

  await t.test('on a phone it is a sheet that keeps the focus, and that Escape closes', (t) =>
    visit(t, site, { ...phone }, async (page) => {
      await rowOf(page, 'harbour').waitFor()
      t.equal(await sideBar(page).count(), 0)
      await button(page, 'Side bar').focus()
      await page.keyboard.press('Enter')
      const sheet = page.getByRole('dialog', { name: 'Side bar' })
      await sheet.waitFor()
      await sheet.getByRole('tree').waitFor()
      const focused = new Set<boolean>()
      for (let press = 0; press < 30; press++) {
        await page.keyboard.press('Tab')
        // The browser's own bar has its turn too.
        focused.add(await page.evaluate(() => document.activeElement?.matches('dialog *, body') === true))
      }
      t.strictSame([...focused], [true], 'nothing behind it gets the focus')
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme })
        t.strictSame(await axeViolations(page, 'dialog'), [], colorScheme)
      }
      t.strictSame(await tooLarge(page), [])
      await page.keyboard.press('Escape')
      await sheet.waitFor({ state: 'detached' })
      t.equal(await page.evaluate('document.activeElement.ariaLabel'), 'Side bar', 'the focus is back')
      await page.keyboard.press('Enter')
      await sheet.getByRole('link', { name: 'Storages' }).click()
      await page.getByRole('heading', { name: 'Storages' }).waitFor()
      await sheet.waitFor({ state: 'detached' })
      await button(page, 'Side bar').click()
      await sheet.waitFor()
      await page.mouse.click(380, 400)
      await sheet.waitFor({ state: 'detached' })
    }),
  )

  await t.test('the search finds files, pages and settings, and opens them by keys', (t) =>
    visit(t, site, {}, async (page) => {
      await rowOf(page, 'harbour').waitFor()
      await openSearch(page)
      const requests: string[] = []
      page.on('request', (request) => {
        if (request.url().endsWith('/api/fs/search')) {
          requests.push((request.postDataJSON() as { keywords: string }).keywords)
        }
      })
      // All keys within the time after which the server is asked, on a slow machine too.
      await page.evaluate(`{
        const field = document.activeElement
        for (const key of 'lighthouse') {
          field.value += key
          field.dispatchEvent(new InputEvent('input', { bubbles: true }))
        }
      }`)
      await search(page).getByRole('option', { name: 'lighthouse.txt' }).waitFor()
      t.strictSame(requests, ['lighthouse'], 'asked once')
      t.strictSame(await found(page), { Files: ['Search all files for “lighthouse”', 'lighthouse.txt'] })
      await page.keyboard.press('ArrowDown')
      await page.keyboard.press('Enter')
      await page.waitForURL('**/harbour/lighthouse.txt')
      await search(page).waitFor({ state: 'detached' })

      await button(page, 'Search').click()
      await page.keyboard.type('main color')
      await eventually(t, async () => (await found(page)).Settings, ['Main color'])
      await page.keyboard.press('Enter')
      await page.getByLabel('Main color').and(page.locator(':focus')).waitFor()

      await openSearch(page)
      await page.keyboard.type('what happ')
      const happened = ['Overview', 'Connections', 'Audit', 'Log', 'Webhooks']
      await eventually(t, async () => (await found(page)).Pages, happened)
      await page.keyboard.press('ArrowUp')
      await page.keyboard.press('ArrowDown')
      await page.keyboard.press('ArrowDown')
      await page.keyboard.press('Enter')
      await page.getByRole('heading', { name: 'Connections', level: 1 }).waitFor()

      await openSearch(page)
      await page.keyboard.type('nothing like this')
      await eventually(t, () => found(page), { Files: ['Search all files for “nothing like this”'] })
      await page.keyboard.press('Escape')
      await search(page).waitFor({ state: 'detached' })
    }),
  )

  await t.test('an answer to earlier words is dropped', (t) =>
    visit(t, site, {}, async (page) => {
      await rowOf(page, 'harbour').waitFor()
      let answerFirst: (() => void) | undefined
      await page.route('**/api/fs/search', async (route) => {
        const { keywords } = route.request().postDataJSON() as { keywords: string }
        if (keywords === 'notes') await new Promise<void>((resolve) => (answerFirst = resolve))
        await route.continue().catch(() => undefined)
      })
      await openSearch(page)
      const first = page.waitForRequest('**/api/fs/search')
      await page.keyboard.type('notes')
      await first
      await search(page).getByRole('combobox').fill('lighthouse')
      await search(page).getByRole('option', { name: 'lighthouse.txt' }).waitFor()
      answerFirst?.()
      await page.evaluate('new Promise(requestAnimationFrame)')
      t.equal(await search(page).getByRole('option', { name: 'notes.md' }).count(), 0)
    }),
  )

  await t.test('the search has the commands of the page, and the folders that were visited', (t) =>
    visit(t, site, { at: '/harbour/boats', colors: 'light' }, async (page) => {
      await page.getByText('small').first().waitFor()
      await page.goto('/harbour')
      await rowOf(page, 'lighthouse.txt').waitFor()
      await openSearch(page)
      await eventually(t, async () => (await found(page))['Visited folders'], ['harbour', 'boats'])
      for (const colorScheme of ['light', 'dark'] as const) {
        for (const size of [phone, { width: 1280, height: 800 }]) {
          await page.emulateMedia({ colorScheme })
          await page.setViewportSize(size)
          t.strictSame(await axeViolations(page, 'dialog'), [], `${colorScheme} ${size.width}`)
          t.strictSame(await tooLarge(page), [])
        }
      }
      await page.keyboard.type('new fold')
      await page.keyboard.press('Enter')
      await dialog(page, 'New folder').getByRole('textbox').fill('quay')
      await page.keyboard.press('Enter')
      await rowOf(page, 'quay').waitFor()
      // The browser is told of it before the key is pressed.
      const chooser = page.waitForEvent('filechooser')
      await openSearch(page)
      await page.keyboard.type('upload')
      await page.keyboard.press('Enter')
      t.ok((await chooser).isMultiple())
      await openSearch(page)
      await page.keyboard.type('dark')
      await page.keyboard.press('Enter')
      await eventually(t, () => page.evaluate('getComputedStyle(document.body).backgroundColor'), 'rgb(22, 24, 29)')
      await openSearch(page)
      await page.keyboard.type('sign out')
      await page.keyboard.press('Enter')
      await button(page, 'Sign in').waitFor()
      t.equal(await page.evaluate("localStorage.getItem('recent folders')"), null, 'the folders are forgotten')
    }),
  )

  await t.test('the search shows users only what they may see, and visitors less', async (t) => {
    await visit(t, site, { user: bob }, async (page) => {
      await rowOf(page, 'harbour').waitFor()
      await openSearch(page)
      await page.keyboard.type('s')
      await search(page).getByRole('option', { name: 'Shares' }).waitFor()
      await eventually(t, async () => (await found(page)).Pages, ['Shares', 'Tasks'])
      t.equal((await found(page)).Settings, undefined)
    })
    await gateway.accounts.users.update(gateway.accounts.users.byName('guest')?.id ?? 0, { disabled: false })
    await visit(t, site, { user: null }, async (page) => {
      await page.getByRole('link', { name: 'Sign in' }).waitFor()
      await openSearch(page)
      await search(page).getByRole('option', { name: 'Documentation' }).waitFor()
      const { Pages, Commands = [] } = await found(page)
      t.strictSame(Pages, ['Documentation'])
      t.notOk(
        Commands.some((name) => /new folder|upload|sign out/i.test(name)),
        Commands.join(),
      )
    })
  })
})
