/** Looking through folders in the console. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { eventually, withoutBrowser } from './browser.js'
import { failingStorages, manyEntries } from './failing-storages.js'
import { button, files, goTo, namesShown, rowOf, startSite, visit } from './site.js'

void t.test('browsing', { skip: withoutBrowser }, async (t) => {
  const site = await startSite(t, { driverTypes: failingStorages })
  const { folder, call } = site
  await mkdir(join(folder, 'photos', 'summer 100% ä'), { recursive: true })
  await writeFile(join(folder, 'photos', 'b.txt'), 'bb')
  await writeFile(join(folder, 'photos', 'A.txt'), 'aaa')
  await writeFile(join(folder, 'photos', 'c.bin'), 'c')
  await mkdir(join(folder, 'deep', 'deeper'), { recursive: true })
  await mkdir(join(folder, '@login'))

  await t.test('the listing is a grid with a row for each entry', (t) =>
    visit(t, site, { at: '/photos' }, async (page) => {
      await rowOf(page, 'A.txt').waitFor()
      t.equal(await files(page).getAttribute('aria-rowcount'), '5', 'with the titles of the columns')
      t.strictSame(await files(page).getByRole('columnheader').allTextContents(), ['', 'Name', 'Size', 'Modified'])
      t.equal(await page.locator('[role=columnheader][aria-sort=ascending]').textContent(), 'Name')
      t.strictSame(await namesShown(page), ['summer 100% ä', 'A.txt', 'b.txt', 'c.bin'])
      t.match(await rowOf(page, 'b.txt').getAttribute('aria-label'), /^b\.txt, 2 bytes, /)
    }),
  )

  await t.test('folders open by a click, and the address, the path and the back button follow', (t) =>
    visit(t, site, {}, async (page) => {
      await rowOf(page, 'photos').click()
      await rowOf(page, 'summer 100% ä').click()
      await page.getByText('This folder is empty.').waitFor()
      t.equal(new URL(page.url()).pathname, '/photos/summer%20100%25%20%C3%A4')
      const path = page.getByRole('navigation', { name: 'Path' })
      t.strictSame(await path.getByRole('link').allTextContents(), ['Home', 'photos', 'summer 100% ä'])
      // The title is set after the page has been painted.
      await page.waitForFunction(() => document.title === '/photos/summer 100% ä – Tidegate')
      await page.goBack()
      await rowOf(page, 'b.txt').waitFor()
      await page.goBack()
      await rowOf(page, 'deep').waitFor()
      await page.goForward()
      await rowOf(page, 'b.txt').waitFor()
      await path.getByRole('link', { name: 'Home' }).click()
      await rowOf(page, 'deep').waitFor()
      await page.reload()
      await rowOf(page, 'deep').waitFor()
      await page.goto('/photos/summer%20100%25%20%C3%A4')
      await page.getByText('This folder is empty.').waitFor()
    }),
  )

  await t.test('a folder whose name is the address of a page opens', (t) =>
    visit(t, site, {}, async (page) => {
      await rowOf(page, '@login').click()
      await page.getByText('This folder is empty.').waitFor()
      await page.reload()
      await page.getByText('This folder is empty.').waitFor()
      await button(page, 'Sign out').waitFor()
    }),
  )

  await t.test('folders whose names the server uses open at their address', async (t) => {
    const names = ['api', 'd', 'dav', 'livez', 'metrics', 'p', 'ping', 'readyz', 'robots.txt', 'static', 'd@']
    for (const name of names) await mkdir(join(folder, name, `in ${name}`), { recursive: true })
    await visit(t, site, {}, async (page) => {
      for (const name of names) {
        await rowOf(page, `${name},`).click()
        await rowOf(page, `in ${name}`).click()
        await page.getByText('This folder is empty.').waitFor()
        t.equal(
          new URL(page.url()).pathname,
          `${name === 'd@' ? '/d%40' : `/@/${name}`}/in%20${name.replace('@', '%40')}`,
        )
        await page.reload()
        await page.getByText('This folder is empty.').waitFor()
        await page.getByRole('navigation', { name: 'Path' }).getByRole('link', { name, exact: true }).click()
        await rowOf(page, `in ${name}`).waitFor()
        await page.reload()
        await rowOf(page, `in ${name}`).waitFor()
        await page.getByRole('link', { name: 'Home' }).click()
      }
    })
  })

  await t.test('entries are sorted by each column in both directions, folders first', (t) =>
    visit(t, site, { at: '/photos' }, async (page) => {
      await rowOf(page, 'A.txt').waitFor()
      const sorted = async (column: string, expected: readonly string[]) => {
        await button(page, `Sort by ${column}`).click()
        await page.waitForFunction(
          (name) => document.querySelector('[role=row][aria-rowindex="3"] .name')?.textContent === name,
          expected[1],
        )
        await eventually(t, () => namesShown(page), expected, column)
      }
      await sorted('Size', ['summer 100% ä', 'c.bin', 'b.txt', 'A.txt'])
      await sorted('Size', ['summer 100% ä', 'A.txt', 'b.txt', 'c.bin'])
      await button(page, 'Sort by Name').click()
      await sorted('Name', ['summer 100% ä', 'c.bin', 'b.txt', 'A.txt'])
    }),
  )

  await t.test('the filter leaves the entries with a text in their name', (t) =>
    visit(t, site, { at: '/photos' }, async (page) => {
      await rowOf(page, 'A.txt').waitFor()
      const filter = page.getByRole('textbox', { name: 'Filter this folder' })
      await filter.fill('.TXT')
      await rowOf(page, 'c.bin').waitFor({ state: 'detached' })
      await eventually(t, () => namesShown(page), ['A.txt', 'b.txt'])
      await eventually(t, () => files(page).getAttribute('aria-rowcount'), '3')
      await filter.fill('nothing of this name')
      await page.getByText('No entry matches the filter.').waitFor()
      await filter.fill('')
      await rowOf(page, 'c.bin').waitFor()
    }),
  )

  await t.test('the grid is used by keys alone', (t) =>
    visit(t, site, { at: '/photos' }, async (page) => {
      await rowOf(page, 'A.txt').waitFor()
      await rowOf(page, 'summer').focus()
      await page.keyboard.press('ArrowDown')
      await page.keyboard.press('Shift+ArrowDown')
      const selected = files(page).getByRole('row', { selected: true })
      await eventually(t, () => selected.count(), 2)
      await page.keyboard.press('Escape')
      await eventually(t, () => selected.count(), 0)
      await page.keyboard.press('Control+a')
      await page.getByText('4 selected').waitFor()
      await page.keyboard.press('Escape')
      await eventually(t, () => selected.count(), 0)
      await page.keyboard.press('End')
      await page.keyboard.press('Space')
      await files(page)
        .getByRole('row', { selected: true, name: /^c\.bin/ })
        .waitFor()
      await page.keyboard.press('Shift+F10')
      const menu = page.getByRole('menu', { name: 'Actions' })
      await menu.waitFor()
      await page.keyboard.press('Escape')
      await menu.waitFor({ state: 'detached' })
      await page.keyboard.press('Home')
      await page.keyboard.press('Enter')
      await page.getByText('This folder is empty.').waitFor()
      await page.goBack()
      await rowOf(page, 'A.txt').focus()
      await page.keyboard.press('Backspace')
      await rowOf(page, 'deep').waitFor()
    }),
  )

  await t.test('the first Tab leads to the content, past the bar', (t) =>
    visit(t, site, { at: '/photos' }, async (page) => {
      await rowOf(page, 'A.txt').waitFor()
      await page.keyboard.press('Tab')
      await button(page, 'Skip to the content').and(page.locator(':focus')).waitFor()
      await page.keyboard.press('Enter')
      await page.locator('main:focus').waitFor()
      await page.keyboard.press('Tab')
      await page.locator('main :focus').waitFor()
      t.equal(await page.locator('main').getAttribute('tabindex'), null, 'a click does not give it the focus')
    }),
  )

  await t.test('the menu of the mouse has the actions of the selected entries', (t) =>
    visit(t, site, { at: '/photos' }, async (page) => {
      await rowOf(page, 'b.txt').click({ button: 'right' })
      const items = page.getByRole('menu', { name: 'Actions' }).getByRole('menuitem')
      await items.first().waitFor()
      const names = await items.allTextContents()
      for (const name of ['Open', 'Download', 'Rename', 'Move', 'Copy', 'Delete']) t.ok(names.includes(name), name)
      await items.filter({ hasText: 'Open' }).click()
      await page.getByRole('heading', { name: 'b.txt' }).waitFor()
    }),
  )

  await t.test('files are shown as tiles, also after the page is loaded again', (t) =>
    visit(t, site, { at: '/photos' }, async (page) => {
      await button(page, 'Show as tiles').click()
      await button(page, 'Show as a list').waitFor()
      await page.reload()
      await button(page, 'Show as a list').waitFor()
      await rowOf(page, 'A.txt').waitFor()
      await eventually(t, () => files(page).getByRole('row').count(), 5)
    }),
  )

  await t.test('colors and the height of rows are chosen in the profile, and kept', (t) =>
    visit(t, site, { at: '/@profile', colors: 'light' }, async (page) => {
      const ground = () => page.evaluate('getComputedStyle(document.body).backgroundColor')
      const height = async () => (await rowOf(page, 'photos').boundingBox())?.height
      await page.getByRole('combobox', { name: 'Colors' }).selectOption('Dark')
      await goTo(page, 'Files')
      await eventually(t, height, 32)
      t.equal(await ground(), 'rgb(22, 24, 29)')
      await goTo(page, 'Profile')
      await page.getByRole('combobox', { name: 'Rows of lists' }).selectOption('Comfortable')
      await page.goto('/')
      await eventually(t, height, 40)
      t.equal(await ground(), 'rgb(22, 24, 29)')
      await page.emulateMedia({ colorScheme: 'light' })
      t.equal(await ground(), 'rgb(22, 24, 29)', 'whatever the system has')
    }),
  )

  await t.test('what fingers tap is at least 44 pixels high', (t) =>
    visit(t, site, { at: '/photos', width: 390 }, async (page) => {
      const session = await page.context().newCDPSession(page)
      await session.send('Emulation.setTouchEmulationEnabled', { enabled: true })
      await page.reload()
      await rowOf(page, 'A.txt').waitFor()
      const tapped = 'button, .button, .brand, select, nav a, [role=row], input:not([type=checkbox])'
      const small = await page.evaluate<readonly string[]>(`
        [...document.querySelectorAll(${JSON.stringify(tapped)})]
          .filter((each) => each.checkVisibility() && each.getBoundingClientRect().height < 44)
          .map(({ outerHTML }) => outerHTML.slice(0, 100))
      `)
      t.strictSame(small, [])
      await rowOf(page, 'A.txt').click({ position: { x: 20, y: 40 } })
      await page.getByText('1 selected').waitFor()
    }),
  )

  await t.test('an entry that another program adds is shown after Refresh', (t) =>
    visit(t, site, { at: '/deep' }, async (page) => {
      await rowOf(page, 'deeper').waitFor()
      await writeFile(join(folder, 'deep', 'new.txt'), '')
      await button(page, 'Refresh').click()
      await rowOf(page, 'new.txt').waitFor()
    }),
  )

  await t.test('a folder with a password asks for it in its place', async (t) => {
    await call('/api/admin/meta/create', { path: '/deep/deeper', password: 'of the folder', p_sub: true })
    const user = { username: 'reader', password: 'password' }
    await call('/api/admin/user/create', { ...user, base_path: '/', role: 0, permission: 0xff8, disabled: false })
    await visit(t, site, { user, at: '/deep' }, async (page) => {
      await rowOf(page, 'deeper').click()
      await page.getByRole('heading', { name: 'Password of the folder' }).waitFor()
      await page.getByRole('textbox', { name: 'Password' }).fill('wrong')
      await button(page, 'Open folder').click()
      await page.getByRole('alert').getByText('The password is wrong').waitFor()
      await page.getByRole('textbox', { name: 'Password' }).fill('of the folder')
      await button(page, 'Open folder').click()
      await page.getByText('This folder is empty.').waitFor()
    })
  })

  await t.test('text of folder rules is shown above and below the files', async (t) => {
    await call('/api/admin/meta/create', { path: '/photos', header: '# Above', readme: 'See **below**.' })
    await visit(t, site, { at: '/photos' }, async (page) => {
      await page.getByRole('heading', { name: 'Above' }).waitFor()
      await page.locator('strong', { hasText: 'below' }).waitFor()
    })
  })

  await t.test('what does not exist is reported in its place, and the rest stays usable', (t) =>
    visit(t, site, { at: '/nothing/here' }, async (page) => {
      await page.getByRole('alert').getByText('This folder cannot be shown').waitFor()
      await page.getByRole('navigation', { name: 'Path' }).getByRole('link', { name: 'Home' }).click()
      await rowOf(page, 'photos').waitFor()
    }),
  )

  await t.test('the failure of a storage is shown in its place, and passes', async (t) => {
    await call('/api/admin/storage/create', {
      mount_path: '/failing',
      driver: 'Failing',
      cache_expiration: 0,
      addition: '{}',
    })
    await visit(t, site, {}, async (page) => {
      await rowOf(page, 'failing').click()
      const alert = page.getByRole('alert').filter({ hasText: 'This folder cannot be shown' })
      await alert.getByText('the disk is on strike').waitFor()
      await page.getByRole('link', { name: 'Home' }).click()
      await rowOf(page, 'photos').waitFor()
    })
  })

  await t.test('a storage that cannot start is shown in its place, with the reason', async (t) => {
    const addition = JSON.stringify({ root_folder_path: join(folder, 'missing') })
    const storage = { mount_path: '/broken', driver: 'Local', cache_expiration: 0, addition }
    await call('/api/admin/storage/create', storage).catch(() => undefined)
    await visit(t, site, { at: '/broken' }, async (page) => {
      await page.getByRole('alert').getByText('This folder cannot be shown').waitFor()
      await page.getByRole('link', { name: 'Home' }).click()
      await rowOf(page, 'photos').waitFor()
    })
  })

  await t.test('a slow storage says that it loads, and other folders stay usable meanwhile', async (t) => {
    await call('/api/admin/storage/create', {
      mount_path: '/slow',
      driver: 'Slow',
      cache_expiration: 0,
      addition: '{}',
    })
    await visit(t, site, { at: '/' }, async (page) => {
      await rowOf(page, 'slow').click()
      await page.goBack()
      await rowOf(page, 'photos').click()
      await rowOf(page, 'A.txt').waitFor()
      await page.goto('/slow')
      await page.getByText('This folder is empty.').waitFor()
    })
  })

  await t.test(`a folder of ${manyEntries} entries has only the rows in view`, async (t) => {
    await call('/api/admin/storage/create', {
      mount_path: '/many',
      driver: 'Many',
      cache_expiration: 30,
      addition: '{}',
    })
    await visit(t, site, { at: '/many' }, async (page) => {
      await rowOf(page, 'file 000000').waitFor()
      t.equal(await files(page).getAttribute('aria-rowcount'), String(manyEntries + 1))
      t.ok((await files(page).getByRole('row').count()) < 100)
      let requested = 0
      page.on('request', (request) => {
        if (request.url().endsWith('/api/fs/list')) requested++
      })
      await rowOf(page, 'file 000000').focus()
      await page.keyboard.press('End')
      await rowOf(page, 'file 099999').waitFor()
      await files(page)
        .locator(`[aria-rowindex="${manyEntries + 1}"]:focus`)
        .waitFor()
      await page.keyboard.press('Home')
      await rowOf(page, 'file 000000').waitFor()
      t.ok(requested < 20, `pages in between are not requested: ${requested}`)
      t.ok((await files(page).getByRole('row').count()) < 100)
      await page.getByRole('checkbox', { name: 'Select all' }).click()
      await page.getByText('100,000 selected').waitFor()
      await rowOf(page, 'file 000000').getByRole('checkbox').uncheck()
      await button(page, 'Download').click()
      await page.getByText('Too many entries are selected for one archive').waitFor()
      await page.getByRole('textbox', { name: 'Filter this folder' }).fill('7777')
      await rowOf(page, 'file 007777').waitFor()
      await eventually(t, () => files(page).getAttribute('aria-rowcount'), '20')
    })
  })
})
