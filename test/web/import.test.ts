/** The import of another program's data by the first steps of the console. */
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { withoutNodes } from '../gateway.js'
import { axeViolations, withoutBrowser } from './browser.js'
import { button, startSite, visit } from './site.js'

const fixture = (path: string) => fileURLToPath(new URL(`../../../test/fixtures/${path}`, import.meta.url))

void t.test(
  'an administrator moves from OpenList: a report, the import, the old password, and no second import',
  { skip: withoutBrowser || withoutNodes },
  async (t) => {
    const site = await startSite(t)
    await visit(t, site, { at: '/@manage/start' }, async (page) => {
      await page.getByText('Move from OpenList, AList or File Browser').click()
      const report = page.getByRole('table', { name: 'What becomes of it' })
      const [dryRun, run] = [button(page, 'Show what would be taken'), button(page, 'Import')]
      const choose = (...names: readonly string[]) =>
        page
          .getByLabel('Files (choose again to add more)')
          .setInputFiles(names.map((name) => fixture(`openlist/${name}`)))
      t.equal(await dryRun.isDisabled(), true)
      await choose('data.db', 'nora_key')
      await page.getByText('Chosen: data.db', { exact: true }).waitFor()
      await dryRun.click()
      await page.getByRole('alert').getByText('the configuration config.json cannot be read').waitFor()
      t.equal(await run.count(), 0, 'nothing can be imported')

      await choose('config.json', 'ssh/ssh_host_rsa_key')
      await page.getByText('Chosen: data.db, config.json, ssh_host_rsa_key').waitFor()
      await dryRun.click()
      const row = report.getByRole('row').filter({ hasText: '/lanzou' })
      await row.getByText('disabled: there is no driver Lanzou').waitFor()
      await page.getByRole('status').getByText('21 taken, 2 changed, 0 left out').waitFor()
      t.same(await axeViolations(page), [])
      t.ok(site.gateway.accounts.users.byName('nora') === undefined, 'nothing is stored yet')

      await run.click()
      await page.getByText('The SFTP host key is used from the next start of this server.').waitFor()
      t.ok(site.gateway.accounts.users.byName('nora'))
      await button(page, 'Sign in again').click()
      await page.getByRole('textbox', { name: 'Username' }).fill('admin')
      await page.getByRole('textbox', { name: 'Password' }).fill('Passw0rd-1')
      await button(page, 'Sign in').click()
      await page.getByRole('link', { name: 'Storages' }).first().click()
      await page.getByRole('cell', { name: '/lanzou', exact: true }).waitFor()

      await page.goto('/@manage/start')
      await page.getByText('Move from OpenList, AList or File Browser').click()
      await page.getByRole('combobox', { name: 'Program' }).selectOption('File Browser')
      const files = ['users.json', 'config.json'].map((name) => fixture(`filebrowser/${name}`))
      await page.getByLabel('Files (choose again to add more)').setInputFiles(files)
      const shares = { name: 'shares.json', mimeType: 'application/json', buffer: Buffer.from('[]') }
      await page.getByLabel('Files (choose again to add more)').setInputFiles(shares)
      await page.getByText('Chosen: users.json, config.json, shares.json', { exact: true }).waitFor()
      await page.getByLabel('Folder with the files on this server').fill('/srv')
      await dryRun.click()
      await page.getByRole('alert').getByText('this installation has users, storages or rules of its own').waitFor()
    })
  },
)
