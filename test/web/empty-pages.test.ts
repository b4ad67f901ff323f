/** Pages that have nothing to show say so, and lead on. */
import t from 'tap'
import { axeViolations, withoutBrowser } from './browser.js'
import { startSite, visit } from './site.js'

/** By the address of the page: what it says, and the links to the next step with their addresses. */
const pages: Readonly<Record<string, Readonly<Record<string, readonly [link: string, address: string]>>>> = {
  '/@tasks': { 'Nothing is in progress.': ['Go to the files', '/'] },
  '/@manage/sign-ins': {
    'Nobody is locked.': ['Require two-step verification of a group', '/@manage/groups'],
    'No failed sign-in is recorded.': ['Show the sign-ins that succeeded', '/@manage/audit?kind=signin.ok'],
  },
  '/@manage/locks': { 'Nothing is locked.': ['Programs that use WebDAV', '/@manual/clients'] },
  '/@manage/dashboard': { 'Nothing was sent or received yet.': ['Go to the files', '/'] },
}

void t.test('pages without content', { skip: withoutBrowser }, async (t) => {
  const site = await startSite(t)
  await visit(t, site, {}, async (page) => {
    for (const [at, parts] of Object.entries(pages)) {
      await page.goto(at)
      for (const [text, [link, address]] of Object.entries(parts)) {
        const part = page.locator('.empty').filter({ hasText: text }).first()
        t.equal(await part.getByRole('link', { name: link, exact: true }).getAttribute('href'), address, text)
      }
      t.strictSame(await axeViolations(page), [], at)
    }
  })
})
