/** Changing what is in a folder, in the console. */
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
  await mkdir(join(folder, 'target'))
  for (const name of ['one.txt', 'two.txt', 'three.txt', 'four.txt']) await writeFile(join(folder, name), name)

  const said = (page: Page, text: string | RegExp) => page.getByRole('status').getByText(text).waitFor()

  await t.test('a dialog has its title as name, a button of the action, and Cancel; what is behind is inert', (t) =>
    visit(t, site, {}, async (page) => {
      await selectEntries(page, 'one.txt')
      for (const action of ['New folder', 'Rename', 'Move', 'Copy', 'Delete']) {
        await button(page, action).click()
        const opened = dialog(page, action)
        await opened.waitFor()
        t.ok(await opened.getByRole('button', { name: action, exact: true }).first().isVisible(), action)
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
      await button(page, 'New folder').click()
      await dialog(page, 'New folder').waitFor()
      await page.keyboard.press('Escape')
      await dialog(page, 'New folder').waitFor({ state: 'detached' })
      t.strictSame((await readdir(folder)).sort(), ['four.txt', 'one.txt', 'target', 'three.txt', 'two.txt'])
    }),
  )

  await t.test('a folder is created; one whose name is taken is refused in the dialog', (t) =>
    visit(t, site, {}, async (page) => {
      await button(page, 'New folder').click()
      const opened = dialog(page, 'New folder')
      await opened.getByRole('textbox', { name: 'Name' }).fill('target')
      await opened.getByRole('button', { name: 'New folder' }).click()
      await opened.getByRole('alert').getByText('“target” exists already.').waitFor()
      await opened.getByRole('textbox', { name: 'Name' }).fill('ä # % ?')
      await opened.getByRole('button', { name: 'New folder' }).click()
      await said(page, 'The folder “ä # % ?” is created.')
      await rowOf(page, 'ä # %').waitFor()
      t.ok(existsSync(join(folder, 'ä # % ?')))
    }),
  )

  await t.test('an entry is renamed; a taken name is refused in the dialog', (t) =>
    visit(t, site, {}, async (page) => {
      await selectEntries(page, 'one.txt')
      await button(page, 'Rename').click()
      const opened = dialog(page, 'Rename')
      const name = opened.getByRole('textbox', { name: 'Name' })
      await name.fill('two.txt')
      await opened.getByRole('button', { name: 'Rename' }).click()
      await opened.getByRole('alert').waitFor()
      await name.fill('renamed.txt')
      await opened.getByRole('button', { name: 'Rename' }).click()
      await said(page, '“one.txt” is now “renamed.txt”.')
      await rowOf(page, 'renamed.txt').waitFor()
      t.equal(await rowOf(page, 'one.txt').count(), 0)
      t.equal(await readFile(join(folder, 'renamed.txt'), 'utf8'), 'one.txt')
      t.equal(await readFile(join(folder, 'two.txt'), 'utf8'), 'two.txt')
    }),
  )

  await t.test('entries are moved and copied to a folder of the tree', (t) =>
    visit(t, site, {}, async (page) => {
      const transfer = async (action: 'Move' | 'Copy', ...names: readonly string[]) => {
        await selectEntries(page, ...names)
        await button(page, action).click()
        const opened = dialog(page, action)
        await opened.getByRole('treeitem', { name: 'target' }).click()
        await opened.getByRole('button', { name: action, exact: true }).click()
        await opened.waitFor({ state: 'detached' })
      }
      await transfer('Move', 'renamed.txt', 'two.txt')
      await rowOf(page, 'two.txt').waitFor({ state: 'detached' })
      await transfer('Copy', 'three.txt')
      await rowOf(page, 'target').click()
      await rowOf(page, 'three.txt').waitFor()
      await rowOf(page, 'renamed.txt').waitFor()
      await rowOf(page, 'two.txt').waitFor()
      t.strictSame((await readdir(join(folder, 'target'))).sort(), ['renamed.txt', 'three.txt', 'two.txt'])
      t.equal(await readFile(join(folder, 'three.txt'), 'utf8'), 'three.txt')
    }),
  )

  await t.test('several entries are renamed by a pattern, with a preview', (t) =>
    visit(t, site, { at: '/target' }, async (page) => {
      await selectEntries(page, 'three.txt', 'two.txt')
      await button(page, 'Rename').click()
      const opened = dialog(page, 'Rename')
      await opened.getByRole('textbox', { name: 'Find' }).fill('t')
      await opened.getByRole('textbox', { name: 'Replace with' }).fill('T')
      await opened.getByText('2 of 2 names change.').waitFor()
      await opened.getByRole('button', { name: 'Rename' }).click()
      await said(page, '2 entries are renamed.')
      await rowOf(page, 'Two').waitFor()
      t.equal((await readdir(join(folder, 'target'))).filter((name) => name.startsWith('T')).length, 2)
    }),
  )

  await t.test('entries are deleted after a question', (t) =>
    visit(t, site, {}, async (page) => {
      await selectEntries(page, 'target', 'four.txt')
      await button(page, 'Delete').click()
      const opened = dialog(page, 'Delete')
      await opened.getByRole('listitem').first().waitFor()
      t.strictSame((await opened.getByRole('listitem').allTextContents()).sort(), ['four.txt', 'target'])
      await opened.getByRole('button', { name: 'Cancel' }).click()
      t.ok(existsSync(join(folder, 'target')))
      await button(page, 'Delete').click()
      await opened.getByRole('button', { name: 'Delete' }).click()
      await said(page, '2 entries are deleted.')
      await rowOf(page, 'target').waitFor({ state: 'detached' })
      t.notOk(existsSync(join(folder, 'target')))
      t.notOk(existsSync(join(folder, 'four.txt')))
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
      await selectEntries(page, 'three.txt')
      await button(page, 'Move').click()
      const opened = dialog(page, 'Move')
      await opened.getByRole('treeitem', { name: 'failing' }).click()
      await opened.getByRole('button', { name: 'Move', exact: true }).click()
      await opened.getByRole('alert').waitFor()
      await opened.getByRole('button', { name: 'Cancel' }).click()
      t.ok(existsSync(join(folder, 'three.txt')))
    })
  })

  await t.test('a user without permissions is offered no change', async (t) => {
    const user = { username: 'reader', password: 'password' }
    await call('/api/admin/user/create', { ...user, base_path: '/', role: 0, permission: 0, disabled: false })
    await visit(t, site, { user }, async (page) => {
      await selectEntries(page, 'three.txt')
      for (const name of ['Upload', 'New folder', 'Rename', 'Move', 'Copy', 'Delete']) {
        t.ok(await button(page, name).isDisabled(), name)
      }
      t.ok(await button(page, 'Download').isEnabled())
      await page.keyboard.press('Delete')
      t.equal(await page.getByRole('dialog').count(), 0)
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
