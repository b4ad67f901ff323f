/** Who did what, in the console: the audit, the history of a file, sign-ins, webhooks, and the overview. */
import { readFile } from 'node:fs/promises'
import type { Locator, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { startReceiver } from '../webhooks/receiver.js'
import { axeViolations, eventually, withoutBrowser } from './browser.js'
import { button, createUser, dialog, files, rowOf, startSite, visit, type Site, type VisitOptions } from './site.js'

const phone: VisitOptions = { width: 360, height: 740, colors: 'dark' }
const ann = { username: 'ann', password: 'password' }

interface Answer {
  readonly code: number
  readonly data: { readonly token: string } | null
}

/** Calls the API as somebody else. Resolves to the envelope, also of a refusal. */
async function send({ url }: Site, path: string, body: object, token = ''): Promise<Answer> {
  const headers = { 'content-type': 'application/json', authorization: token }
  const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
  return (await response.json()) as Answer
}

async function fits(t: Test, page: Page, what: string): Promise<void> {
  t.strictSame(await axeViolations(page), [], what)
  const isTooWide = await page.evaluate(() =>
    [...document.querySelectorAll('html, main, .dialog-body')].some((each) => each.scrollWidth > each.clientWidth),
  )
  t.notOk(isTooWide, `${what}: everything fits`)
}

/** The rows of a table whose text has all of these. */
function rows(page: Page, table: string, ...texts: readonly string[]): Locator {
  const all = page.getByRole('table', { name: table, exact: true }).locator('tbody').getByRole('row')
  return texts.reduce((found, hasText) => found.filter({ hasText }), all)
}

void t.test('who did what', { skip: withoutBrowser }, async (t) => {
  const site = await startSite(t)
  const { call } = site
  const mkdir = (path: string) => call('/api/fs/mkdir', { path })
  await createUser(site, 'ann')
  const grants = [{ path: '/closed', allow: ['see'], deny: ['write'] }]
  const users = ((await call('/api/admin/user/list')) as { content: { id: number; username: string }[] }).content
  const members = users.filter(({ username }) => username === 'ann').map(({ id }) => id)
  await call('/api/admin/group/create', { name: 'readers', members, grants })
  await mkdir('/closed')
  const annToken = (await send(site, '/api/auth/login', ann)).data?.token

  await t.test('the administration begins with an overview, which has no empty chart on the first day', async (t) => {
    await visit(t, site, { ...phone, at: '/@manage' }, async (page) => {
      await page.getByRole('heading', { name: 'Overview' }).waitFor()
      await page.getByRole('img', { name: /^The last hour: .* 1 change,/ }).waitFor()
      await page.getByText(/^Since \d+:\d\d.*: 0 bytes received/).waitFor()
      await rows(page, 'Storages', '/', 'works').waitFor()
      await page.getByText('There are no tasks.').waitFor()
      await page.getByText('Nothing has failed.').waitFor()
      await rows(page, 'Last events', 'made a folder', '/closed').waitFor()
      await fits(t, page, 'overview')
    })
  })

  await t.test('the audit follows live, until it is told not to', (t) =>
    visit(t, site, { at: '/@manage/audit' }, async (page) => {
      await rows(page, 'Audit', 'admin', 'made a folder', '/closed', '127.0.0.1, HTTP').waitFor()
      const first = rows(page, 'Audit').first()
      await first.locator('summary').focus()
      await page.keyboard.press('Enter')
      await first.getByText('Id', { exact: true }).waitFor()
      await mkdir('/live')
      await rows(page, 'Audit', 'made a folder', '/live').waitFor()
      t.equal(await page.locator('details[open]').count(), 1, 'what is open stays open')
      await fits(t, page, 'audit')
      await page.getByRole('checkbox', { name: 'Follow live' }).uncheck()
      await mkdir('/still')
      // An event is stored shortly after its answer.
      const refreshed = async () => {
        await button(page, 'Refresh').click()
        return rows(page, 'Audit', '/still').count()
      }
      await eventually(t, refreshed, 1)
    }),
  )

  await t.test('it is filtered, says why something was refused, and is saved as a file', (t) =>
    visit(t, site, { ...phone, at: '/@manage/audit' }, async (page) => {
      t.not((await send(site, '/api/fs/mkdir', { path: '/closed/mine' }, annToken)).code, 200)
      await rows(page, 'Audit', '/closed/mine').waitFor()
      await page.getByRole('textbox', { name: 'Folder or file' }).fill('/closed')
      await page.getByRole('combobox', { name: 'What' }).selectOption({ label: 'Files: all' })
      await page.getByRole('combobox', { name: 'Result' }).selectOption('not allowed')
      await button(page, 'Show').click()
      await eventually(t, () => rows(page, 'Audit').count(), 1)
      const row = rows(page, 'Audit', 'ann', 'made a folder, not allowed: no permission')
      await row.waitFor()
      await row.locator('summary').click()
      await row.getByText('Decided by', { exact: true }).waitFor()
      t.match(await row.textContent(), /the grant of the group readers at/)
      await fits(t, page, 'a filtered audit')
      t.match(page.url(), /path=%2Fclosed&kind=files&result=refused/, 'the address names the filter')
      const [csv] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('link', { name: 'Save as CSV' }).click(),
      ])
      const lines = (await readFile(await csv.path(), 'utf8')).trim().split('\r\n')
      t.equal(lines.length, 2, 'the file has what the page shows')
      t.match(lines[1], /,folder\.made,refused,.*\/closed\/mine/)
      await page.getByRole('textbox', { name: 'User' }).fill('nobody')
      await page.keyboard.press('Enter')
      await page.getByText('Nothing that is recorded matches.').waitFor()
      await button(page, 'Show everything').click()
      await rows(page, 'Audit', '/live').waitFor()
    }),
  )

  await t.test('whoever sees a file sees its history, also before it was renamed', async (t) => {
    await mkdir('/draft')
    await call('/api/fs/rename', { path: '/draft', name: 'final' })
    const history = async (page: Page) => {
      await rowOf(page, 'final').click({ button: 'right' })
      await page.getByRole('menuitem', { name: 'History' }).click()
      const shown = dialog(page, 'History of final')
      await rows(page, 'History of final', 'admin', 'made a folder').waitFor()
      await rows(page, 'History of final', 'moved or renamed, /draft → /final').waitFor()
      return (await shown.textContent()) ?? ''
    }
    await visit(t, site, {}, async (page) => {
      t.match(await history(page), '127.0.0.1')
      await page.keyboard.press('Escape')
      await dialog(page, 'History of final').waitFor({ state: 'detached' })
      t.ok(await files(page).isVisible())
    })
    await visit(t, site, { ...phone, user: ann }, async (page) => {
      t.notMatch(await history(page), '127.0.0.1')
      await fits(t, page, 'history')
    })
  })

  await t.test('a locked address is shown, and unlocked', (t) =>
    visit(t, site, { ...phone, at: '/@manage/sign-ins' }, async (page) => {
      await page.getByText('Nobody is locked.').waitFor()
      for (let attempt = 0; attempt < 5; attempt++) {
        await send(site, '/api/auth/login', { username: 'ann', password: `wrong ${attempt}` })
      }
      await page.reload()
      const locked = rows(page, 'Locked now', 'All sign-ins from 127.0.0.1')
      await locked.waitFor()
      await rows(page, 'Failed sign-ins', 'ann', 'could not sign in, wrong name or password').first().waitFor()
      await fits(t, page, 'sign-ins')
      await button(page, 'Unlock All sign-ins from 127.0.0.1').click()
      await locked.waitFor({ state: 'detached' })
      t.equal((await send(site, '/api/auth/login', ann)).code, 200)
      await page.getByRole('link', { name: 'Show all in the audit' }).click()
      await rows(page, 'Audit', 'could not sign in').first().waitFor()
      t.equal(await rows(page, 'Audit', 'made a folder').count(), 0)
    }),
  )

  await t.test(
    'a webhook is made, tried, switched off by its receiver, and given again what it has missed',
    async (t) => {
      await call('/api/admin/setting/save', [{ key: 'egress_networks', value: '127.0.0.0/8' }])
      const receiver = await startReceiver(t)
      await visit(t, site, { ...phone, at: '/@manage/webhooks' }, async (page) => {
        await button(page, 'Add a webhook').click()
        const form = dialog(page, 'Add a webhook')
        await form.getByRole('textbox', { name: 'Name' }).fill('index')
        await form.getByRole('textbox', { name: 'URL' }).fill(receiver.url)
        await form.getByRole('checkbox', { name: 'made a folder' }).check()
        await form.getByRole('textbox', { name: 'Only of these' }).fill('/live\n')
        await fits(t, page, 'the form of a webhook')
        await form.getByRole('button', { name: 'Save' }).click()
        const secret = dialog(page, 'The secret')
        t.match(await secret.locator('code').textContent(), /^whsec_/)
        await page.keyboard.press('Escape')
        await rows(page, 'Webhooks', 'index', 'made a folder, /live', 'on').waitFor()
        await button(page, 'Test index').click()
        await page.getByText(/^index has received the test in \d+ ms\.$/).waitFor()

        receiver.script = (answer) => answer.writeHead(410).end()
        await mkdir('/live/one')
        await rows(page, 'Webhooks', 'switched off: the receiver has answered 410').waitFor()
        await button(page, 'Failures index').click()
        const failures = dialog(page, 'Not received by index')
        await rows(page, 'Not received by index', 'folder.made /live/one').waitFor()
        await failures.getByText('This webhook is off.').waitFor()
        await fits(t, page, 'what was not received')
        await failures.getByRole('combobox', { name: 'Show' }).selectOption({ index: 1 })
        await failures.getByText('Nothing is waiting.').waitFor()
        await page.keyboard.press('Escape')

        receiver.script = (answer) => answer.writeHead(204).end()
        await button(page, 'Turn on index').click()
        await button(page, 'Turn off index').waitFor()
        await button(page, 'Failures index').click()
        await failures.getByRole('button', { name: 'Send all again' }).click()
        await failures.getByText('1 event is sent again.').waitFor()
        await eventually(t, () => Promise.resolve(receiver.received.length), 3)
        await failures.getByText('Nothing has failed for good.').waitFor()
        await failures.getByLabel('From').fill('2026-01-01T00:00')
        await failures.getByLabel('Until').fill('9999-01-01T00:00')
        await failures.getByRole('button', { name: 'Send those again' }).click()
        // An earlier folder matches too.
        const again = () => receiver.ids.slice(2).filter((id) => id === receiver.ids[1]).length
        await eventually(t, () => Promise.resolve(again()), 2)
        await page.keyboard.press('Escape')

        await button(page, 'New secret index').click()
        await dialog(page, 'New secret of index').getByRole('button', { name: 'New secret' }).click()
        t.match(await secret.locator('code').textContent(), /^whsec_/)
        await page.keyboard.press('Escape')
        await button(page, 'Delete index').click()
        await dialog(page, 'Delete the webhook').getByRole('button', { name: 'Delete' }).click()
        await page.getByText('Nothing is told to other programs yet.').waitFor()
      })
    },
  )
})
