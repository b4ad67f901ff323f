/** The settings of single sign-on and LDAP in the console: in words, tried before they are saved. */
import type { Page } from 'playwright-core'
import t from 'tap'
import { knownSettings } from '../../src/cli/data-folder.js'
import { lacks } from '../programs.js'
import { startOpenIdProvider, clientId, clientSecret } from '../servers/openid-provider.js'
import { reader, slapdPrograms, startSlapd, suffix } from '../servers/slapd.js'
import { withoutBrowser } from './browser.js'
import { consoleModule } from './console-modules.js'
import { button, startSite, visit } from './site.js'

interface Layout {
  readonly basic: readonly string[]
  readonly required: readonly string[]
  readonly parts: Readonly<Record<string, readonly string[]>>
}

/** What the fields outside of the form are: the provider is chosen, and its address has a name of its own. */
const chosenApart = 'sso_login_platform'

void t.test('each setting has its place', async (t) => {
  const { layoutOf } = (await consoleModule(`export { layoutOf } from './admin/sign-in-fields.ts'`, {
    languages: ['en'],
  })) as { readonly layoutOf: (group: number, platform: string) => Layout }
  const groups = { singleSignOn: 7, ldap: 8 } as const
  for (const [group, number] of Object.entries(groups)) {
    const keys = knownSettings.filter((row) => row.group === group && row.inForce).map(({ key }) => key)
    t.ok(keys.length > 15, 'the settings were found')
    for (const platform of group === 'ldap' ? [''] : ['OIDC', 'Github', 'Google', 'Microsoft', 'Casdoor']) {
      const { basic, required, parts } = layoutOf(number, platform)
      t.ok(basic.length <= 5, `${platform}: ${basic.length} fields before the others`)
      t.ok(required.length > 0 && required.every((key) => basic.includes(key)), 'what is required comes first')
      const shown = [...basic, ...Object.values(parts).flat()]
      const apart = [chosenApart, ...(platform === 'Google' ? ['sso_endpoint_name'] : [])]
      t.strictSame([...shown].sort(), keys.filter((key) => !apart.includes(key)).sort(), `${group} ${platform}`)
    }
  }
})

const field = (page: Page, label: string) => page.getByLabel(label, { exact: true })
const choice = (page: Page, label: string) => page.getByRole('combobox', { name: label, exact: true })
const test = (page: Page) => button(page, 'Test').click()
const says = (page: Page, role: 'alert' | 'status', text: string | RegExp) =>
  page.locator('form').getByRole(role).getByText(text).waitFor()

void t.test('in the browser', { skip: withoutBrowser }, async (t) => {
  const site = await startSite(t)
  const { gateway } = site
  const provider = await startOpenIdProvider(t, site.url)

  await t.test('single sign-on is set up, and what is wrong is said before it is saved', (t) =>
    visit(t, site, { at: '/@manage/settings' }, async (page) => {
      await choice(page, 'Group').selectOption('Single sign-on')
      await page.getByText(`${site.url}/api/auth/sso_callback`, { exact: true }).waitFor()
      await field(page, 'Single sign-on').check()
      await test(page)
      t.equal(await page.evaluate(() => document.activeElement?.matches(':invalid')), true, 'a field is required')
      await page.getByLabel('Address of the provider').fill(provider.issuer)
      await page.getByLabel('Client ID').fill(clientId)
      await field(page, 'Client secret').fill('not this one')
      await test(page)
      await says(page, 'alert', /^The address is in a network that the server may not reach\./)
      await gateway.settings.set(new Map([['egress_networks', '127.0.0.0/8']]))
      await test(page)
      await says(page, 'alert', 'It refuses these credentials.')
      await field(page, 'Client secret').fill(clientSecret)
      t.equal(await page.locator('form').getByRole('alert').count(), 0, 'a change makes the outcome void')
      await test(page)
      await says(page, 'status', 'It works.')
      t.equal(gateway.settings.bool('sso_login_enabled'), false, 'nothing is saved yet')
      await button(page, 'Save').click()
      await page.getByRole('status').getByText('The settings are saved.').waitFor()
      t.equal(gateway.settings.get('sso_client_secret'), clientSecret)
      t.equal(gateway.settings.get('sso_login_platform'), 'OIDC')
      t.equal(gateway.settings.bool('sso_login_enabled'), true)
    }),
  )

  await t.test('a stored secret is not shown, and stays when something else is saved', (t) =>
    visit(t, site, { at: '/@manage/settings?group=7' }, async (page) => {
      t.equal(await field(page, 'Client secret').inputValue(), '')
      await test(page)
      await says(page, 'status', 'It works.')
      await page.getByText('More options').click()
      await field(page, 'Text of the button').fill('Our accounts')
      await page.getByRole('group', { name: 'Permissions of new accounts' }).getByRole('checkbox').first().check()
      await button(page, 'Save').click()
      await page.getByRole('status').getByText('The settings are saved.').waitFor()
      t.equal(gateway.settings.get('sso_client_secret'), clientSecret)
      t.equal(gateway.settings.get('sso_login_text'), 'Our accounts')
      t.ok(gateway.settings.number('sso_default_permission') > 0)
    }),
  )

  await t.test('each provider has its own fields, and the search leads to those of all', (t) =>
    visit(t, site, { at: '/@manage/settings?group=7&setting=sso_group_map' }, async (page) => {
      await field(page, 'Groups there and here').waitFor()
      await page.waitForFunction(() => document.activeElement?.matches('textarea'))
      await choice(page, 'Kind of provider').selectOption('Google')
      t.equal(await page.getByLabel('Address of the provider').count(), 0)
      await choice(page, 'Kind of provider').selectOption('Microsoft Entra ID')
      await page.getByLabel('Tenant').waitFor()
      await field(page, 'Sign in by redirects').check()
      await page.getByText(`${site.url}/api/auth/get_sso_id`, { exact: true }).waitFor()
    }),
  )

  await t.test('LDAP is set up, with somebody who is looked for', { skip: lacks(...slapdPrograms) }, async (t) => {
    const slapd = await startSlapd()
    t.teardown(() => slapd.stop())
    await slapd.addPerson('ada', 'the password of ada')
    await slapd.addGroup('staff', ['ada'])
    await visit(t, site, { at: '/@manage/settings?group=8' }, async (page) => {
      await field(page, 'Sign-in with LDAP').check()
      await page.getByLabel('Address of the directory').fill(`ldap://127.0.0.1:${slapd.port}`)
      await page.getByLabel('Account that searches (DN)').fill(reader.dn)
      await page.getByLabel('Password of this account').fill('wrong')
      await page.getByLabel('Where users are searched for (DN)').fill(`ou=people,${suffix}`)
      await test(page)
      await says(page, 'alert', /^It refuses these credentials\..*0x31/)
      await page.getByLabel('Password of this account').fill(reader.password)
      await field(page, 'Name to look for').fill('ada')
      await test(page)
      await says(page, 'status', 'Found: ada, in 1 group:')
      await page.getByText(`cn=staff,ou=groups,${suffix}`, { exact: true }).waitFor()
      await button(page, 'Save').click()
      await page.getByRole('status').getByText('The settings are saved.').waitFor()
      t.equal(gateway.ldap.isOn, true)
    })
  })
})
