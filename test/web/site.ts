/** A gateway with its console, a browser, and what stories of users need of both. */
import { join } from 'node:path'
import type { Browser, Locator, Page } from 'playwright-core'
import type { Test } from 'tap'
import { startGateway, type RunningGateway, type RunOptions } from '../gateway.js'
import { openPage, startBrowser, type BrowserOptions } from './browser.js'

export interface Site extends RunningGateway {
  readonly browser: Browser
  /** The folder whose content is shown at `/`. */
  readonly folder: string
  /** Calls the API as the administrator. Resolves to the data of the response, and rejects if it is a refusal. */
  readonly call: (path: string, body?: unknown) => Promise<unknown>
}

/** Both end with the test. The first steps are done. */
export async function startSite(t: Test, options: RunOptions = {}): Promise<Site> {
  const [gateway, browser] = await Promise.all([startGateway(t, options), startBrowser()])
  return siteOf(gateway, browser)
}

export async function siteOf(running: RunningGateway, browser: Browser): Promise<Site> {
  const { gateway, url, adminPassword, dataFolder } = running
  await gateway.settings.set(new Map([['first_run_done', 'true']]))
  let token = ''
  const send = async (path: string, body: unknown) => {
    const response = await fetch(url + path, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { 'content-type': 'application/json', authorization: token },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const { code, message, data } = (await response.json()) as { code: number; message: string; data: unknown }
    if (code !== 200) throw new Error(`${path}: ${code} ${message}`)
    return data
  }
  const signedIn = await send('/api/auth/login', { username: 'admin', password: adminPassword })
  token = (signedIn as { token: string }).token
  return { ...running, browser, folder: join(dataFolder, 'files'), call: send }
}

/** A user who may change files, with the password `password`. */
export async function createUser({ call }: Site, username: string): Promise<void> {
  const user = { username, password: 'password', base_path: '/', role: 0, permission: 0xff8, disabled: false }
  await call('/api/admin/user/create', user)
}

export interface VisitOptions extends BrowserOptions {
  /** Absent: the administrator. Null: nobody is signed in. */
  readonly user?: { readonly username: string; readonly password: string } | null
  /** The address of the first page. */
  readonly at?: string
  /** Called before the page is loaded. */
  readonly prepare?: (page: Page) => Promise<void>
}

/**
 * Lets `story` use a new window. Fails the test if the page complained of anything: an error of a script, a violation
 * of its policy, a request to another host.
 */
export async function visit(
  t: Test,
  site: Site,
  options: VisitOptions,
  story: (page: Page) => Promise<unknown>,
): Promise<void> {
  const { user = { username: 'admin', password: site.adminPassword }, at = '/' } = options
  const { page, complaints } = await openPage(site.browser, site.url, options)
  try {
    if (user) {
      const answer = await page.request.post('/api/auth/session', { data: { ...user, otp_code: '', remember: false } })
      const { code, message } = (await answer.json()) as { code: number; message: string }
      if (code !== 200) throw new Error(`sign-in: ${message}`)
    }
    await options.prepare?.(page)
    await page.goto(at)
    await story(page)
    t.strictSame(complaints, [], 'the page complains of nothing')
  } finally {
    await page.context().close()
  }
}

/** The row of an entry in the listing. `say`: a text in the language of the page. */
export function rowOf(page: Page, name: string, say?: (english: string) => string) {
  return files(page, say).getByRole('row', { name: new RegExp(`^${name.replace(/[^\w ]/g, '\\$&')}`) })
}

/** Marks the boxes of these entries of the listing. */
export async function selectEntries(page: Page, ...names: readonly string[]): Promise<void> {
  for (const name of names) await rowOf(page, name).getByRole('checkbox').click()
}

export function files(page: Page, say = (english: string) => english) {
  return page.getByRole('grid', { name: say('Files') })
}

/** The side bar. On narrow screens it is in a sheet. */
export function sideBar(page: Page, say = (english: string) => english) {
  return page.getByRole('navigation', { name: say('Main'), exact: true })
}

/** Goes to a page by its name in the side bar. `Files`: the first folder. */
export async function goTo(page: Page, name: string): Promise<void> {
  if (name === 'Files') await sideBar(page).getByRole('treeitem').first().click()
  else await sideBar(page).getByRole('link', { name, exact: true }).click()
}

export function dialog(page: Page, name: string) {
  return page.getByRole('dialog', { name, exact: true })
}

export function button(page: Page, name: string) {
  return page.getByRole('button', { name, exact: true })
}

/** The names of the rows in view, in their order. */
export function namesShown(page: Page): Promise<readonly string[]> {
  return files(page).evaluate((grid) => {
    const rows = [...grid.querySelectorAll<HTMLElement>('[role=row][data-index]')]
    rows.sort((one, other) => Number(one.ariaRowIndex) - Number(other.ariaRowIndex))
    return rows.map((row) => row.querySelector('.name')?.textContent ?? '')
  })
}

/** The row of a table, by the text of its first cell. */
export function tableRow(page: Page, table: string, text: string): Locator {
  const cell = page.getByRole('cell', { name: text, exact: true })
  return page.getByRole('table', { name: table }).getByRole('row').filter({ has: cell })
}
