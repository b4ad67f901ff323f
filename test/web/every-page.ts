/** Every page and dialog of the console, and a site that has something to show on each. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import type { Test } from 'tap'
import { asPath } from '../../src/base/path.js'
import { principal } from '../accounts/principals.js'
import { keyLine } from '../protocols/http/key-line.js'
import { pdfOf, picture, tone } from './documents.js'
import { button, createUser, rowOf, startSite, visit, type Site, type VisitOptions } from './site.js'

/** A text of the console, given in English, as it is shown. */
export type Say = (english: string) => string

/** Waits until a page shows what it loads. */
type Ready = (page: Page, say: Say) => Promise<unknown>

const text =
  (shown: string): Ready =>
  (page, say) =>
    page.getByText(say(shown)).first().waitFor()
/** What the site has, in no language of the console. */
const content =
  (shown: string): Ready =>
  (page) =>
    page.getByText(shown).first().waitFor()
const table =
  (name: string): Ready =>
  (page, say) =>
    page.getByRole('table', { name: say(name), exact: true }).waitFor()

/** Every page of the administrator, by its address. */
export const pages: Readonly<Record<string, Ready>> = {
  '/': (page, say) => rowOf(page, 'notes.md', say).waitFor(),
  '/folder': text('This folder is empty.'),
  '/nothing': text('There is no such file or folder.'),
  '/notes.md': (page) => page.getByRole('heading', { name: 'Heading' }).waitFor(),
  '/script.js': (page) => page.getByRole('textbox', { name: 'script.js' }).getByText('answer').waitFor(),
  '/latin1.txt': text('You can read this file, but not change it here.'),
  '/picture.png': (page) => page.getByRole('img', { name: 'picture.png' }).waitFor(),
  '/tone.wav': (page) => page.locator('audio').waitFor(),
  '/letter.pdf': (page) => page.locator('canvas').first().waitFor(),
  '/program.bin': text('This kind of file cannot be shown here. Download it to open it.'),
  '/@search?words=notes': (page) => page.getByRole('link', { name: 'notes.md' }).waitFor(),
  '/@tasks': text('succeeded'),
  '/@downloads': text('Nothing is in progress.'),
  '/@manage/shares': table('Shares'),
  '/@profile': table('Sessions'),
  '/@manage/dashboard': table('Last events'),
  '/@manage/audit': table('Audit'),
  '/@manage/audit?kind=signin.ok': table('Audit'),
  '/@manage/sign-ins': text('Nobody is locked.'),
  '/@manage/webhooks': table('Webhooks'),
  '/@manage/storages': table('Storages'),
  '/@manage/users': table('Users'),
  '/@manage/groups': table('Groups'),
  '/@manage/rules': table('Rules'),
  '/@manage/settings': (page, say) => page.getByRole('textbox', { name: say('Site title') }).waitFor(),
  '/@manage/settings?group=0': text('Replace the token'),
  '/@manage/settings?group=7': (page, say) => page.getByLabel(say('Client ID')).waitFor(),
  '/@manage/settings?group=8': (page, say) => page.getByLabel(say('Address of the directory')).waitFor(),
  '/@manage/settings?group=12': (page, say) => page.getByLabel(say('Days until events are deleted')).waitFor(),
  '/@manage/about': content(process.version),
  '/@manage/downloads': content('qBittorrent'),
  '/@manage/connections': table('Signed-in browsers'),
  '/@manage/locks': table('Locks'),
  '/@manage/index': (page, say) => button(page, say('Build anew')).waitFor(),
  '/@manage/log': content('ebb tide'),
  '/@manage/explain': (page, say) => page.getByRole('combobox', { name: say('User'), exact: true }).waitFor(),
  '/@manage/start': text('The server shows one of these fingerprints at the first connection:'),
  '/@manual': content('For administrators'),
  '/@nothing': text('There is no such page, or you have no permission to see it.'),
}

/** The buttons that open dialogs, by the address of their page: what they say, and the name of their row. */
export const dialogs: Readonly<Record<string, readonly (readonly [word: string, row?: string])[]>> = {
  '/': [
    ['New folder'],
    ['Download from URLs'],
    ['Rename'],
    ['Move'],
    ['Copy'],
    ['Delete'],
    ['Share'],
    ['Link'],
    ['Properties'],
  ],
  '/@downloads': [['Download from URLs']],
  '/@profile': [
    ['Set up'],
    ['Add an SSH key'],
    ['Remove', 'ann@laptop'],
    ['Create an app password'],
    ['Remove', 'program'],
  ],
  '/@manage/webhooks': [
    ['Add a webhook'],
    ['Failures', 'index'],
    ['Edit', 'index'],
    ['New secret', 'index'],
    ['Delete', 'index'],
  ],
  '/@manage/storages': [['Add a storage'], ['Edit', '/'], ['Delete', '/']],
  '/@manage/shares': [
    ['Show the link', 'folder, aBc'],
    ['Edit', 'folder, aBc'],
    ['Delete', 'folder, aBc'],
  ],
  '/@manage/users': [['Add a user'], ['Edit', 'ann'], ['Delete', 'ann']],
  '/@manage/groups': [['Add a group'], ['Edit', 'sales'], ['Delete', 'sales']],
  '/@manage/rules': [['Add a rule'], ['Delete', '/closed']],
  '/@manage/settings?group=0': [['Replace the token']],
}

/** A site that has something to show on every page. It ends with the test. */
export async function fullSite(t: Test): Promise<Site> {
  const site = await startSite(t)
  const { call, folder, gateway } = site
  const contents = {
    'notes.md': '# Heading\n\n- [link](other)\n\n| a | b |\n| - | - |\n| 1 | `2` |\n',
    'script.js': '// comment\nconst answer = "text" + 42\n',
    'latin1.txt': Buffer.from('caf\xe9\n', 'latin1'),
    'picture.png': picture,
    'tone.wav': tone(1),
    'letter.pdf': pdfOf('Dear reader'),
    'program.bin': Buffer.from([0, 1, 2]),
  }
  for (const [name, content] of Object.entries(contents)) await writeFile(join(folder, name), content)
  for (const name of ['folder', 'closed']) await mkdir(join(folder, name))
  await createUser(site, 'ann')
  await gateway.settings.set(
    new Map([
      ['search_index', 'database'],
      ['announcement', 'Closed on **Sunday**, [see](closed).'],
      ['main_color', 'gold'],
    ]),
  )
  await call('/api/admin/index/build', {})
  await call('/api/admin/meta/create', { path: '/closed', password: 'x', p_sub: true })
  await call('/api/admin/meta/create', { path: '/', header: '# Above', readme: 'See [below](below).' })
  const grants = [
    { path: '/folder', allow: ['see'], deny: ['write'] },
    { path: '/closed', allow: [], deny: ['see'] },
  ]
  const group = { name: 'sales', description: 'Those who sell', members: [1], grants }
  await call('/api/admin/group/create', group)
  await call('/api/share/create', { files: ['/folder'], id: 'aBc', pwd: 'tide', webdav: true, creator: 'admin' })
  await call('/api/me/sshkey/add', { title: 'ann@laptop', key: keyLine() })
  await call('/api/me/app_password/add', { name: 'program', protocols: ['webdav'], read_only: false })
  await call('/api/admin/storage/create', { mount_path: '/other', driver: 'Memory', addition: '{}' })
  await call('/api/fs/copy', { src_dir: '/', dst_dir: '/other', names: ['program.bin'] })
  await call('/api/admin/webhook/create', { name: 'index', url: 'https://example.com/hook', enabled: false })
  const wish = { scope: 'exclusive', deep: false, owner: '', seconds: 600 } as const
  await gateway.locks.grant(asPath('/notes.md'), wish, principal({ userId: 77, username: 'somebody' }))
  gateway.logTail.add('{"level":50,"time":"2026-01-02T03:04:05Z","msg":"ebb tide","path":"/harbour"}')
  return site
}

/** What the browser shows. `within`: the dialog. */
type Check = (page: Page, what: string, within?: 'dialog') => Promise<void>

interface EveryPageOptions extends VisitOptions {
  readonly say?: Say
  readonly skipsDialogs?: boolean
}

/** Checks every page and every dialog. */
export async function visitEveryPage(
  t: Test,
  site: Site,
  check: Check,
  { say = (english) => english, skipsDialogs = false, ...options }: EveryPageOptions = {},
): Promise<void> {
  await visit(t, site, options, async (page) => {
    for (const [address, ready] of Object.entries(pages)) {
      await page.evaluate(`history.pushState(null, '', ${JSON.stringify(address)})`)
      await ready(page, say)
      await check(page, address)
      const subjects = await page
        .locator('.side-bar a[href^="/@"], a[href^="/@manage/"]')
        .evaluateAll((links) => links.map((link) => link.getAttribute('href')))
      for (const href of subjects) t.ok(href !== null && href in pages, `${href} is among the pages`)
      for (const [word, row] of skipsDialogs ? [] : (dialogs[address] ?? [])) {
        // The bar has the actions of the selected entries as soon as there are any.
        if (address === '/' && word === 'Rename') {
          await rowOf(page, 'notes.md', say).getByRole('checkbox').check()
          await check(page, `${address}: a selection`)
        }
        const opener = button(page, [say(word), row].filter((part) => part !== undefined).join(' '))
        if (address === '/' && (await opener.count()) === 0) {
          await button(page, say('More')).click()
          await page.getByRole('menuitem', { name: say(word), exact: true }).click()
        } else await opener.click()
        await page.getByRole('dialog').waitFor()
        for (const more of await button(page, say('Choose rights one by one')).all()) await more.click()
        await check(page, `${address}: ${word} ${row ?? ''}`, 'dialog')
        await page.keyboard.press('Escape')
        await page.getByRole('dialog').waitFor({ state: 'detached' })
      }
    }
  })
}

/** What does not fit: all that scrolls sideways, and rows of more than one line. */
export function tooLarge(page: Page): Promise<readonly string[]> {
  return page.evaluate(() =>
    [
      ...[...document.querySelectorAll('html, main, .dialog-body')].filter((e) => e.scrollWidth > e.clientWidth),
      ...[...document.querySelectorAll('.row')].filter((e) => e.scrollHeight > e.clientHeight),
    ].map(({ outerHTML }) => outerHTML.slice(0, 100)),
  )
}
