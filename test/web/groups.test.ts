/** Groups and grants in the console, and what those see to whom they apply. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Locator } from 'playwright-core'
import t from 'tap'
import { permissionBits } from '../../src/accounts/principal.js'
import { axeViolations, eventually, withoutBrowser } from './browser.js'
import { picture } from './documents.js'
import {
  button,
  createUser,
  dialog,
  files,
  goTo,
  namesShown,
  rowOf,
  type Site,
  startSite,
  tableRow,
  visit,
} from './site.js'

interface Grant {
  readonly path: string
  readonly allow: readonly string[]
  readonly deny: readonly string[]
}

interface Group {
  readonly id: number
  readonly name: string
  readonly description: string
  readonly permission: number
  readonly admin: boolean
  readonly members: readonly number[]
  readonly grants: readonly Grant[]
}

async function groupNamed({ call }: Site, name: string): Promise<Group | undefined> {
  const { content } = (await call('/api/admin/group/list')) as { content: readonly Group[] }
  return content.find((group) => group.name === name)
}

interface User {
  readonly id: number
  readonly username: string
  readonly groups: readonly number[]
  readonly grants: readonly Grant[]
  readonly granted_only: boolean
}

async function userNamed({ call }: Site, name: string): Promise<User | undefined> {
  const { content } = (await call('/api/admin/user/list')) as { content: readonly User[] }
  return content.find(({ username }) => username === name)
}

/** The grants without what the server adds to them. */
function saidBy(holder: { readonly grants: readonly Grant[] } | undefined): readonly Grant[] | undefined {
  return holder?.grants.map(({ path, allow, deny }) => ({ path, allow, deny }))
}

/** The part of a form about the grant of a folder. */
function grantOf(form: Locator, path: string): Locator {
  return form.getByRole('group', { name: path, exact: true })
}

/** Adds a grant of a folder that is there, by a preset. */
async function addGrant(form: Locator, path: string, preset: string): Promise<void> {
  await form.getByRole('button', { name: 'Add a grant' }).click()
  await grantOf(form, 'New grant').getByRole('textbox', { name: 'Folder or file' }).fill(path)
  await grantOf(form, path).getByRole('combobox', { name: 'Rights' }).selectOption(preset)
}

async function save(form: Locator): Promise<void> {
  await form.getByRole('button', { name: 'Save' }).click()
  await form.waitFor({ state: 'detached' })
}

void t.test('groups and grants', { skip: withoutBrowser }, async (t) => {
  const site = await startSite(t)
  const { call, folder } = site
  const as = (username: string) => ({ user: { username, password: 'password' } })
  for (const path of ['sales/payroll', 'private', 'home/bob']) await mkdir(join(folder, path), { recursive: true })
  for (const path of ['sales/plan.txt', 'sales/payroll/wages.txt']) await writeFile(join(folder, path), 'text')
  await writeFile(join(folder, 'sales/photo.png'), picture)
  for (const name of ['ann', 'bob']) await createUser(site, name)

  await t.test('a group is added, and its members see and do what its grants say', (t) =>
    visit(t, site, { at: '/@manage/groups' }, async (page) => {
      await page.getByText('There is no group yet.').waitFor()
      await button(page, 'Add a group').click()
      const form = dialog(page, 'Add a group')
      await form.getByRole('textbox', { name: 'Name' }).fill('sales')
      await form.getByRole('textbox', { name: 'Description' }).fill('Those who sell')
      await form.getByRole('group', { name: 'Members' }).getByRole('checkbox', { name: 'ann' }).check()
      await form.getByRole('button', { name: 'Add a grant' }).click()
      await grantOf(form, 'New grant').getByRole('button', { name: 'Choose …' }).click()
      await form.getByRole('treeitem', { name: 'sales' }).click()
      const grant = grantOf(form, '/sales')
      await grant.getByRole('combobox', { name: 'Rights' }).selectOption('See, read and add')
      await grant.getByText('Adding includes replacing').waitFor()
      t.strictSame(await axeViolations(page, 'dialog'), [])
      await save(form)
      const row = tableRow(page, 'Groups', 'sales')
      for (const text of ['Those who sell', 'ann', '/sales: See, read and add']) {
        await row.getByRole('cell', { name: text, exact: true }).waitFor()
      }
      const group = await groupNamed(site, 'sales')
      t.strictSame(saidBy(group), [{ path: '/sales', allow: ['see', 'read', 'write'], deny: [] }])

      await goTo(page, 'Users')
      await tableRow(page, 'Users', 'ann').getByRole('cell', { name: 'sales', exact: true }).waitFor()
      await tableRow(page, 'Users', 'ann').getByRole('button', { name: 'Edit' }).click()
      const user = dialog(page, 'Edit ann')
      t.ok(await user.getByRole('group', { name: 'Groups' }).getByRole('checkbox', { name: 'sales' }).isChecked())
      await user.getByRole('checkbox', { name: 'Sees only what is granted' }).check()
      await save(user)
      t.match(await userNamed(site, 'ann'), { groups: [group?.id], grants: [], granted_only: true })

      await visit(t, site, as('ann'), async (own) => {
        await eventually(t, () => namesShown(own), ['sales'])
        await eventually(t, () => button(own, 'Upload').count(), 0)
        await rowOf(own, 'sales').click()
        await rowOf(own, 'payroll').waitFor()
        t.notOk(await button(own, 'Upload').isDisabled(), 'by the grant')
        await rowOf(own, 'plan.txt').getByRole('checkbox').click()
        await own.getByRole('button', { name: 'Download', exact: true, disabled: false }).waitFor()
        for (const name of ['Rename', 'Move', 'Copy', 'Delete']) {
          t.equal(await button(own, name).count(), 0, `${name}: no grant allows it, and permissions open no folder`)
        }
      })
    }),
  )

  await t.test('a folder is denied in one choice, which says that links stay valid', (t) =>
    visit(t, site, { at: '/@manage/groups' }, async (page) => {
      await button(page, 'Edit sales').click()
      const form = dialog(page, 'Edit sales')
      const warning = form.getByText('Links to files that somebody has already made stay valid')
      await addGrant(form, '/sales/payroll', 'No access (hidden)')
      await warning.waitFor()
      await grantOf(form, '/sales/payroll').getByRole('combobox', { name: 'Rights' }).selectOption('Everything')
      await warning.waitFor({ state: 'detached' })
      await grantOf(form, '/sales/payroll').getByRole('combobox', { name: 'Rights' }).selectOption('No access (hidden)')
      await warning.waitFor()
      await save(form)
      await visit(t, site, { ...as('ann'), at: '/sales' }, async (own) => {
        await eventually(t, () => namesShown(own), ['photo.png', 'plan.txt'])
        await own.goto('/sales/payroll')
        await own.getByText('There is no such file or folder.').waitFor()
      })
      await site.gateway.settings.set(new Map([['link_expiration', '4']]))
      await page.reload()
      const setting = page.waitForResponse(/setting\/get/)
      await button(page, 'Edit sales').click()
      await setting
      await grantOf(form, '/sales/payroll').getByRole('combobox', { name: 'Rights' }).waitFor()
      t.equal(await warning.count(), 0, 'links end by themselves')
      await site.gateway.settings.set(new Map([['link_expiration', '0']]))
    }),
  )

  await t.test('rights are switched one by one, by the keyboard too, and a mix is shown as custom', (t) =>
    visit(t, site, { at: '/@manage/groups' }, async (page) => {
      await button(page, 'Edit sales').focus()
      await page.keyboard.press('Enter')
      const form = dialog(page, 'Edit sales')
      const grant = grantOf(form, '/sales')
      const preset = grant.getByRole('combobox', { name: 'Rights' })
      const chosen = () => preset.locator('option:checked').textContent()
      const radio = (name: string) => grant.getByRole('radio', { name, exact: true })
      await grant.getByRole('button', { name: 'Choose rights one by one' }).focus()
      await page.keyboard.press('Enter')
      await radio('Read and download: Allowed').focus()
      await page.keyboard.press('ArrowRight')
      t.ok(await radio('Read and download: Denied').isChecked())
      t.ok(await radio('See names, sizes and times: Allowed').isChecked())
      t.ok(await radio('See names, sizes and times: Left open').isDisabled(), 'as long as anything is allowed')
      await eventually(t, chosen, 'Custom')
      await grant.getByText('Denied: Read and download.').waitFor()
      t.strictSame(await axeViolations(page, 'dialog'), [])
      await radio('See names, sizes and times: Denied').check()
      t.ok(await radio('Add, replace and edit: Left open').isChecked(), 'nothing can be allowed then')
      await radio('Add, replace and edit: Allowed').check()
      t.ok(await radio('See names, sizes and times: Allowed').isChecked())
      await form.getByRole('textbox', { name: 'Name' }).focus()
      await page.keyboard.press('Enter')
      await form.waitFor({ state: 'detached' })
      t.strictSame(saidBy(await groupNamed(site, 'sales'))?.[0], {
        path: '/sales',
        allow: ['see', 'write'],
        deny: ['read'],
      })
      await tableRow(page, 'Groups', 'sales').getByText('/sales: Custom').waitFor()
    }),
  )

  await t.test('a file that is seen and not readable is shown as such: nothing of its content is asked for', (t) =>
    visit(t, site, { ...as('ann'), at: '/sales' }, async (page) => {
      const requested: string[] = []
      page.on('request', (request) => requested.push(new URL(request.url()).pathname))
      await rowOf(page, 'photo.png').waitFor()
      t.match(await rowOf(page, 'photo.png').getAttribute('aria-label'), /not readable for you/)
      await rowOf(page, 'photo.png').getByRole('checkbox').click()
      for (const name of ['Download', 'Link']) t.ok(await button(page, name).isDisabled(), name)
      await button(page, '1 selected').click()
      await button(page, 'Show as tiles').click()
      await page.locator('.tile').first().waitFor()
      t.equal(await page.locator('.tile img').count(), 0)
      t.strictSame(await axeViolations(page), [])
      await rowOf(page, 'photo.png').click()
      await page.getByText('You can see that this file exists, but you may not read it.').waitFor()
      for (const name of ['Download', 'Link']) t.equal(await page.getByText(name, { exact: true }).count(), 0, name)
      t.strictSame(await axeViolations(page), [])
      t.strictSame(
        requested.filter((path) => /^\/[dp]\//.test(path)),
        [],
      )
    }),
  )

  await t.test('a form keeps what it does not show and what was not edited', async (t) => {
    const { accounts, store } = site.gateway
    const like = accounts.users.byName('ann')
    if (like === undefined) throw new Error('ann is missing')
    const { id: _, ...row } = like
    const ids: number[] = []
    for (let number = 1; number <= 120; number++) {
      // Each password would be hashed.
      const username = `member ${String(number).padStart(3, '0')}`
      ids.push((await store.users.insert({ ...row, username })).id)
    }
    await accounts.reload()
    const members = ids.slice(0, 110)
    const grants = [
      { path: '/private', allow: ['see', 'copy'], deny: ['write'] },
      { path: '/sales', allow: [], deny: ['share'] },
    ]
    const permission = permissionBits.readArchives | permissionBits.customShareId | permissionBits.copy
    await call('/api/admin/group/create', { name: 'many', permission, members, grants })
    await visit(t, site, { at: '/@manage/groups' }, async (page) => {
      await button(page, 'Edit many').click()
      const form = dialog(page, 'Edit many')
      await form.getByRole('textbox', { name: 'Name', exact: true }).fill('many more')
      const list = form.getByRole('group', { name: 'Members' })
      await list.getByText('110 chosen.').waitFor()
      await list.getByText('type a part of the name to find them').waitFor()
      await list.getByRole('textbox', { name: 'Filter: Members' }).fill('MEMBER 115')
      await page.keyboard.press('Enter')
      await list.getByRole('checkbox', { name: 'member 115' }).check()
      await list.getByText('111 chosen.').waitFor()
      await form.getByRole('checkbox', { name: 'Rename', exact: true }).check()
      await save(form)
    })
    const group = await groupNamed(site, 'many more')
    t.strictSame(group?.members, [...members, ids[114]])
    t.strictSame(group?.permission, permission | permissionBits.rename)
    t.strictSame(saidBy(group), grants)

    const user = { username: 'custom', password: 'password', base_path: '/', permission: 0, grants, granted_only: true }
    await call('/api/admin/user/create', { ...user, groups: [group?.id] })
    await visit(t, site, { at: '/@manage/users' }, async (page) => {
      await button(page, 'Edit custom').click()
      const form = dialog(page, 'Edit custom')
      await form.getByRole('checkbox', { name: 'Rename', exact: true }).check()
      await call('/api/admin/group/update', { id: group?.id, members: [] })
      await save(form)
    })
    const stored = await userNamed(site, 'custom')
    t.match(stored, { granted_only: true, groups: [] }, 'a change by somebody else meanwhile is not undone')
    t.strictSame(saidBy(stored), grants)
  })

  await t.test('a grant without effect is said to have none', (t) =>
    visit(t, site, { at: '/@manage/users' }, async (page) => {
      await button(page, 'Edit bob').click()
      const form = dialog(page, 'Edit bob')
      await form.getByRole('textbox', { name: 'Base folder' }).fill('/home/bob')
      await addGrant(form, '/sales', 'See and read')
      const note = form.getByText('This grant has no effect: it is outside the base folder, /home/bob.')
      await note.waitFor()
      const path = (of: string) => grantOf(form, of).getByRole('textbox', { name: 'Folder or file' })
      await path('/sales').fill('/home')
      await note.waitFor({ state: 'detached' })
      await path('/home').fill('/home/bob/lettres')
      await form.getByRole('button', { name: 'Save' }).click()
      await form.getByRole('alert').getByText('There is no /home/bob/lettres.').waitFor()
      t.strictSame(saidBy(await userNamed(site, 'bob')), [])
      await save(form)
      t.match(saidBy(await userNamed(site, 'bob')), [{ path: '/home/bob/lettres' }])

      await goTo(page, 'Groups')
      await button(page, 'Edit sales').click()
      const group = dialog(page, 'Edit sales')
      await group.getByRole('checkbox', { name: 'bob' }).check()
      await grantOf(group, '/sales').getByText('This grant has no effect for bob').waitFor()
      await group.getByRole('checkbox', { name: 'Its members are administrators' }).check()
      await group.getByText('Grants do not apply to administrators').waitFor()
    }),
  )

  await t.test('a group is deleted, and what it gave is gone', (t) =>
    visit(t, site, { at: '/@manage/groups' }, async (page) => {
      await button(page, 'Delete sales').click()
      const asked = dialog(page, 'Delete group')
      await asked.getByText('lose its permissions and grants').waitFor()
      await asked.getByRole('button', { name: 'Delete' }).click()
      await tableRow(page, 'Groups', 'sales').waitFor({ state: 'detached' })
      await visit(t, site, as('ann'), async (own) => {
        await files(own).waitFor()
        await own.getByText('This folder is empty.').waitFor()
      })
    }),
  )

  await t.test('the server tells whether a user may do something, and why', async (t) => {
    await call('/api/admin/group/create', {
      name: 'readers',
      members: [(await userNamed(site, 'ann'))?.id],
      grants: [{ path: '/private', allow: ['see', 'read'], deny: ['write'] }],
    })
    await visit(t, site, { at: '/' }, async (page) => {
      await rowOf(page, 'private').click({ button: 'right' })
      await page.getByRole('menuitem', { name: 'Check rights' }).click()
      const path = page.getByRole('textbox', { name: 'Folder or file' })
      t.equal(await path.inputValue(), '/private')
      await page.getByRole('combobox', { name: 'User' }).selectOption('ann')
      await page.getByRole('combobox', { name: 'What' }).selectOption('Add, replace and edit')
      await path.focus()
      await page.keyboard.press('Enter')
      await page.getByRole('heading', { name: 'Not allowed' }).waitFor()
      await page.getByText('Decided by').getByText('readers').waitFor()
      await page
        .getByText('“Add, replace and edit” is denied by the grant of the group readers at /private.')
        .first()
        .waitFor()
      t.equal(await page.locator('main [lang=en]').count(), 0, 'every finding has a text')
      await page.getByRole('listitem').filter({ hasText: '(refused here)' }).first().waitFor()
      t.strictSame(await axeViolations(page), [])
      await page.getByRole('combobox', { name: 'What' }).selectOption('Read and download')
      await button(page, 'Check').click()
      await page.getByRole('heading', { name: 'Allowed', exact: true }).waitFor()

      await goTo(page, 'Groups')
      await button(page, 'Edit readers').click()
      const [other] = await Promise.all([
        page.context().waitForEvent('page'),
        page.getByRole('link', { name: 'See who may do what here' }).click(),
      ])
      await other.getByRole('textbox', { name: 'Folder or file' }).waitFor()
      t.equal(await other.getByRole('textbox', { name: 'Folder or file' }).inputValue(), '/private')
      await other.close()
      await dialog(page, 'Edit readers').getByRole('button', { name: 'Cancel' }).click()
      await goTo(page, 'Users')
      await button(page, 'Check rights ann').click()
      await eventually(t, () => page.getByRole('combobox', { name: 'User' }).inputValue(), 'ann')
    })
    await visit(t, site, as('ann'), async (page) => {
      await rowOf(page, 'private').click({ button: 'right' })
      await page.getByRole('menuitem', { name: 'Open' }).waitFor()
      t.equal(await page.getByRole('menuitem', { name: 'Check rights' }).count(), 0)
    })
  })
})
