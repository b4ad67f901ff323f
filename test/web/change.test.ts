/** The dialogs of the console that change a folder, and a whole visit by keys. */
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import { withoutBrowser } from './browser.js'
import { failingStorages } from './failing-storages.js'
import { button, dialog, rowOf, selectEntries, startSite, visit } from './site.js'

void t.test('changing', { skip: withoutBrowser }, async (t) => {
  const site = await startSite(t, { driverTypes: failingStorages })
  const { folder, call } = site
  await writeFile(join(folder, 'one.txt'), '')

  await t.test('a dialog has its title as name, a button of the action, and Cancel; what is behind is inert', (t) =>
    visit(t, site, {}, async (page) => {
      for (const action of ['New folder', 'Rename', 'Move', 'Copy', 'Delete']) {
        if (action === 'Rename') await selectEntries(page, 'one.txt')
        await button(page, action).click()
        const opened = dialog(page, action)
        await opened.waitFor()
        await opened.getByRole('button', { name: action, exact: true }).first().waitFor()
        t.equal(await page.getByRole('dialog').count(), 1)
        const outside: string[] = []
        for (let presses = 0; presses < 12; presses++) {
          await page.keyboard.press('Tab')
          const isOutside = await page.evaluate(() => {
            const { activeElement } = document
            return activeElement !== document.body && activeElement?.closest('dialog') === null
          })
          if (isOutside) outside.push(`after ${presses}`)
        }
        t.strictSame(outside, [], `${action}: the focus stays in the dialog`)
        const isCovered = await page.evaluate(() => {
          const { x, y, width, height } =
            document.querySelector('[role=grid]')?.getBoundingClientRect() ?? new DOMRect()
          const hit = document.elementFromPoint(x + width / 2, y + height - 2)
          return hit?.closest('[role=grid]') === null
        })
        t.ok(isCovered, `${action}: clicks do not reach the listing`)
        await opened.getByRole('button', { name: 'Cancel', exact: true }).click()
        await opened.waitFor({ state: 'detached' })
      }
      await button(page, '1 selected').click()
      await rowOf(page, 'one.txt').and(page.locator(':focus')).waitFor()
      await button(page, 'New folder').click()
      await dialog(page, 'New folder').waitFor()
      await page.keyboard.press('Escape')
      await dialog(page, 'New folder').waitFor({ state: 'detached' })
    }),
  )

  await t.test('a change that the storage refuses is reported in the dialog, which stays open', async (t) => {
    await call('/api/admin/storage/create', {
      mount_path: '/failing',
      driver: 'Failing',
      cache_expiration: 0,
      addition: '{}',
    })
    await visit(t, site, {}, async (page) => {
      await selectEntries(page, 'one.txt')
      await button(page, 'Move').click()
      const opened = dialog(page, 'Move')
      await opened.getByRole('treeitem', { name: 'failing' }).click()
      await opened.getByRole('button', { name: 'Move', exact: true }).click()
      await opened.getByRole('alert').waitFor()
      await opened.getByRole('button', { name: 'Cancel' }).click()
      t.ok(existsSync(join(folder, 'one.txt')))
    })
  })

  await t.test('everything is done by keys alone: sign in, upload, rename, delete', async (t) => {
    await mkdir(join(folder, 'keys'))
    const local = join(t.testdir(), 'typed.txt')
    await writeFile(local, 'by keys')
    await visit(t, site, { user: null, at: '/keys' }, async (page) => {
      await page.getByRole('textbox', { name: 'Username' }).waitFor()
      await tabTo(page, 'Username')
      await page.keyboard.type('admin')
      await tabTo(page, 'Password')
      await page.keyboard.type(site.adminPassword)
      await tabTo(page, 'Sign in')
      await page.keyboard.press('Enter')
      await page.getByText('This folder is empty.').waitFor()

      // Chromium is told to report choosers of files only after the wait for one begins.
      const choosing = page.waitForEvent('filechooser')
      await tabTo(page, 'Upload')
      await page.keyboard.press('Enter')
      await (await choosing).setFiles(local)
      await rowOf(page, 'typed.txt').waitFor()
      t.equal(await readFile(join(folder, 'keys', 'typed.txt'), 'utf8'), 'by keys')

      await tabTo(page, 'typed.txt')
      await page.keyboard.press('F2')
      await dialog(page, 'Rename').waitFor()
      // The part before the extension is selected.
      await page.keyboard.type('renamed')
      await page.keyboard.press('Enter')
      await rowOf(page, 'renamed.txt').waitFor()

      await dialog(page, 'Rename').waitFor({ state: 'detached' })
      await tabTo(page, 'renamed.txt')
      await page.keyboard.press('Delete')
      await dialog(page, 'Delete').waitFor()
      await tabTo(page, 'Delete')
      await page.keyboard.press('Enter')
      await rowOf(page, 'renamed.txt').waitFor({ state: 'detached' })
      t.strictSame(await readdir(join(folder, 'keys')), [])
    })
  })
})

/** Presses Tab until the focus is on the control of this name. Throws if it does not get there. */
async function tabTo(page: Page, name: string): Promise<void> {
  const seen: string[] = []
  for (let presses = 0; presses < 60; presses++) {
    const focused = await page.evaluate(() => {
      const element = document.activeElement
      if (!(element instanceof HTMLElement)) return ''
      const label = element instanceof HTMLInputElement ? element.labels?.[0]?.textContent : undefined
      return (element.ariaLabel ?? label ?? element.textContent ?? '').trim()
    })
    if (focused.startsWith(name)) return
    seen.push(focused)
    await page.keyboard.press('Tab')
  }
  throw new Error(`${name} is not reached by Tab, only ${seen.join(' | ')}`)
}
