/** The console in Debian's Chromium, against a daemon. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { setTimeout as wait } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { chromium, type Browser, type Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { findProgram, lacks } from '../programs.js'

/** Why tests with a browser are skipped; false if they are not. */
export const withoutBrowser = lacks('chromium')

/** Milliseconds that a step may take, also on a busy machine. */
const patience = 30_000

const axeScript = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

export interface BrowserOptions {
  readonly colors?: 'light' | 'dark'
  readonly width?: number
  readonly height?: number
  /** The language of the browser (BCP 47). */
  readonly locale?: string
  /** Whether it is a device with a screen that is touched, and without a mouse. */
  readonly touch?: boolean
}

/** A page of the browser, and what it complained about. */
export interface ConsolePage {
  readonly page: Page
  /** Errors of scripts, violations of the content security policy, and requests to other hosts. */
  readonly complaints: readonly string[]
}

let running: Promise<Browser> | undefined

/** The browser of this process, which ends with its tests. Pages share nothing but the browser. */
export function startBrowser(): Promise<Browser> {
  running ??= launch()
  return running
}

async function launch(): Promise<Browser> {
  const browser = await chromium.launch({
    executablePath: findProgram('chromium') ?? 'chromium',
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
  })
  t.teardown(() => browser.close())
  return browser
}

/** A page with cookies and storage of its own. Shows nothing yet. */
export async function openPage(browser: Browser, url: string, options: BrowserOptions = {}): Promise<ConsolePage> {
  const { colors = 'light', width = 1280, height = 800, locale = 'en-US', touch = false } = options
  const context = await browser.newContext({
    baseURL: url,
    locale,
    colorScheme: colors,
    viewport: { width, height },
    acceptDownloads: true,
    hasTouch: touch,
    isMobile: touch,
  })
  context.setDefaultTimeout(patience)
  const page = await context.newPage()
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(String(error)))
  page.on('console', (message) => {
    // The browser reports responses with an error status too, which tests provoke.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) {
      complaints.push(message.text())
    }
  })
  const { host } = new URL(url)
  page.on('request', (request) => {
    const target = new URL(request.url())
    if (/^https?:$/.test(target.protocol) && target.host !== host) complaints.push(`request to ${target.href}`)
  })
  return { page, complaints }
}

/** Signs in by the page, as a user does. */
export async function signIn(page: Page, username: string, password: string): Promise<void> {
  await page.goto('/@login')
  await page.getByRole('textbox', { name: 'Username' }).fill(username)
  await page.getByRole('textbox', { name: 'Password' }).fill(password)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('button', { name: 'Sign out' }).waitFor()
}

/**
 * Waits until `read` resolves to `expected`: a page shows the result of an action a moment after it. Fails the test if
 * it never does.
 */
export async function eventually<T>(
  t: Test,
  read: () => Promise<T>,
  expected: T,
  message = 'the page shows it',
): Promise<void> {
  const end = Date.now() + patience
  let value = await read()
  while (!isDeepStrictEqual(value, expected) && Date.now() < end) {
    await wait(20)
    value = await read()
  }
  t.strictSame(value, expected, message)
}

/** The violations that axe-core finds on the page, or in an element of it, as it is shown: each with the elements. */
export async function axeViolations(page: Page, within = 'html'): Promise<readonly string[]> {
  // Evaluated by the debugger, which the policy of the page does not restrict.
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(axeScript)
  const violations = await page.evaluate(async (selector) => {
    const { axe } = globalThis as unknown as {
      axe: {
        run(selector: string, options: object): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }>
      }
    }
    return (await axe.run(selector, { resultTypes: ['violations'] })).violations
  }, within)
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`))
}
