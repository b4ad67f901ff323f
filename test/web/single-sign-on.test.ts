/** Single sign-on in the console: the sign-in page, the profile, and signing out. */
import { generateSync } from 'otplib'
import type { Page } from 'playwright-core'
import t from 'tap'
import { newOtpSecret } from '../../src/accounts/otp.js'
import { startOpenIdProvider } from '../servers/openid-provider.js'
import { ada, useProvider } from '../sign-in/site.js'
import { withoutBrowser } from './browser.js'
import { button, createUser, dialog, files, startSite, visit } from './site.js'

void t.test('single sign-on', { skip: withoutBrowser }, async (t) => {
  const site = await startSite(t)
  const provider = await startOpenIdProvider(t, site.url)
  const settings = { sso_auto_register: 'true', sso_login_text: 'Sign in with our directory' }
  provider.person = ada
  const link = (page: Page) => page.getByRole('link', { name: 'Sign in with our directory' })

  await t.test('the sign-in page has no button while it is off', (t) =>
    visit(t, site, { user: null }, async (page) => {
      await button(page, 'Sign in').waitFor()
      t.equal(await page.getByRole('link', { name: /single sign-on/i }).count(), 0)
    }),
  )
  await useProvider(site, provider.issuer, settings)

  await t.test('somebody signs in at the provider, and sees the identity in the profile', async (t) => {
    const context = await site.browser.newContext()
    t.teardown(() => context.close())
    const page = await context.newPage()
    await page.goto(`${site.url}/@profile`)
    await link(page).click()
    await page.getByRole('heading', { name: 'Single sign-on' }).waitFor()
    t.equal(new URL(page.url()).pathname, '/@profile', 'the page that was asked for')
    await page.getByRole('cell', { name: provider.issuer }).waitFor()
    t.equal(await page.getByRole('link', { name: 'Link an identity' }).count(), 1)

    await useProvider(site, provider.issuer, { sso_logout_provider: 'true' })
    await button(page, 'Sign out').click()
    await page.waitForURL((url) => url.pathname === '/session/end')
  })

  await t.test('an identity is linked to an account with two-step verification with a code', async (t) => {
    await createUser(site, 'coded')
    await useProvider(site, provider.issuer)
    provider.person = { ...ada, sub: 'ada-2' }
    const context = await site.browser.newContext({ baseURL: site.url })
    t.teardown(() => context.close())
    const page = await context.newPage()
    const data = { username: 'coded', password: 'password', otp_code: '', remember: false }
    t.ok((await page.request.post('/api/auth/session', { data })).ok())
    await page.goto('/@profile')
    const { users } = site.gateway.accounts
    const secret = newOtpSecret()
    await users.update(users.byName('coded')?.id ?? 0, { otpSecret: secret })
    await page.getByRole('link', { name: 'Link an identity' }).click()
    await page.getByLabel('Code').fill('000000')
    await button(page, 'Go on').click()
    await page.getByRole('alert').getByText('The code is wrong').waitFor()
    await page.getByLabel('Code').fill(generateSync({ secret }))
    await button(page, 'Go on').click()
    await page.getByRole('cell', { name: provider.issuer }).waitFor()
    t.equal(new URL(page.url()).pathname, '/@profile')
  })

  await t.test('a page of another site leads to a question', async (t) => {
    provider.person = ada
    const context = await site.browser.newContext()
    t.teardown(() => context.close())
    const page = await context.newPage()
    const begin = `${site.url}/api/auth/sso?method=console&redirect=/@profile`
    await page.route('http://other.localhost/', (route) =>
      route.fulfill({ contentType: 'text/html', body: `<a href="${begin}">Go</a>` }),
    )
    await page.goto('http://other.localhost/')
    await page.getByRole('link', { name: 'Go' }).click()
    await page.getByRole('heading', { name: 'Sign in?' }).waitFor()
    await page.getByRole('link', { name: 'Sign in' }).click()
    await page.waitForURL((url) => url.pathname === '/@profile')
  })

  await t.test('a session is confirmed at the provider, where it began', async (t) => {
    const { accounts, store } = site.gateway
    const id = accounts.users.byName('ada')?.id ?? 0
    await accounts.users.endSessions(id)
    const context = await site.browser.newContext()
    t.teardown(() => context.close())
    const page = await context.newPage()
    await page.goto(`${site.url}/@profile`)
    await link(page).click()
    await page.getByRole('cell', { name: provider.issuer }).waitFor()
    const sessions = () => accounts.consoleSessions.list(id).map((session) => session.id)
    const [session = 0, ...others] = sessions()
    t.same(others, [])
    await store.consoleSessions.confirm(session, new Date(0))
    await accounts.reload()
    const rename = async () => {
      await page.getByLabel('Name', { exact: true }).fill('ada l')
      await button(page, 'Change the name').click()
    }
    await rename()
    const asked = dialog(page, 'Confirm that it is you')
    await asked.getByRole('link', { name: 'Sign in again with single sign-on' }).click()
    await asked.waitFor({ state: 'detached' })
    await page.getByRole('cell', { name: provider.issuer }).waitFor()
    t.same(sessions(), [session], 'the session was confirmed, and no other opened')
    await rename()
    await page.getByRole('status').getByText('The name is changed.').waitFor()
  })

  await t.test('the fields for a password can be hidden, and reached by the address', async (t) => {
    await useProvider(site, provider.issuer, { sso_only: 'true' })
    await visit(t, site, { user: null, at: '/@login' }, async (page) => {
      await link(page).waitFor()
      t.equal(await page.getByRole('textbox', { name: 'Password' }).count(), 0)
    })
    await visit(t, site, { user: null, at: '/@login?local' }, async (page) => {
      await page.getByRole('textbox', { name: 'Username' }).fill('admin')
      await page.getByRole('textbox', { name: 'Password' }).fill(site.adminPassword)
      await button(page, 'Sign in').click()
      await files(page).waitFor()
    })
  })
})
