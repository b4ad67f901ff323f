/** What limits accounts and app passwords, in the console: networks, an end, a folder, two-step verification. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generateSync } from 'otplib'
import t from 'tap'
import { axeViolations, withoutBrowser } from './browser.js'
import { button, createUser, dialog, files, rowOf, sideBar, type Site, startSite, visit } from './site.js'

interface User {
  readonly id: number
  readonly username: string
  readonly allow_from: readonly string[]
  readonly expires: string | null
}

async function userNamed({ call }: Site, name: string): Promise<User> {
  const { content } = (await call('/api/admin/user/list')) as { content: readonly User[] }
  const found = content.find(({ username }) => username === name)
  if (found === undefined) throw new Error(`there is no ${name}`)
  return found
}

void t.test('limits', { skip: withoutBrowser }, async (t) => {
  const site = await startSite(t)
  const { call, folder } = site

  await t.test('networks and the last day of a user are entered, told at the sign-in, and kept', async (t) => {
    await createUser(site, 'limited')
    const tells = (text: string) =>
      visit(t, site, { user: null, at: '/@login' }, async (page) => {
        await page.getByRole('textbox', { name: 'Username' }).fill('limited')
        await page.getByRole('textbox', { name: 'Password' }).fill('password')
        await button(page, 'Sign in').click()
        await page.getByRole('alert').getByText(text).waitFor()
      })
    await visit(t, site, { at: '/@manage/users' }, async (page) => {
      const form = dialog(page, 'Edit limited')
      const networks = form.getByRole('textbox', { name: 'Only from these networks' })
      const lastDay = form.getByLabel('Last day')
      const edit = async (fill: () => Promise<void>) => {
        await button(page, 'Edit limited').click()
        await fill()
        await form.getByRole('button', { name: 'Save' }).click()
        await form.waitFor({ state: 'detached' })
      }
      await edit(async () => {
        await networks.fill('10.0.0.0/8\n\n  2001:db8::/32 ')
        await lastDay.fill('2131-05-06')
      })
      const stored = await userNamed(site, 'limited')
      t.strictSame(stored.allow_from, ['10.0.0.0/8', '2001:db8::/32'])
      t.equal(Date.parse(stored.expires ?? ''), +new Date('2131-05-06T23:59:59'))
      await tells('This account cannot be used from this network.')

      const expires = '2131-05-06T10:11:12Z'
      await call('/api/admin/user/update', { id: stored.id, username: 'limited', expires })
      await page.reload()
      await edit(() => form.getByRole('checkbox', { name: 'Rename', exact: true }).uncheck())
      const kept = await userNamed(site, 'limited')
      t.equal(Date.parse(kept.expires ?? ''), Date.parse(expires), 'the time of the day that the form does not show')
      t.strictSame(kept.allow_from, stored.allow_from)

      await edit(async () => {
        await networks.fill('')
        await lastDay.fill('2020-01-01')
      })
      await page
        .getByRole('row', { name: /^limited / })
        .getByRole('cell', { name: 'ended' })
        .waitFor()
      await tells('This account has ended.')
      await edit(() => lastDay.fill(''))
      t.match(await userNamed(site, 'limited'), { allow_from: [], expires: null })
    })
  })

  await t.test('an app password opens one folder, until its last day', async (t) => {
    await createUser(site, 'programs')
    for (const name of ['near', 'far']) {
      await mkdir(join(folder, name))
      await writeFile(join(folder, name, `${name}.txt`), name)
    }
    await visit(t, site, { user: { username: 'programs', password: 'password' }, at: '/@profile' }, async (page) => {
      await button(page, 'Create an app password').click()
      const form = dialog(page, 'Create an app password')
      await form.getByRole('textbox', { name: 'Name' }).fill('camera')
      await form.getByRole('button', { name: 'Choose …' }).click()
      await form.getByRole('treeitem', { name: 'near' }).click()
      await form.getByLabel('Last day').fill('2131-05-06')
      t.strictSame(await axeViolations(page, 'dialog'), [])
      await form.getByRole('button', { name: 'Add' }).click()
      const shown = dialog(page, 'The new app password')
      const password = (await shown.locator('code').textContent()) ?? ''
      await shown.getByRole('button', { name: 'Close' }).click()
      const row = page.getByRole('table', { name: 'App passwords' }).getByRole('row', { name: /^camera / })
      await row.getByRole('cell', { name: '/near' }).waitFor()
      await row.getByText('2131').waitFor()
      const authorization = `Basic ${Buffer.from(`programs:${password}`).toString('base64')}`
      const read = async (path: string) => (await fetch(site.davUrl + path, { headers: { authorization } })).status
      t.equal(await read('near.txt'), 200)
      t.equal(await read('far/far.txt'), 404)
    })
  })

  await t.test('who must set up two-step verification does that first, and then reaches the files', async (t) => {
    await createUser(site, 'twice')
    const members = [(await userNamed(site, 'twice')).id]
    await visit(t, site, { at: '/@manage/groups' }, async (page) => {
      await call('/api/admin/group/create', { name: 'careful', members })
      await page.reload()
      await button(page, 'Edit careful').click()
      const form = dialog(page, 'Edit careful')
      await form.getByRole('checkbox', { name: 'Its members need two-step verification' }).check()
      await form.getByRole('button', { name: 'Save' }).click()
      await form.waitFor({ state: 'detached' })
    })
    await visit(t, site, { user: { username: 'twice', password: 'password' } }, async (page) => {
      await page.getByRole('heading', { name: 'Set up two-step verification' }).waitFor()
      t.ok(await button(page, 'Go on').isDisabled())
      t.equal(await sideBar(page).count(), 0)
      t.strictSame(await axeViolations(page), [])
      await button(page, 'Set up').focus()
      await page.keyboard.press('Enter')
      const form = dialog(page, 'Two-step verification')
      const secret = (await form.locator('code').textContent()) ?? ''
      await form.getByRole('textbox', { name: 'One-time code' }).fill(generateSync({ secret }))
      await page.keyboard.press('Enter')
      await dialog(page, 'Recovery codes').getByRole('button', { name: 'Cancel' }).click()
      await button(page, 'Go on').click()
      await files(page).waitFor()
      await rowOf(page, 'near').waitFor()
      await page.reload()
      await rowOf(page, 'near').waitFor()
    })
  })
})
