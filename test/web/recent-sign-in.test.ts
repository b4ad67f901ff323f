/** The console asks for the password again where a request needs a recent sign-in. */
import { generateSync } from 'otplib'
import type { Page } from 'playwright-core'
import t from 'tap'
import { moveClock } from '../moved-clock.js'
import { newOtpSecret } from '../../src/accounts/otp.js'
import { axeViolations, withoutBrowser } from './browser.js'
import { button, createUser, dialog, startSite, visit } from './site.js'

const minutes = 60_000
const question = 'Confirm that it is you'

async function answer(page: Page, password: string): Promise<void> {
  const asked = dialog(page, question)
  await asked.getByLabel('Password').fill(password)
  await asked.getByRole('button', { name: 'Confirm' }).click()
}

/** A code that is valid when the clock is moved so far. */
const codeOf = (secret: string) => generateSync({ secret, epoch: Date.now() / 1000 })

void t.test('changes of credentials ten minutes after the sign-in', { skip: withoutBrowser }, async (t) => {
  const site = await startSite(t)
  for (const username of ['keys', 'cancels', 'names', 'twice']) await createUser(site, username)
  const as = (username: string) => ({ user: { username, password: 'password' }, at: '/@profile' })
  t.beforeEach(() => moveClock(0))
  t.teardown(() => moveClock(0))

  await t.test('the password is asked, and the change is made, all by the keyboard', (t) =>
    visit(t, site, as('keys'), async (page) => {
      await button(page, 'Create an app password').click()
      moveClock(10 * minutes)
      const form = dialog(page, 'Create an app password')
      await form.getByLabel('Name').fill('phone')
      await page.keyboard.press('Enter')
      const asked = dialog(page, question)
      await asked.waitFor()
      t.equal(await page.evaluate(() => document.activeElement?.getAttribute('type')), 'password')
      t.strictSame(await axeViolations(page), [])
      await page.keyboard.type('wrong')
      await page.keyboard.press('Enter')
      await asked.getByRole('alert').getByText('The password is wrong.').waitFor()
      t.equal(await asked.getByLabel('One-time code').count(), 0)
      await asked.getByLabel('Password').press('Control+a')
      await page.keyboard.type('password')
      await page.keyboard.press('Enter')
      await dialog(page, 'The new app password').getByText(/^tg-/).waitFor()
      t.equal(await asked.count(), 0)
      await page.keyboard.press('Escape')
      await page.getByRole('cell', { name: 'phone', exact: true }).waitFor()

      await button(page, 'Remove phone').click()
      await button(page, 'Delete').click()
      await page.getByRole('cell', { name: 'phone', exact: true }).waitFor({ state: 'detached' })
    }),
  )

  await t.test('canceling leaves the form as it was', (t) =>
    visit(t, site, as('cancels'), async (page) => {
      moveClock(10 * minutes)
      await button(page, 'Create an app password').click()
      const form = dialog(page, 'Create an app password')
      await form.getByLabel('Name').fill('tablet')
      await form.getByRole('button', { name: 'Add', exact: true }).click()
      await dialog(page, question).waitFor()
      await page.keyboard.press('Escape')
      await dialog(page, question).waitFor({ state: 'detached' })
      await form.getByRole('alert').getByText('sign in again').waitFor()
      t.equal(await form.getByLabel('Name').inputValue(), 'tablet')
      await form.locator(':focus').waitFor()
      await form.getByRole('button', { name: 'Add', exact: true }).click()
      await answer(page, 'password')
      await dialog(page, 'The new app password').getByText(/^tg-/).waitFor()
    }),
  )

  await t.test('a form of a page asks in the same way', (t) =>
    visit(t, site, as('names'), async (page) => {
      moveClock(10 * minutes)
      await page.getByLabel('Name', { exact: true }).fill('renamed')
      await button(page, 'Change the name').click()
      await answer(page, 'password')
      await page.getByRole('status').getByText('The name is changed.').waitFor()
    }),
  )

  await t.test('an admin is asked too', (t) =>
    visit(t, site, { at: '/@manage/users' }, async (page) => {
      moveClock(10 * minutes)
      await button(page, 'Delete cancels').click()
      await button(page, 'Delete').click()
      await answer(page, site.adminPassword)
      await page.getByRole('cell', { name: 'cancels', exact: true }).waitFor({ state: 'detached' })
    }),
  )

  await t.test(
    'with two-step verification a code is asked as well, and the current one for a new secret',
    async (t) => {
      const { accounts } = site.gateway
      const { id } = accounts.users.byName('twice')!
      await visit(t, site, as('twice'), async (page) => {
        const secret = newOtpSecret()
        await button(page, 'Set up').waitFor()
        // The page does not know of the secret.
        await accounts.users.update(id, { otpSecret: secret })
        moveClock(10 * minutes)
        await button(page, 'Set up').click()
        await answer(page, 'password')
        const asked = dialog(page, question)
        await asked.getByRole('alert').getByText('Enter the one-time code').waitFor()
        await asked.getByLabel('One-time code').fill('000000')
        await page.keyboard.press('Enter')
        await asked.getByRole('alert').getByText('The code is wrong').waitFor()
        await asked.getByLabel('One-time code').fill(codeOf(secret))
        await page.keyboard.press('Enter')
        await page.getByRole('img', { name: 'QR code of the secret' }).waitFor()
        await page.keyboard.press('Escape')

        await page.reload()
        moveClock(20 * minutes)
        await button(page, 'Set up again').click()
        await asked.getByLabel('One-time code').fill(codeOf(secret))
        await answer(page, 'password')
        await page.getByRole('img', { name: 'QR code of the secret' }).waitFor()
        const form = dialog(page, 'Two-step verification')
        const next = (await form.locator('code').textContent()) ?? ''
        await form.getByLabel('One-time code of the new secret').fill(codeOf(next))
        await form.getByLabel('One-time code of the current secret').fill('000000')
        await form.getByRole('button', { name: 'Save' }).click()
        await form.getByRole('alert').getByText('One of the codes is wrong').waitFor()
        moveClock(21 * minutes)
        await form.getByLabel('One-time code of the new secret').fill(codeOf(next))
        await form.getByLabel('One-time code of the current secret').fill(codeOf(secret))
        t.strictSame(await axeViolations(page), [])
        await form.getByRole('button', { name: 'Save' }).click()
        await page.getByRole('status').getByText('Two-step verification is on.').waitFor()
        t.equal(accounts.users.get(id)?.otpSecret, next)
      })
    },
  )

  await t.test('an admin turns off the own two-step verification with a code', (t) =>
    visit(t, site, { at: '/@manage/users' }, async (page) => {
      const { users } = site.gateway.accounts
      const own = users.byName('admin')!
      const secret = newOtpSecret()
      await users.update(own.id, { otpSecret: secret })
      await page.reload()
      await button(page, 'Edit admin').click()
      await button(page, 'Turn off two-step verification').click()
      const asked = dialog(page, 'Turn off two-step verification')
      await asked.getByLabel('One-time code').fill('000000')
      await page.keyboard.press('Enter')
      await asked.getByRole('alert').getByText('The code is wrong').waitFor()
      await asked.getByLabel('One-time code').fill(codeOf(secret))
      await page.keyboard.press('Enter')
      await page.getByRole('status').getByText('admin signs in without a one-time code.').waitFor()
      t.equal(users.get(own.id)?.otpSecret, '')
    }),
  )
})
