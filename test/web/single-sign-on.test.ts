/** Single sign-on in the console: the sign-in page, the profile, and signing out. */
import type { Page } from 'playwright-core'
import t from 'tap'
import { startOpenIdProvider } from '../servers/openid-provider.js'
import { ada, useProvider } from '../sign-in/site.js'
import { withoutBrowser } from './browser.js'
import { button, files, startSite, visit } from './site.js'

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
