/**
 * Every page and every dialog is accessible, as far as axe-core can tell: in light and dark colors, wide and narrow.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import { asPath } from '../../src/base/path.js'
import { principal } from '../accounts/principals.js'
import { keyLine } from '../protocols/http/key-line.js'
import { axeViolations, withoutBrowser } from './browser.js'
import { pdfOf, picture, tone } from './documents.js'
import { button, createUser, rowOf, startSite, visit } from './site.js'

interface Variant {
  readonly colorScheme: 'light' | 'dark'
  readonly width: number
  readonly height: number
}

const lightAndWide: Variant = { colorScheme: 'light', width: 1280, height: 800 }
const darkAndNarrow: Variant = { colorScheme: 'dark', width: 360, height: 740 }
const allVariants: readonly Variant[] = [
  lightAndWide,
  { ...lightAndWide, colorScheme: 'dark' },
  darkAndNarrow,
  { ...darkAndNarrow, colorScheme: 'light' },
]

/** Waits until a page shows what it loads. */
type Ready = (page: Page) => Promise<unknown>

const text =
  (shown: string): Ready =>
  (page) =>
    page.getByText(shown).first().waitFor()
const table =
  (name: string): Ready =>
  (page) =>
    page.getByRole('table', { name }).waitFor()

/** Every page, by its address. */
const pages: Readonly<Record<string, Ready>> = {
  '/': (page) => rowOf(page, 'notes.md').waitFor(),
  '/folder': text('This folder is empty.'),
  '/nothing': text('There is no such file or folder.'),
  '/notes.md': (page) => page.getByRole('heading', { name: 'Heading' }).waitFor(),
  '/script.js': (page) => page.getByRole('textbox', { name: 'script.js' }).getByText('answer').waitFor(),
  '/latin1.txt': text('You can read this file'),
  '/picture.png': (page) => page.getByRole('img', { name: 'picture.png' }).waitFor(),
  '/tone.wav': (page) => page.locator('audio').waitFor(),
  '/letter.pdf': (page) => page.getByRole('img', { name: 'Page 1' }).waitFor(),
  '/program.bin': text('This kind of file cannot be shown here.'),
  '/@search?words=notes': text('1 result'),
  '/@tasks': text('succeeded'),
  '/@manage/shares': table('Shares'),
  '/@profile': table('Sessions'),
  '/@manage/dashboard': table('Last events'),
  '/@manage/audit': table('Audit'),
  '/@manage/sign-ins': text('Nobody is locked.'),
  '/@manage/webhooks': table('Webhooks'),
  '/@manage/storages': table('Storages'),
  '/@manage/users': table('Users'),
  '/@manage/groups': table('Groups'),
  '/@manage/rules': table('Rules'),
  '/@manage/settings': (page) => page.getByRole('textbox', { name: 'Site title' }).waitFor(),
  '/@manage/settings?group=0': text('Replace the token'),
  '/@manage/settings?group=12': (page) => page.getByLabel('Days until events are deleted').waitFor(),
  '/@manage/about': text(process.version),
  '/@manage/downloads': text('qBittorrent'),
  '/@manage/locks': table('Locks'),
  '/@manage/index': text('The index holds'),
  '/@manage/log': text('ebb tide'),
  '/@manage/explain': (page) => page.getByRole('combobox', { name: 'User' }).waitFor(),
  '/@manage/start': text('The server shows one of these fingerprints'),
  '/@manual': text('For administrators'),
  '/@nothing': text('There is no such page'),
}

/** The buttons that open dialogs, by the address of their page. */
const dialogs: Readonly<Record<string, readonly string[]>> = {
  '/': ['New folder', 'Download from URLs', 'Rename', 'Move', 'Copy', 'Delete', 'Share', 'Link'],
  '/@profile': ['Set up', 'Add an SSH key', 'Remove ann@laptop', 'Create an app password', 'Remove program'],
  '/@manage/webhooks': ['Add a webhook', 'Failures index', 'Edit index', 'New secret index', 'Delete index'],
  '/@manage/storages': ['Add a storage', 'Edit /', 'Delete /'],
  '/@manage/shares': ['Show the link folder, aBc', 'Edit folder, aBc', 'Delete folder, aBc'],
  '/@manage/users': ['Add a user', 'Edit ann', 'Delete ann'],
  '/@manage/groups': ['Add a group', 'Edit sales', 'Delete sales'],
  '/@manage/rules': ['Add a rule', 'Delete /closed'],
  '/@manage/settings?group=0': ['Replace the token'],
}

void t.test('accessibility', { skip: withoutBrowser }, async (t) => {
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

  /** Checks what is shown, and that it fits: nothing scrolls sideways, and every row has one line. */
  const check = async (page: Page, what: string, variants: readonly Variant[], within?: string) => {
    for (const { colorScheme, ...size } of variants) {
      await page.emulateMedia({ colorScheme })
      await page.setViewportSize(size)
      const name = `${what}, ${colorScheme}, ${size.width} pixels`
      t.strictSame(await axeViolations(page, within), [], name)
      const tooLarge = await page.evaluate(() =>
        [
          ...[...document.querySelectorAll('html, main, .dialog-body')].filter((e) => e.scrollWidth > e.clientWidth),
          ...[...document.querySelectorAll('.row')].filter((e) => e.scrollHeight > e.clientHeight),
        ].map(({ outerHTML }) => outerHTML.slice(0, 100)),
      )
      t.strictSame(tooLarge, [], `${name}: everything fits`)
    }
  }

  await visit(t, site, {}, async (page) => {
    for (const [address, ready] of Object.entries(pages)) {
      await page.evaluate(`history.pushState(null, '', ${JSON.stringify(address)})`)
      await ready(page)
      await check(page, address, allVariants)
      const subjects = await page
        .locator('a[href^="/@manage/"]')
        .evaluateAll((links) => links.map((link) => link.getAttribute('href')))
      for (const href of subjects) t.ok(href !== null && href in pages, `${href} is among the pages`)
      if (address === '/') await rowOf(page, 'notes.md').getByRole('checkbox').check()
      for (const name of dialogs[address] ?? []) {
        await button(page, name).click()
        await page.getByRole('dialog').waitFor()
        for (const more of await button(page, 'Every right by itself').all()) await more.click()
        await check(page, `${address}: ${name}`, [lightAndWide, darkAndNarrow], 'dialog')
        await page.keyboard.press('Escape')
        await page.getByRole('dialog').waitFor({ state: 'detached' })
      }
    }
  })

  await visit(t, site, { user: { username: 'ann', password: 'password' }, at: '/closed' }, async (page) => {
    await page.getByText('This folder is protected by a password.').waitFor()
    await check(page, 'a folder with a password', allVariants)
    await button(page, 'Sign out').click()
    await button(page, 'Sign in').waitFor()
    await check(page, 'signing in', allVariants)
  })
})
