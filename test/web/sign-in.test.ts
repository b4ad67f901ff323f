/** Signing in and out in the console. */
import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generateSync } from 'otplib'
import type { Page } from 'playwright-core'
import t from 'tap'
import { startGateway } from '../gateway.js'
import { sessionCookieAt } from '../session-cookie.js'
import { eventually, withoutBrowser } from './browser.js'
import { button, createUser, dialog, files, goTo, rowOf, siteOf, startSite, visit } from './site.js'

const nobody = { user: null }

async function enter(page: Page, username: string, password: string): Promise<void> {
  await page.getByRole('textbox', { name: 'Username' }).fill(username)
  await page.getByRole('textbox', { name: 'Password' }).fill(password)
  await button(page, 'Sign in').click()
}

/** The session's cookie as the browser keeps it. */
async function sessionCookie(page: Page) {
  return (await page.context().cookies()).find(({ name }) => name === sessionCookieAt(page.url()))
}

void t.test('signing in', { skip: withoutBrowser }, async (t) => {
  const site = await startSite(t)

  await t.test('a wrong password is refused in plain words, and the right one is accepted', (t) =>
    visit(t, site, nobody, async (page) => {
      await enter(page, 'admin', 'wrong')
      await page.getByRole('alert').getByText('The user name or the password is wrong.').waitFor()
      t.equal(await sessionCookie(page), undefined)
      await enter(page, 'nobody of this name', 'wrong')
      await page.getByRole('alert').getByText('The user name or the password is wrong.').waitFor()
      await enter(page, 'admin', site.adminPassword)
      await files(page).waitFor()
      await button(page, 'Sign out').waitFor()
    }),
  )

  await t.test('a session ends with the browser unless the user wants to be remembered', async (t) => {
    await visit(t, site, nobody, async (page) => {
      await enter(page, 'admin', site.adminPassword)
      await files(page).waitFor()
      const cookie = await sessionCookie(page)
      t.match(cookie, { httpOnly: true, sameSite: 'Strict', expires: -1 })
      t.notMatch(await page.evaluate(() => document.cookie), 'tidegate_session', 'scripts cannot read it')
      await page.reload()
      await files(page).waitFor()
    })
    await visit(t, site, nobody, async (page) => {
      await page.getByRole('checkbox', { name: 'Remember me' }).check()
      await enter(page, 'admin', site.adminPassword)
      await files(page).waitFor()
      const { expires } = (await sessionCookie(page)) ?? { expires: -1 }
      t.ok(expires > Date.now() / 1000 + 3600, 'it is kept')
    })
  })

  await t.test('after signing out nothing is shown, also not by the back button', (t) =>
    visit(t, site, { at: '/' }, async (page) => {
      await files(page).waitFor()
      await goTo(page, 'Profile')
      await page.getByRole('heading', { name: 'Profile' }).waitFor()
      await button(page, 'Sign out').click()
      await button(page, 'Sign in').waitFor()
      t.equal(await sessionCookie(page), undefined)
      await page.goBack()
      await button(page, 'Sign in').waitFor()
      t.equal(await files(page).count(), 0)
    }),
  )

  await t.test('signing out clears the notices', (t) =>
    visit(t, site, {}, async (page) => {
      await page.route('**/api/fs/mkdir', (route) =>
        route.fulfill({ json: { code: 200, message: 'success', data: null } }),
      )
      await button(page, 'New folder').click()
      await dialog(page, 'New folder').getByRole('textbox', { name: 'Name' }).fill('secret')
      await dialog(page, 'New folder').getByRole('button', { name: 'New folder' }).click()
      await page.getByRole('status').getByText('secret').waitFor()
      await page.route('**/api/auth/logout', (route) => route.abort())
      await button(page, 'Sign out').click()
      await page.getByRole('alert').getByText('The server cannot be reached').waitFor()
      await page.unroute('**/api/auth/logout')
      await button(page, 'Sign out').click()
      await button(page, 'Sign in').waitFor()
      await eventually(t, () => page.locator('.notice').count(), 0)
    }),
  )

  await t.test('signing out everywhere ends the sessions of other browsers', async (t) => {
    await createUser(site, 'everywhere')
    const user = { username: 'everywhere', password: 'password' }
    await visit(t, site, { user }, async (other) => {
      await files(other).waitFor()
      await visit(t, site, { user, at: '/@profile' }, async (page) => {
        await button(page, 'Sign out everywhere').click()
        await button(page, 'Sign in').waitFor()
      })
      await button(other, 'Refresh').click()
      await button(other, 'Sign in').waitFor()
    })
  })

  await t.test('a one-time code is asked of users who have set it up', async (t) => {
    await createUser(site, 'twice')
    const user = { username: 'twice', password: 'password' }
    let secret = ''
    let codes: readonly string[] = []
    await visit(t, site, { user, at: '/@profile' }, async (page) => {
      await button(page, 'Set up').click()
      await page.getByRole('img', { name: 'QR code of the secret' }).waitFor()
      secret = (await page.getByRole('dialog').locator('code').textContent()) ?? ''
      await page.getByRole('textbox', { name: 'One-time code' }).fill(generateSync({ secret }))
      await dialog(page, 'Two-step verification').getByRole('button', { name: 'Save' }).click()
      await page.getByRole('status').getByText('Two-step verification is on.').waitFor()
      const renew = dialog(page, 'Recovery codes')
      await renew.getByRole('textbox', { name: 'Password' }).fill('wrong')
      await renew.getByRole('button', { name: 'Make new recovery codes' }).click()
      await renew.getByRole('alert').getByText('the password is wrong').waitFor()
      await renew.getByRole('textbox', { name: 'Password' }).fill('password')
      await renew.getByRole('button', { name: 'Make new recovery codes' }).click()
      const shown = dialog(page, 'Your recovery codes')
      const text = (await shown.locator('code').textContent()) ?? ''
      codes = text.split('\n')
      t.equal(codes.length, 10)
      const [saved] = await Promise.all([
        page.waitForEvent('download'),
        shown.getByRole('link', { name: 'Save as a file' }).click(),
      ])
      t.equal(saved.suggestedFilename(), 'tidegate-recovery-codes.txt')
      t.equal(await readFile(await saved.path(), 'utf8'), `${text}\n`)
      await shown.getByRole('button', { name: 'Copy' }).click()
      await page.getByRole('status').getByText('Copied').waitFor()
      await shown.getByRole('button', { name: 'Close' }).click()
      await page.getByText('Recovery codes left: 10.').waitFor()
    })
    await visit(t, site, nobody, async (page) => {
      await enter(page, 'twice', 'password')
      await page.getByRole('alert').getByText('Enter the one-time code').waitFor()
      const code = page.getByRole('textbox', { name: 'One-time code' })
      await code.fill('000000')
      await button(page, 'Sign in').click()
      await page.getByRole('alert').getByText('The code is wrong').waitFor()
      await code.fill(generateSync({ secret, epoch: Date.now() / 1000 + 30 }))
      await button(page, 'Sign in').click()
      await files(page).waitFor()
    })
    await visit(t, site, nobody, async (page) => {
      await enter(page, 'twice', 'password')
      await page.getByText('or one of your recovery codes').waitFor()
      await page.getByRole('textbox', { name: 'One-time code' }).fill(codes[0] ?? '')
      await button(page, 'Sign in').click()
      await goTo(page, 'Profile')
      await page.getByText('Recovery codes left: 9.').waitFor()
    })
    await visit(t, site, { at: '/@manage/users' }, async (page) => {
      const edit = dialog(page, 'Edit twice')
      const turnOff = edit.getByRole('button', { name: 'Turn off two-step verification' })
      await button(page, 'Edit twice').click()
      await turnOff.click()
      await page.getByRole('status').getByText('twice signs in without a one-time code.').waitFor()
      await turnOff.waitFor({ state: 'detached' })
      await edit.getByRole('button', { name: 'Cancel' }).click()
      await button(page, 'Edit twice').click()
      await edit.waitFor()
      await turnOff.waitFor({ state: 'detached' })
    })
  })

  await t.test('a disabled account is refused in plain words', async (t) => {
    const user = { username: 'disabled', password: 'password', base_path: '/', role: 0, permission: 0, disabled: true }
    await site.call('/api/admin/user/create', user)
    await visit(t, site, nobody, async (page) => {
      await enter(page, 'disabled', 'password')
      await page.getByRole('alert').getByText('This account is disabled.').waitFor()
    })
  })

  await t.test('guests browse where the guest is enabled, and cannot change anything', async (t) => {
    await visit(t, site, nobody, async (page) => {
      await button(page, 'Sign in').waitFor()
      t.equal(await button(page, 'Browse as guest').count(), 0, 'the guest is disabled')
    })
    const { content } = (await site.call('/api/admin/user/list')) as { content: { id: number; username: string }[] }
    const guest = content.find(({ username }) => username === 'guest')
    await site.call('/api/admin/user/update', { ...guest, disabled: false })
    await mkdir(join(site.folder, 'seen'))
    await visit(t, site, nobody, async (page) => {
      await files(page).waitFor()
      const areMissing = async (...names: readonly string[]) => {
        for (const name of names) await eventually(t, () => button(page, name).count(), 0, name)
      }
      await areMissing('Upload', 'New folder')
      await rowOf(page, 'seen').getByRole('checkbox').check()
      await areMissing('Rename', 'Delete')
      await page.getByRole('link', { name: 'Sign in' }).click()
      await button(page, 'Browse as guest').click()
      await files(page).waitFor()
      for (const name of ['Profile', 'Tasks', 'Storages']) t.equal(await page.getByRole('link', { name }).count(), 0)
    })
    await site.call('/api/admin/user/update', { ...guest, disabled: true })
  })

  await t.test('after too many failed attempts the remaining time is shown', async (t) => {
    const other = await siteOf(await startGateway(t), site.browser)
    await visit(t, other, nobody, async (page) => {
      for (let attempt = 0; attempt < 30; attempt++) {
        const data = { username: 'admin', password: 'wrong', otp_code: '', remember: false }
        const answer = await page.request.post('/api/auth/session', { data })
        if (((await answer.json()) as { code: number }).code === 429) break
      }
      await enter(page, 'admin', other.adminPassword)
      await page.getByRole('alert').getByText('Too many failed attempts from your address.').waitFor()
      const timer = page.getByRole('timer')
      await timer.getByText(/^Try again in \d+ (minute|second)s?/).waitFor()
      const before = await timer.textContent()
      await page.waitForFunction((text) => document.querySelector('[role=timer]')?.textContent !== text, before)
      t.match(await timer.textContent(), 'Try again in', 'it counts down')
    })
  })

  await t.test('a remembered session outlives a restart of the daemon', (t) =>
    visit(t, site, nobody, async (page) => {
      await page.getByRole('checkbox', { name: 'Remember me' }).check()
      await enter(page, 'admin', site.adminPassword)
      await files(page).waitFor()
      await site.stop()
      await startGateway(t, { dataFolder: site.dataFolder, config: { http: new URL(site.url).host } })
      await page.reload()
      await files(page).waitFor()
      await button(page, 'Sign out').waitFor()
    }),
  )
})
