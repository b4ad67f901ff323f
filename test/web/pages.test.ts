/** The pages beside the files: profile, tasks, administration and the first steps. */
import { once } from 'node:events'
import { mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import { memoryType } from '../../drivers/memory/index.js'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import { permissionBits } from '../../src/accounts/principal.js'
import { GatewayError } from '../../src/base/errors.js'
import { asPath } from '../../src/base/path.js'
import { byteSource } from '../../src/contract/sources.js'
import { startScripted } from '../offline-downloads/scripted-server.js'
import { keyLine } from '../protocols/http/key-line.js'
import { altered } from '../tree/tree-fixture.js'
import { axeViolations, eventually, openPage, signIn, withoutBrowser } from './browser.js'
import { button, createUser, dialog, files, goTo, rowOf, sideBar, startSite, tableRow, visit } from './site.js'

/** What reads of the storage `Held` do: stop in the middle of a file, fail, or succeed. */
let reads: 'stop' | 'fail' | 'succeed' = 'succeed'

const half = Buffer.alloc(1_000_000)

/** A storage with the file `film`, of two halves. */
const held: AnyDriverType = {
  ...memoryType,
  name: 'Held',
  open: async () => {
    const driver = new MemoryDriver(0, true)
    await driver.write(asPath('/film'), byteSource(Buffer.concat([half, half])))
    return altered(driver, {
      read: async (_path, _range, { signal } = {}) => {
        if (reads === 'fail') throw new GatewayError('denied', { reason: 'the film is worn' })
        const stops = reads === 'stop'
        const halves = async function* () {
          yield half
          if (stops && signal) await once(signal, 'abort')
          yield half
        }
        return Readable.from(halves(), { objectMode: false, signal })
      },
    })
  },
}

void t.test('pages', { skip: withoutBrowser }, async (t) => {
  const site = await startSite(t, { driverTypes: [held] })
  const { call, folder, gateway } = site
  const profileOf = async (username: string) => {
    await createUser(site, username)
    return { user: { username, password: 'password' }, at: '/@profile' }
  }

  await t.test('a user changes the password, stays signed in, and other sessions end', async (t) => {
    const options = await profileOf('changes')
    await visit(t, site, options, (other) =>
      visit(t, site, options, async (page) => {
        const enter = async (password: string, repeated: string) => {
          await page.getByLabel('New password', { exact: true }).fill(password)
          await page.getByLabel('Repeat the new password').fill(repeated)
          await button(page, 'Change the password').click()
        }
        await enter('another', 'an other')
        await page.getByRole('alert').getByText('The passwords are not the same.').waitFor()
        await enter('another', 'another')
        await page.getByRole('status').getByText('The password is changed.').waitFor()
        await page.getByRole('alert').waitFor({ state: 'detached' })
        await page.reload()
        await page.getByRole('table', { name: 'Sessions' }).getByText('(this one)').waitFor()
        await other.reload()
        await button(other, 'Sign in').waitFor()
        await t.rejects(call('/api/auth/login', options.user), /400/)
        await call('/api/auth/login', { ...options.user, password: 'another' })
      }),
    )
  })

  await t.test('a pasted SSH key is listed with its fingerprint until it is removed', async (t) =>
    visit(t, site, await profileOf('keys'), async (page) => {
      await button(page, 'Add an SSH key').click()
      const form = dialog(page, 'Add an SSH key')
      await form.getByRole('textbox', { name: 'Public key' }).fill('not a key')
      await form.getByRole('button', { name: 'Add' }).click()
      await form.getByRole('alert').waitFor()
      await form.getByRole('textbox', { name: 'Public key' }).fill(keyLine())
      await form.getByRole('button', { name: 'Add' }).click()
      const row = tableRow(page, 'SSH keys', 'ann@laptop')
      t.match(await row.locator('code').textContent(), /^SHA256:[\w+/]{43}$/)
      await row.getByText('never').waitFor()
      await row.getByRole('button').click()
      await dialog(page, 'Remove the SSH key').getByRole('button', { name: 'Delete' }).click()
      await row.waitFor({ state: 'detached' })
    }),
  )

  await t.test('the profile shows the ways to mount that the user may use', async (t) => {
    const options = await profileOf('mounts')
    const user = gateway.accounts.users.byName('mounts')
    await visit(t, site, options, async (page) => {
      await page.getByRole('combobox', { name: 'Your system' }).selectOption('Linux')
      await page.getByText('buf_size 64').waitFor()
      await page.getByText(`uid=$(id -u),gid=$(id -g) ${site.davUrl} `).waitFor()
      await page.getByText(`sftp -P ${site.sftpPort} mounts@127.0.0.1`).waitFor()
      await gateway.accounts.users.update(user?.id ?? 0, { permission: permissionBits.sftpRead })
      await page.reload()
      await page.getByText(`sftp -P ${site.sftpPort} mounts@127.0.0.1`).waitFor()
      t.equal(await page.getByText(site.davUrl).count(), 0)
    })
  })

  await t.test('an app password is shown once, and opens WebDAV until it is removed', async (t) =>
    visit(t, site, await profileOf('programs'), async (page) => {
      await button(page, 'Create an app password').click()
      const form = dialog(page, 'Create an app password')
      await form.getByRole('textbox', { name: 'Name' }).fill('laptop')
      await form.getByRole('checkbox', { name: 'SFTP' }).uncheck()
      await form.getByRole('checkbox', { name: 'Only for reading' }).check()
      await form.getByRole('button', { name: 'Add' }).click()
      const shown = dialog(page, 'The new app password')
      const password = (await shown.locator('code').textContent()) ?? ''
      t.strictSame(await axeViolations(page), [])
      await shown.getByRole('button', { name: 'Close' }).click()
      await shown.waitFor({ state: 'detached' })
      const row = tableRow(page, 'App passwords', 'laptop')
      await row.getByText('WebDAV (Only for reading)').waitFor()
      t.notMatch(await page.locator('main').textContent(), password)
      const authorization = `Basic ${Buffer.from(`programs:${password}`).toString('base64')}`
      const status = async () => (await fetch(site.davUrl, { method: 'PROPFIND', headers: { authorization } })).status
      t.equal(await status(), 207)
      await row.getByRole('button').click()
      await dialog(page, 'Remove the app password').getByRole('button', { name: 'Delete' }).click()
      await row.waitFor({ state: 'detached' })
      t.equal(await status(), 401)
    }),
  )

  await t.test('the sessions are listed, and each can be ended', async (t) => {
    const options = await profileOf('sessions')
    await visit(t, site, options, (other) =>
      visit(t, site, options, async (page) => {
        const rows = page.getByRole('table', { name: 'Sessions' }).getByRole('row')
        await rows.getByText('(this one)').waitFor()
        await eventually(t, () => rows.count(), 3, 'two, and the head')
        await rows.filter({ hasText: 'Chrom' }).filter({ hasNotText: '(this one)' }).getByRole('button').click()
        await rows.nth(2).waitFor({ state: 'detached' })
        await other.reload()
        await button(other, 'Sign in').waitFor()
        await rows.getByRole('button').click()
        await button(page, 'Sign in').waitFor()
      }),
    )
  })

  await t.test('tasks show their progress, and are canceled and retried', async (t) => {
    await call('/api/admin/storage/create', { mount_path: '/held', driver: 'Held', addition: '{}' })
    const copy = async (to: string) => {
      await mkdir(join(folder, to))
      await call('/api/fs/copy', { src_dir: '/held', dst_dir: `/${to}`, names: ['film'] })
    }
    await visit(t, site, { at: '/@tasks' }, async (page) => {
      await page.getByText('Nothing is in progress.').waitFor()
      const task = (name: string) => page.getByRole('listitem').filter({ hasText: `/${name}` })

      reads = 'stop'
      await copy('stopped')
      const progress = task('stopped').getByRole('progressbar')
      await progress.waitFor()
      await task('stopped').getByText('50% of 2 MB').waitFor()
      await task('stopped').getByText('Copy /held/film to /stopped', { exact: true }).waitFor()
      t.equal(await progress.getAttribute('value'), '50')
      const count = sideBar(page).locator('.place-count')
      await count.getByText('1').waitFor()
      t.equal(await count.textContent(), '1 in progress', 'the side bar says how many')
      const place = sideBar(page).getByRole('link', { name: 'Tasks', exact: true })
      t.equal(await place.getAttribute('aria-describedby'), await count.getAttribute('id'))
      t.strictSame(await axeViolations(page), [], 'a running task')
      await task('stopped').getByRole('button', { name: 'Cancel' }).click()
      await task('stopped').getByText('canceled', { exact: true }).waitFor()

      reads = 'fail'
      await copy('failed')
      await task('failed').getByText('failed', { exact: true }).waitFor()
      await task('failed').getByText('the film is worn').waitFor()
      await task('failed').getByRole('button', { name: 'Show what failed' }).click()
      await task('failed').getByRole('listitem').getByText('the film is worn').waitFor()
      t.strictSame(await axeViolations(page), [], 'what failed')

      reads = 'succeed'
      for (const name of ['stopped', 'failed']) {
        await task(name).getByRole('button', { name: 'Retry' }).click()
        await task(name).getByText('succeeded').waitFor()
      }
      await button(page, 'Remove all finished').click()
      await page.getByText('Nothing has finished lately.').waitFor()
      await count.waitFor({ state: 'detached' })
      await goTo(page, 'Files')
      await rowOf(page, 'failed').click()
      await rowOf(page, 'film').waitFor()
    })
  })

  await t.test('a storage is added by its form, disabled and enabled', async (t) => {
    await mkdir(join(folder, 'disk', 'inner'), { recursive: true })
    await visit(t, site, { at: '/@manage/storages' }, async (page) => {
      await button(page, 'Add a storage').click()
      const form = (title: string) => page.getByRole('dialog', { name: title })
      await form('Add a storage').getByRole('combobox', { name: 'Driver' }).selectOption('Local')
      await form('Add a storage').getByRole('textbox', { name: 'Mount path' }).fill('/added')
      const root = (title: string) => form(title).getByRole('textbox', { name: 'Folder on this machine' })
      await root('Add a storage').fill(join(folder, 'missing'))
      await form('Add a storage').getByRole('button', { name: 'Save' }).click()
      await form('Add a storage').getByRole('alert').getByText('Something here is not right. It says: root').waitFor()
      t.match(await call('/api/admin/storage/list'), { total: 2 }, 'it is not stored')
      await form('Add a storage').getByRole('button', { name: 'Save anyway' }).click()
      await form('Edit /added').getByRole('alert').getByText('The storage is added, but it does not start').waitFor()
      await form('Edit /added').getByRole('button', { name: 'Delete storage' }).click()
      await form('Edit /added').waitFor({ state: 'detached' })
      const row = tableRow(page, 'Storages', '/added')
      await row.waitFor({ state: 'detached' })
      await button(page, 'Add a storage').click()
      await form('Add a storage').getByRole('textbox', { name: 'Mount path' }).fill('added')
      await eventually(t, () => root('Add a storage').inputValue(), '')
      await root('Add a storage').fill(join(folder, 'missing'))
      await form('Add a storage').getByRole('button', { name: 'Save' }).click()
      await form('Add a storage').getByRole('button', { name: 'Save anyway' }).click()
      await form('Edit /added').getByRole('alert').waitFor()
      await root('Edit /added').fill(join(folder, 'disk'))
      await form('Edit /added').getByRole('button', { name: 'Save' }).click()
      await row.getByRole('cell', { name: 'works' }).waitFor()
      await row.getByRole('button', { name: 'Test' }).click()
      await page.getByRole('status').getByText('The backend of /added can be reached.').waitFor()
      const names = async () => {
        const { content } = (await call('/api/fs/list', { path: '/' })) as { content: { name: string }[] }
        return content.map(({ name }) => name)
      }
      t.ok((await names()).includes('added'))
      await button(page, 'Add a storage').click()
      await form('Add a storage').getByRole('textbox', { name: 'Mount path' }).fill('/added')
      await root('Add a storage').fill(join(folder, 'disk'))
      await form('Add a storage').getByRole('button', { name: 'Save' }).click()
      await form('Add a storage').getByRole('alert').waitFor()
      t.equal(await form('Edit /added').count(), 0, 'the form does not go on with another storage')
      await form('Add a storage').getByRole('button', { name: 'Cancel' }).click()
      await row.getByRole('button', { name: 'Disable' }).click()
      await row.getByRole('cell', { name: 'disabled' }).waitFor()
      t.notOk((await names()).includes('added'))
      await row.getByRole('button', { name: 'Enable' }).click()
      await row.getByRole('cell', { name: 'works' }).waitFor()
      const space = page.getByRole('columnheader', { name: 'Space' })
      t.equal(await space.count(), 0, 'a setting hides it')
      await gateway.settings.set(new Map([['hide_storage_details_in_manage_page', 'false']]))
      await page.reload()
      await row.getByText(/^[\d.]+ \w+ of [\d.]+ \w+ free$/).waitFor()
      await goTo(page, 'Files')
      await rowOf(page, 'added').click()
      await rowOf(page, 'inner').waitFor()
      await rm(join(folder, 'disk'), { recursive: true })
      await page.goto('/@manage/storages')
      await row.getByRole('cell', { name: /^The backend answers, but the folder is not there/ }).waitFor()
    })
  })

  await t.test('the form of a storage says what its fields are, and tests what is entered', async (t) => {
    await mkdir(join(folder, 'films'))
    await visit(t, site, { at: '/@manage/storages' }, async (page) => {
      await button(page, 'Add a storage').click()
      const form = dialog(page, 'Add a storage')
      const driver = form.getByRole('combobox', { name: 'Driver' })
      for (const name of await driver.getByRole('option').allTextContents()) {
        await driver.selectOption(name)
        if (name === 'Held') continue
        await form.getByRole('link', { name: `Documentation of ${name}` }).waitFor()
        const shown = form.locator('input:visible, textarea:visible, select:visible')
        t.ok((await shown.count()) <= 6, `${name}: the driver, and at most five fields`)
        const more = form.getByText('More options')
        await more.click()
        t.strictSame(await axeViolations(page), [], name)
        t.equal(await form.locator('label[lang], p[lang]:not(.notice)').count(), 0, `${name}: nothing is of the server`)
        await more.click()
      }
      await driver.selectOption('SFTP')
      await form.getByRole('textbox', { name: 'Mount path' }).fill('/films')
      t.equal(await form.getByLabel('Password', { exact: true }).getAttribute('type'), 'password')
      await form.getByRole('button', { name: 'Test' }).click()
      t.equal(
        await form
          .getByRole('textbox', { name: 'Address', exact: true })
          .evaluate((input) => input === document.activeElement),
        true,
        'required',
      )
      await form.getByRole('textbox', { name: 'Address', exact: true }).fill('127.0.0.1:1')
      await form.getByLabel('User name').fill('ann')
      await form.getByRole('button', { name: 'Test' }).click()
      await form.getByRole('alert').getByText('The backend cannot be used. Check the address').waitFor()
      t.strictSame(await axeViolations(page), [], 'a failed test')
      await form.getByLabel('Password', { exact: true }).fill('another')
      await form.getByRole('alert').waitFor({ state: 'detached' })

      await driver.selectOption('AliyundriveOpen')
      await form.getByLabel('Refresh token').fill('once')
      await form.getByText('What you have entered can be used once').waitFor()
      t.equal(await form.getByRole('button', { name: 'Test' }).count(), 0)

      await driver.selectOption('Alias')
      await form.getByRole('button', { name: 'Add a folder' }).click()
      await form.getByRole('treeitem', { name: 'films' }).click()
      await form.getByRole('button', { name: 'Add /films' }).click()
      t.equal(await form.getByRole('textbox', { name: 'Folders' }).inputValue(), '/films')
      await form.getByRole('button', { name: 'Test' }).click()
      await form.getByRole('status').getByText('The storage answers.').waitFor()
      t.strictSame(await axeViolations(page), [], 'a test that succeeds')
      await form.getByRole('textbox', { name: 'Mount path' }).fill('/seen')
      await form.getByRole('status').getByText('The storage answers.').waitFor({ state: 'detached' })
      await form.getByRole('button', { name: 'Save' }).click()
      await tableRow(page, 'Storages', '/seen').getByRole('cell', { name: 'works' }).waitFor()
      await button(page, 'Edit /seen').click()
      await dialog(page, 'Edit /seen').getByRole('textbox', { name: 'Folders' }).fill('/gone')
      await dialog(page, 'Edit /seen').getByRole('button', { name: 'Save' }).click()
      await dialog(page, 'Edit /seen').getByRole('alert').getByText('the folder is not there').waitFor()
    })
  })

  await t.test('a permanent token that is replaced is shown once', (t) =>
    visit(t, site, { at: '/@manage/settings?group=0' }, async (page) => {
      await button(page, 'Replace the token').click()
      await dialog(page, 'Replace the token').getByRole('button', { name: 'Replace the token' }).click()
      const shown = dialog(page, 'The token is replaced.')
      const token = (await shown.locator('code').textContent()) ?? ''
      t.strictSame(await axeViolations(page), [])
      await shown.getByRole('button', { name: 'Close' }).click()
      await shown.waitFor({ state: 'detached' })
      t.notMatch(await page.locator('main').textContent(), token)
      const headers = { authorization: token }
      t.match(await (await fetch(`${site.url}/api/me`, { headers })).json(), { code: 200, data: { username: 'admin' } })
    }),
  )

  await t.test('a user is created with permissions, which can be changed', (t) =>
    visit(t, site, { at: '/@manage/users' }, async (page) => {
      await button(page, 'Add a user').click()
      const form = dialog(page, 'Add a user')
      await form.getByRole('textbox', { name: 'Name' }).fill('reader')
      await form.getByLabel('Password', { exact: true }).fill('password')
      for (const name of ['Upload and create folders', 'Rename', 'Move', 'Copy', 'Delete']) {
        await form.getByRole('checkbox', { name, exact: true }).uncheck()
      }
      await form.getByRole('button', { name: 'Save' }).click()
      const row = tableRow(page, 'Users', 'reader')
      await row.getByRole('cell', { name: 'enabled' }).waitFor()
      const user = { username: 'reader', password: 'password' }
      await visit(t, site, { user }, async (own) => {
        await files(own).waitFor()
        await eventually(t, () => button(own, 'Upload').count(), 0)
        await row.getByRole('button', { name: 'Edit' }).click()
        const edit = dialog(page, 'Edit reader')
        await edit.getByRole('checkbox', { name: 'Upload and create folders' }).check()
        await edit.getByRole('button', { name: 'Save' }).click()
        await edit.waitFor({ state: 'detached' })
        await own.reload()
        await own.getByRole('button', { name: 'Upload', exact: true, disabled: false }).waitFor()
      })
      await row.getByRole('button', { name: 'Delete' }).click()
      await dialog(page, 'Delete user').getByRole('button', { name: 'Delete' }).click()
      await row.waitFor({ state: 'detached' })
      await t.rejects(call('/api/auth/login', user), /400/)
    }),
  )

  await t.test('a rule gives a folder a password', async (t) => {
    const options = await profileOf('outsider')
    await mkdir(join(folder, 'closed'))
    await visit(t, site, { at: '/@manage/rules' }, async (page) => {
      await button(page, 'Add a rule').click()
      const form = dialog(page, 'Add a rule')
      await form.getByRole('textbox', { name: 'Folder' }).fill('/clsoed')
      await form.getByRole('textbox', { name: 'Password' }).fill('of the folder')
      await form.getByRole('button', { name: 'Save' }).click()
      await form.getByRole('alert').getByText('There is no folder /clsoed.').waitFor()
      await form.getByRole('button', { name: 'Choose …' }).click()
      await form.getByRole('treeitem', { name: 'closed' }).click()
      await eventually(t, () => form.getByRole('textbox', { name: 'Folder' }).inputValue(), '/closed')
      await form.getByRole('button', { name: 'Save' }).click()
      await tableRow(page, 'Rules', '/closed').getByRole('cell', { name: 'Password' }).waitFor()
      const asked = { ...options, at: '/closed' }
      await visit(t, site, asked, (own) => own.getByRole('heading', { name: 'Password of the folder' }).waitFor())
      await tableRow(page, 'Rules', '/closed').getByRole('button', { name: 'Delete' }).click()
      await dialog(page, 'Delete rule').getByRole('button', { name: 'Delete' }).click()
      await tableRow(page, 'Rules', '/closed').waitFor({ state: 'detached' })
      await visit(t, site, asked, (own) => own.getByText('This folder is empty.').waitFor())
    })
  })

  await t.test('a setting is saved, and what it changes is shown', (t) =>
    visit(t, site, { at: '/@manage/settings' }, async (page) => {
      t.ok(await button(page, 'Save').isDisabled())
      t.equal(await page.getByRole('checkbox', { name: 'Allow mounted' }).count(), 0, 'what has no effect is left out')
      await page.getByRole('textbox', { name: 'Site title' }).fill('Harbour')
      await button(page, 'Save').click()
      await page.getByRole('status').getByText('The settings are saved.').waitFor()
      await button(page, 'Sign out').click()
      await page.getByRole('heading', { name: 'Harbour' }).waitFor()
    }),
  )

  await t.test('the announcement is shown until it is closed, and links have the main color', async (t) => {
    const values = { announcement: 'Closed on **Sunday**', main_color: 'rebeccapurple' }
    await gateway.settings.set(new Map(Object.entries(values)))
    await visit(t, site, await profileOf('announced'), async (page) => {
      const announcement = page.getByRole('complementary', { name: 'Announcement' })
      await announcement.getByText('Sunday').waitFor()
      const link = page.getByRole('link', { name: 'More programs' })
      t.equal(await link.evaluate((element: HTMLElement) => getComputedStyle(element).color), 'rgb(102, 51, 153)')
      await button(page, 'Close the announcement').click()
      await announcement.waitFor({ state: 'detached' })
    })
    await gateway.settings.set(new Map(Object.keys(values).map((key) => [key, ''])))
  })

  await t.test('the whole dialog of two-step verification is in view', async (t) => {
    const options = await profileOf('verified')
    for (const size of [{}, { width: 390, height: 844 }, { width: 360, height: 640 }]) {
      await visit(t, site, { ...options, ...size }, async (page) => {
        await button(page, 'Set up').click()
        await dialog(page, 'Two-step verification').getByRole('img').waitFor()
        const hidden = await page.evaluate(() =>
          [...document.querySelectorAll('dialog, .dialog-body')].map((e) => e.scrollHeight - e.clientHeight),
        )
        t.strictSame(hidden, [0, 0], JSON.stringify(size))
      })
    }
  })

  await t.test('without a network the console says so, and goes on when it is back', async (t) => {
    await mkdir(join(folder, 'near'))
    const { page } = await openPage(site.browser, site.url)
    t.teardown(() => page.context().close())
    await signIn(page, 'admin', site.adminPassword)
    await rowOf(page, 'near').waitFor()
    await page.context().setOffline(true)
    await rowOf(page, 'near').click()
    await page.getByRole('alert').getByText('The server cannot be reached.').waitFor()
    await page.context().setOffline(false)
    await page.getByText('This folder is empty.').waitFor()
    await page.context().setOffline(true)
    await goTo(page, 'Tasks')
    await page.getByRole('alert').getByText('This part of the page could not be loaded.').waitFor()
    await page.context().setOffline(false)
    await button(page, 'Retry').click()
    await page.getByText('Nothing is in progress.').waitFor()
  })

  await t.test('a user who may only download from URLs does it from the page of a folder', async (t) => {
    const options = await profileOf('fetches')
    const user = gateway.accounts.users.byName('fetches')
    await gateway.accounts.users.update(user?.id ?? 0, { permission: permissionBits.offlineDownload })
    const source = await startScripted(t, (_request, answer) => answer.end('from elsewhere'))
    await gateway.settings.set(new Map([['egress_networks', '127.0.0.1/32']]))
    await visit(t, site, { ...options, at: '/' }, async (page) => {
      await button(page, 'Download from URLs').click()
      const opened = dialog(page, 'Download from URLs')
      await opened.getByRole('textbox', { name: 'URLs' }).fill(`\n  ${source.url}/fetched.txt\n`)
      await opened.getByRole('button', { name: 'Download', exact: true }).click()
      await opened.waitFor({ state: 'detached' })
      await goTo(page, 'Tasks')
      await page.getByText('succeeded').waitFor()
    })
    t.equal(await readFile(join(folder, 'fetched.txt'), 'utf8'), 'from elsewhere')
    await visit(t, site, { ...(await profileOf('fetches nothing')), at: '/' }, async (page) => {
      await files(page).waitFor()
      t.equal(await button(page, 'Download from URLs').count(), 0)
    })
  })

  await t.test('a lock of a WebDAV client is listed, and can be broken', async (t) => {
    const authorization = `Basic ${Buffer.from(`admin:${site.adminPassword}`).toString('base64')}`
    const wish =
      '<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>'
    await fetch(`${site.davUrl}locked.txt`, { method: 'LOCK', headers: { authorization, depth: '0' }, body: wish })
    t.equal((await fetch(`${site.davUrl}locked.txt`, { method: 'PUT', headers: { authorization } })).status, 423)
    await visit(t, site, { at: '/@manage/locks' }, async (page) => {
      const row = tableRow(page, 'Locks', '/locked.txt')
      for (const name of ['admin', 'exclusive']) await row.getByRole('cell', { name }).waitFor()
      await row.getByRole('button', { name: 'Break' }).click()
      await page.getByText('Nothing is locked.').waitFor()
    })
    t.equal((await fetch(`${site.davUrl}locked.txt`, { method: 'PUT', headers: { authorization } })).status, 204)
  })

  await t.test('search is turned on, and finds names', async (t) => {
    await mkdir(join(folder, 'lighthouse'))
    await visit(t, site, { at: '/@search?words=lighthouse' }, async (page) => {
      await page.getByRole('link', { name: 'Search is off. Turn it on.' }).click()
      await page.getByText('Search is off. Choose an index below').waitFor()
      const engine = page.getByRole('combobox', { name: 'Search index' })
      const engines = ['In the database', 'None: no search']
      await eventually(t, () => engine.getByRole('option').allTextContents(), engines)
      await engine.selectOption('database')
      await button(page, 'Save').click()
      await page
        .getByRole('status')
        .getByText(/^The index holds [1-9]\d* names\. Last run: /)
        .waitFor()
      await button(page, 'Search').click()
      await page.getByRole('combobox', { name: 'Search', exact: true }).fill('lighthouse')
      await page.keyboard.press('Enter')
      await page.getByText('1 result').waitFor()
      await page.getByRole('link', { name: 'lighthouse' }).click()
      await page.getByText('This folder is empty.').waitFor()
    })
  })

  await t.test('the log shows new lines, from a level', (t) =>
    visit(t, site, { at: '/@manage/log' }, async (page) => {
      const log = page.getByRole('list', { name: 'Log' })
      gateway.logTail.add('{"level":40,"time":"2026-01-02T03:04:05Z","msg":"ebb tide","path":"/harbour"}')
      await log.getByText('warn ebb tide').getByText('path=/harbour').waitFor()
      gateway.logTail.add('{"level":50,"time":"2026-01-02T03:04:06Z","msg":"flood"}')
      await log.getByText('error flood').waitFor()
      await page.getByRole('combobox', { name: 'From level' }).selectOption('error')
      await log.getByText('ebb tide').waitFor({ state: 'detached' })
      await log.getByText('error flood').waitFor()
    }),
  )

  await t.test('the documentation is part of the console, with links between its pages', (t) =>
    visit(t, site, { at: '/@manage/about' }, async (page) => {
      await page.getByRole('main').getByRole('link', { name: 'Documentation' }).click()
      await page.getByRole('link', { name: 'Drivers', exact: true }).click()
      await page.getByRole('heading', { name: 'Writing a driver' }).waitFor()
      await page.waitForURL(/\/@manual\/drivers#writing-a-driver$/)
      await page.getByRole('link', { name: 'Alias', exact: true }).click()
      await page.waitForURL(/\/@manual\/drivers\/alias$/)
      await page.goto('@manual/nothing')
      await page.getByText('There is no such page').waitFor()
      await page.goto('@profile')
      await page.getByRole('link', { name: 'More programs' }).click()
      await page.getByRole('heading', { name: 'Clients', level: 1 }).waitFor()
    }),
  )

  await t.test('the page about the daemon has its version and its addresses', (t) =>
    visit(t, site, { at: '/@manage/about' }, async (page) => {
      const facts = page.locator('dl')
      await facts.getByText(process.version).waitFor()
      await facts.getByText(site.dataFolder, { exact: true }).waitFor()
      await facts.getByText(new URL(site.url).host).waitFor()
      t.equal(
        (
          await page.request.get((await page.getByRole('link', { name: /HTTP API/ }).getAttribute('href')) ?? '')
        ).status(),
        200,
      )
    }),
  )

  await t.test('the first steps are offered until they are done, and lead to a password and a storage', async (t) => {
    await gateway.settings.set(new Map([['first_run_done', 'false']]))
    await visit(t, site, {}, async (page) => {
      await page.getByRole('complementary').getByRole('link', { name: 'Getting started' }).click()
      await page.getByLabel('New password', { exact: true }).fill('a new password')
      await page.getByLabel('Repeat the new password').fill('a new password')
      await button(page, 'Change the password').click()
      await page.getByRole('status').getByText('The password is changed.').waitFor()
      await button(page, 'Add a storage').click()
      await dialog(page, 'Add a storage').getByRole('button', { name: 'Cancel' }).click()
      await page.getByText(site.davUrl.replace('http', 'dav'), { exact: true }).waitFor()
      await page.getByRole('combobox', { name: 'Your system' }).selectOption('Windows')
      await page.getByText('Windows mounts WebDAV only by HTTPS.').waitFor()
      await page.getByText(`sftp -P ${site.sftpPort} admin@127.0.0.1`).waitFor()
      await page.getByText(/^ED25519 SHA256:/).waitFor()
      await page.getByRole('link', { name: 'Done' }).click()
      await files(page).waitFor()
      await page.getByRole('complementary', { name: 'Getting started' }).waitFor({ state: 'detached' })
      await page.reload()
      await files(page).waitFor()
      t.equal(await page.getByRole('complementary', { name: 'Getting started' }).count(), 0)
    })
  })
})
