/** Shares in the console: how they are made, what their visitors see, and how they end. */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Locator, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { permissionBits } from '../../src/accounts/principal.js'
import { axeViolations, eventually, withoutBrowser } from './browser.js'
import { picture } from './documents.js'
import {
  button,
  createUser,
  dialog,
  files,
  namesShown,
  rowOf,
  selectEntries,
  startSite,
  visit,
  type Site,
  type VisitOptions,
} from './site.js'

const ann = { user: { username: 'ann', password: 'password' } }

/** Somebody with a phone, and no account. */
const visitor: VisitOptions = { user: null, width: 360, height: 740, colors: 'dark' }

interface Share {
  readonly id: string
  readonly files: readonly string[]
  readonly pwd: string
  readonly max_accessed: number
  readonly accessed: number
  readonly remark: string
  readonly mode: string
  readonly allow_from: readonly string[]
  readonly upload_max_files: number
  readonly readme: string
  readonly expires: string | null
  readonly creator: string
}

/** Makes a share as the administrator. Resolves to the address of its page. */
async function share({ call }: Site, fields: Partial<Share> & Readonly<Record<string, unknown>>): Promise<string> {
  const { id } = (await call('/api/share/create', fields)) as Share
  return `/@s/${id}`
}

async function sharesOf({ call }: Site): Promise<readonly Share[]> {
  return ((await call('/api/share/list')) as { content: readonly Share[] }).content
}

/** Collects the paths of what a page requests. */
function requestsOf(page: Page): readonly string[] {
  const paths: string[] = []
  page.on('request', (request) => paths.push(new URL(request.url()).pathname))
  return paths
}

/** Nothing scrolls sideways. */
async function fits(t: Test, page: Page, what: string): Promise<void> {
  t.strictSame(await axeViolations(page), [], what)
  const isTooWide = await page.evaluate(() =>
    [...document.querySelectorAll('html, main')].some((each) => each.scrollWidth > each.clientWidth),
  )
  t.notOk(isTooWide, `${what}: everything fits`)
}

/** The only row of the list of shares. */
function shareRow(page: Page): Locator {
  return page.getByRole('table', { name: 'Shares' }).locator('tbody').getByRole('row')
}

function uploads(page: Page): Locator {
  return page.getByRole('region', { name: 'Uploads' })
}

/** Chooses files by the button, after what was uploaded before is taken from the list. */
async function choose(
  page: Page,
  chosen: readonly { readonly name: string; readonly buffer: Buffer }[],
  name = 'Choose files',
): Promise<void> {
  if ((await uploads(page).count()) > 0) await uploads(page).getByRole('button', { name: 'Close' }).click()
  const [chooser] = await Promise.all([page.waitForEvent('filechooser'), button(page, name).click()])
  await chooser.setFiles(chosen.map((each) => ({ ...each, mimeType: 'application/octet-stream' })))
}

void t.test('shares', { skip: withoutBrowser }, async (t) => {
  const site = await startSite(t)
  const { call, folder } = site
  for (const name of ['photos/tides', 'inbox', 'work']) await mkdir(join(folder, name), { recursive: true })
  await writeFile(join(folder, 'photos/beach.png'), picture)
  await writeFile(
    join(folder, 'photos/notes.md'),
    '# Low water\n\n![](beach.png) [up](../../plan.txt) [top](/plan.txt)\n',
  )
  await writeFile(join(folder, 'plan.txt'), 'the plan')
  await createUser(site, 'bob')
  const permission = 0xff8 | permissionBits.share | permissionBits.customShareId
  await call('/api/admin/user/create', { ...ann.user, base_path: '/', role: 0, permission, disabled: false })

  await t.test('a selection is shared with a code that the page makes up', (t) =>
    visit(t, site, ann, async (page) => {
      await selectEntries(page, 'photos', 'plan.txt')
      await button(page, 'Share').click()
      const form = dialog(page, 'Share photos and 1 more')
      await form.getByRole('button', { name: 'Generate' }).click()
      const code = await form.getByRole('textbox', { name: 'Code' }).inputValue()
      t.match(code, /^[a-z2-9]{5}-[a-z2-9]{5}$/)
      const modes = form.getByRole('combobox', { name: 'Visitors can' }).getByRole('option')
      t.strictSame(
        await modes.evaluateAll((all) => all.map((each) => (each as unknown as { disabled: boolean }).disabled)),
        [false, true, true],
        'nothing can be sent to a file',
      )
      await form.getByRole('spinbutton', { name: 'Limit of visits' }).fill('5')
      await form.getByText('More options').click()
      await form.getByRole('textbox', { name: 'Only from these networks' }).fill('127.0.0.0/8\n::1')
      await form.getByRole('textbox', { name: 'Own name in the link' }).fill('photos')
      t.strictSame(await axeViolations(page, 'dialog'), [])
      await page.keyboard.press('Enter')
      const made = dialog(page, 'The share is ready')
      await eventually(
        t,
        () => made.getByRole('textbox', { name: 'Link' }).inputValue(),
        new URL('/@s/photos', page.url()).href,
      )
      await made.getByText(code, { exact: true }).waitFor()
      await eventually(
        t,
        () => made.getByRole('img').evaluate((image) => (image as HTMLImageElement).naturalWidth > 0),
        true,
        'the QR code is a picture',
      )
      t.strictSame(await axeViolations(page, 'dialog'), [])
      await made.getByRole('button', { name: 'Copy the link' }).click()
      await page.getByRole('status').getByText('The link is copied.').waitFor()
      await made.getByRole('button', { name: 'Close' }).click()
      t.match(await sharesOf(site), [
        {
          id: 'photos',
          files: ['/photos', '/plan.txt'],
          pwd: code,
          max_accessed: 5,
          mode: 'read',
          allow_from: ['127.0.0.0/8', '::1'],
          expires: null,
        },
      ])
      await call('/api/share/update', { id: 'photos', files: ['/photos', '/plan.txt'], pwd: 'low-water' })
    }),
  )

  await t.test('a visitor enters the code and looks at files, by nothing but the share', (t) =>
    visit(t, site, { ...visitor, at: '/@s/photos' }, async (page) => {
      const requested = requestsOf(page)
      const code = page.getByRole('textbox', { name: 'Code' })
      await code.waitFor()
      await fits(t, page, 'the question for the code')
      await code.fill('high-water')
      await page.keyboard.press('Enter')
      await page.getByRole('alert').getByText('The code is wrong.').waitFor()
      await code.fill('low-water')
      await page.keyboard.press('Enter')
      await eventually(t, () => namesShown(page), ['photos', 'plan.txt'])
      await fits(t, page, 'the share')
      for (const name of ['Upload', 'New folder', 'Rename', 'Delete', 'Share', 'Link']) {
        t.equal(await button(page, name).count(), 0, `${name} is not offered`)
      }
      await rowOf(page, 'photos').click()
      await eventually(t, () => namesShown(page), ['tides', 'beach.png', 'notes.md'])
      await button(page, 'Sort by Name').click()
      await eventually(t, () => namesShown(page), ['tides', 'notes.md', 'beach.png'])
      await button(page, 'More').click()
      await page.getByRole('menuitemcheckbox', { name: 'Tiles' }).click()
      const loaded = (image: Locator) => image.evaluate((each) => (each as HTMLImageElement).naturalWidth)
      await eventually(t, () => loaded(page.locator('.tile img')), 4)
      await fits(t, page, 'tiles')
      await rowOf(page, 'beach.png').click()
      await eventually(t, () => loaded(page.getByRole('img', { name: 'beach.png' })), 4)
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('link', { name: 'Download' }).click(),
      ])
      t.same(await readFile(await download.path()), picture)
      await page.goBack()
      await rowOf(page, 'notes.md').click()
      await page.getByRole('heading', { name: 'Low water' }).waitFor()
      await eventually(t, () => loaded(page.locator('.markdown img')), 4)
      const targets = page.locator('.markdown a').evaluateAll((links) => links.map((link) => link.getAttribute('href')))
      const target = new URL('/@s/photos/plan.txt', page.url()).href
      t.strictSame(await targets, [target, target], 'no link leads out of the share')
      await page.getByRole('navigation', { name: 'Path' }).getByRole('link', { name: 'photos' }).first().click()
      await eventually(t, () => namesShown(page), ['photos', 'plan.txt'])
      t.strictSame(
        [...new Set(requested.filter((path) => !path.startsWith('/static/')))].sort(),
        [
          '/api/fs/get',
          '/api/fs/list',
          '/api/public/settings',
          '/sd/photos/photos/beach.png',
          '/sd/photos/photos/notes.md',
        ],
        'the visit asks for nothing else',
      )
      await page.reload()
      await code.waitFor()
      await page.goto('/@s/photos/photos?pwd=low-water')
      await rowOf(page, 'beach.png').waitFor()
      t.equal(new URL(page.url()).search, '', 'the code does not stay in the address')
      t.match(await sharesOf(site), [{ accessed: 1 }], 'all this is one visit')
    }),
  )

  await t.test('the page begins with the order of the share', async (t) => {
    for (const [name, size] of [
      ['a', 2],
      ['b', 3],
      ['c', 1],
    ] as const) {
      await mkdir(join(folder, 'sorted/d'), { recursive: true })
      await writeFile(join(folder, 'sorted', name), 'x'.repeat(size))
    }
    const order = { order_by: 'size', order_direction: 'desc', extract_folder: 'back' }
    const at = await share(site, { files: ['/sorted'], pwd: 'low-water', ...order })
    await visit(t, site, { ...visitor, at }, async (page) => {
      await page.getByRole('textbox', { name: 'Code' }).fill('low-water')
      await page.keyboard.press('Enter')
      await eventually(t, () => namesShown(page), ['b', 'a', 'c', 'd'])
      await button(page, 'Sort by Name').click()
      await eventually(t, () => namesShown(page), ['d', 'a', 'b', 'c'], 'or the one that the visitor chooses')
      await button(page, 'Sort by Name').click()
      await eventually(t, () => namesShown(page), ['d', 'c', 'b', 'a'])
    })
    await call(`/api/share/delete?id=${at.slice('/@s/'.length)}`, {})
  })

  await t.test('a file alone, for whoever has signed in too', async (t) => {
    const at = await share(site, { files: ['/photos/beach.png'] })
    const { headers } = await fetch(site.url + at)
    t.equal(headers.get('x-robots-tag'), 'noindex')
    t.equal(headers.get('referrer-policy'), 'no-referrer')
    await visit(t, site, { ...ann, at }, async (page) => {
      await page.getByRole('img', { name: 'beach.png' }).waitFor()
      t.equal(await page.title(), 'beach.png – Tidegate')
      t.equal(await button(page, 'Sign out').count(), 0)
      await page.goto(`${at}/other.png`)
      await page.getByRole('alert').waitFor()
    })
    await call(`/api/share/delete?id=${at.slice('/@s/'.length)}`, {})
  })

  await t.test('its user edits a share, turns it off and deletes it', (t) =>
    visit(t, site, { ...ann, at: '/@manage/shares' }, async (page) => {
      await shareRow(page).getByRole('cell', { name: 'photos and 1 more', exact: true }).waitFor()
      await shareRow(page).getByRole('cell', { name: 'open', exact: true }).waitFor()
      await page.getByRole('button', { name: /^Edit photos/ }).focus()
      await page.keyboard.press('Enter')
      const form = dialog(page, 'Share of photos and 1 more')
      await form.getByRole('spinbutton', { name: 'Limit of visits' }).fill('2')
      await form.getByRole('textbox', { name: 'Remark' }).fill('for the club')
      await form.getByText('More options').click()
      await form.getByRole('textbox', { name: 'Own name in the link' }).fill('club')
      // Somebody comes after the page has read the share, and before it sends the change.
      await page.route('**/api/share/update', async (route) => {
        await fetch(`${site.url}/api/fs/list`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', 'user-agent': 'meanwhile' },
          body: JSON.stringify({ path: '/@s/photos', password: 'low-water' }),
        })
        await route.continue()
      })
      await form.getByRole('button', { name: 'Save' }).click()
      await shareRow(page).getByRole('cell', { name: '2 of 2' }).waitFor()
      await shareRow(page).getByRole('cell', { name: 'ended: all visits are used' }).waitFor()
      await shareRow(page).getByText('for the club').waitFor()
      t.match(await sharesOf(site), [{ id: 'club', pwd: 'low-water', max_accessed: 2, accessed: 2 }])
      await visit(t, site, { ...visitor, at: '/@s/club' }, async (own) => {
        await own.getByRole('textbox', { name: 'Code' }).fill('low-water')
        await own.keyboard.press('Enter')
        await own.getByRole('alert').getByText('This share has ended.').waitFor()
        await fits(t, own, 'a share that has ended')
      })
      await page.getByRole('button', { name: /^Turn off photos/ }).click()
      await shareRow(page).getByRole('cell', { name: 'off', exact: true }).waitFor()
      await page.getByRole('button', { name: /^Turn on photos/ }).click()
      await shareRow(page).getByRole('cell', { name: 'ended: all visits are used' }).waitFor()
      await page.getByRole('button', { name: /^Delete photos/ }).click()
      await dialog(page, 'Delete the share').getByRole('button', { name: 'Delete' }).click()
      await page.getByText('Nothing is shared yet.').waitFor()
      await visit(t, site, { ...visitor, at: '/@s/club' }, (own) =>
        own.getByRole('alert').getByText('There is no such share.').waitFor(),
      )
    }),
  )

  await t.test('a change keeps files that were moved out of the folder of their user', async (t) => {
    const cy = { user: { username: 'cy', password: 'password' } }
    await mkdir(join(folder, 'cy/notes'), { recursive: true })
    const permission = 0xff8 | permissionBits.share
    await call('/api/admin/user/create', { ...cy.user, base_path: '/cy', role: 0, permission, disabled: false })
    await share(site, { files: ['/cy/notes'], creator: 'cy' })
    await call('/api/fs/move', { src_dir: '/cy', dst_dir: '/work', names: ['notes'] })
    await visit(t, site, { ...cy, at: '/@manage/shares' }, async (page) => {
      await shareRow(page).getByRole('cell', { name: 'files outside of your folder', exact: true }).waitFor()
      await page.getByRole('button', { name: /^Edit files outside/ }).click()
      const form = dialog(page, 'Share of files outside of your folder')
      await form.getByRole('textbox', { name: 'Remark' }).fill('still mine')
      await form.getByRole('button', { name: 'Save' }).click()
      await shareRow(page).getByText('still mine').waitFor()
    })
    const [{ id, files: kept } = { id: '', files: [] }] = (await sharesOf(site)).filter(
      ({ remark }) => remark === 'still mine',
    )
    t.strictSame(kept, ['/work/notes'])
    await call(`/api/share/delete?id=${id}`, {})
  })

  await t.test('whoever may not share is offered nothing to do so', (t) =>
    visit(t, site, { user: { ...ann.user, username: 'bob' } }, async (page) => {
      await rowOf(page, 'photos').waitFor()
      t.equal(await button(page, 'Share').count(), 0)
      const grants = [{ path: '/work', allow: ['see', 'read', 'share'], deny: [] }]
      const { id } = (
        (await call('/api/admin/user/list')) as { content: { id: number; username: string }[] }
      ).content.find(({ username }) => username === 'bob') ?? { id: 0 }
      await call('/api/admin/group/create', { name: 'sharers', members: [id], grants })
      await page.goto('/work')
      await button(page, 'Share').click()
      await dialog(page, 'Share work').getByRole('button', { name: 'Create the share' }).click()
      await dialog(page, 'The share is ready').waitFor()
    }),
  )

  await t.test('after too many wrong codes the page says when to try again', async (t) => {
    const at = await share(site, { files: ['/photos'], pwd: 'low-water' })
    await visit(t, site, { ...visitor, at }, async (page) => {
      const code = page.getByRole('textbox', { name: 'Code' })
      const statuses: string[] = []
      page.on('response', (response) => {
        if (response.url().endsWith('/api/fs/get'))
          void response.json().then((body: { error: string }) => statuses.push(body.error))
      })
      await code.waitFor()
      for (let number = 1; number <= 8; number++) {
        await code.fill(`wrong ${number}`)
        await Promise.all([page.waitForResponse(/fs\/get/), page.keyboard.press('Enter')])
      }
      await code.fill('low-water')
      await page.keyboard.press('Enter')
      await page.getByRole('alert').getByText('Too many failed attempts').waitFor()
      await page
        .getByRole('timer')
        .getByText(/Try again in \d/)
        .waitFor()
      await fits(t, page, 'too many codes')
    })
  })

  await t.test('a drop box takes files, and shows none', async (t) => {
    const at = await share(site, { files: ['/inbox'], mode: 'upload', upload_max_files: 3, readme: 'Only _photos_.' })
    await writeFile(join(folder, 'inbox/beach.png'), 'of somebody else')
    await visit(t, site, { ...visitor, at }, async (page) => {
      await page.getByRole('heading', { name: 'inbox' }).waitFor()
      await page.getByText('photos').waitFor()
      t.equal(await files(page).count(), 0)
      await fits(t, page, 'a drop box')
      // Slow enough that there is progress to be seen.
      const network = await page.context().newCDPSession(page)
      await network.send('Network.enable')
      await network.send('Network.emulateNetworkConditions', {
        offline: false,
        latency: 0,
        downloadThroughput: -1,
        uploadThroughput: 2_000_000,
      })
      await choose(page, [
        { name: 'beach.png', buffer: picture },
        { name: 'film', buffer: Buffer.alloc(11 * 2 ** 20, 'tide') },
      ])
      const film = uploads(page).getByRole('progressbar', { name: 'film' })
      const sent = () => film.evaluate((bar) => Number(bar.getAttribute('value')))
      await film.waitFor()
      while ((await sent()) === 0) await page.waitForTimeout(20)
      t.ok((await sent()) < 11 * 2 ** 20, 'its progress is shown')
      await fits(t, page, 'uploads')
      await uploads(page).getByText('2 of 2', { exact: true }).waitFor()
      t.strictSame((await readdir(join(folder, 'inbox'))).filter((name) => !name.startsWith('.')).sort(), [
        'beach (1).png',
        'beach.png',
        'film',
      ])
      t.equal(await readFile(join(folder, 'inbox/beach.png'), 'utf8'), 'of somebody else')
      await choose(page, [
        { name: 'third', buffer: Buffer.from('3') },
        { name: 'fourth', buffer: Buffer.from('4') },
      ])
      await uploads(page).getByText('This share takes no more files').waitFor()
    })
  })

  await t.test('visitors who may add see what they add, and replace', async (t) => {
    const at = await share(site, { files: ['/work'], mode: 'both' })
    await writeFile(join(folder, 'work/plan.txt'), 'old')
    await visit(t, site, { ...visitor, width: 1280, at }, async (page) => {
      await rowOf(page, 'plan.txt').waitFor()
      await button(page, 'New folder').click()
      await dialog(page, 'New folder').getByRole('textbox', { name: 'Name' }).fill('drafts')
      await page.keyboard.press('Enter')
      await rowOf(page, 'drafts').waitFor()
      await choose(page, [{ name: 'plan.txt', buffer: Buffer.from('new') }], 'Upload')
      const asked = dialog(page, '“plan.txt” already exists')
      await asked.getByText('There is already a file at /plan.txt.').waitFor()
      await asked.getByRole('button', { name: 'Replace' }).click()
      await uploads(page).getByText('1 of 1', { exact: true }).waitFor()
      t.equal(await readFile(join(folder, 'work/plan.txt'), 'utf8'), 'new')
      await rowOf(page, 'plan.txt').click()
      await page.getByRole('textbox', { name: 'plan.txt' }).fill('newer')
      await page.keyboard.press('Control+s')
      await page.getByText('The file is saved.').waitFor()
      t.equal(await readFile(join(folder, 'work/plan.txt'), 'utf8'), 'newer')
    })
  })

  await t.test('a selection, and everything, is downloaded as an archive', async (t) => {
    const at = await share(site, { files: ['/photos', '/plan.txt'], pwd: 'low-water' })
    await visit(t, site, { ...visitor, at: `${at}?pwd=low-water` }, async (page) => {
      await rowOf(page, 'photos').waitFor()
      const archive = (chosen: Locator) =>
        Promise.all([
          page.context().waitForEvent('response', (each) => each.url().includes('/api/fs/zip')),
          chosen.click(),
        ])
      await button(page, 'More').click()
      const [all] = await archive(page.getByRole('menuitem', { name: 'Download all', exact: true }))
      t.equal(all.headers()['content-type'], 'application/zip')
      await selectEntries(page, 'photos')
      const [some] = await archive(button(page, 'Download'))
      t.equal(some.headers()['content-type'], 'application/zip')
      t.notOk(some.url().includes('low-water'), 'no address has the code')
    })
  })
})
