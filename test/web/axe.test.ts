/**
 * Every page and every dialog is accessible, as far as axe-core can tell: in light and dark colors, wide and narrow.
 */
import type { Page } from 'playwright-core'
import t from 'tap'
import { axeViolations, withoutBrowser } from './browser.js'
import { fullSite, tooLarge, visitEveryPage } from './every-page.js'
import { button, visit } from './site.js'

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

void t.test('accessibility', { skip: withoutBrowser }, async (t) => {
  const site = await fullSite(t)
  /** Checks what is shown, and that it fits: nothing scrolls sideways, and every row has one line. */
  const check = async (page: Page, what: string, variants: readonly Variant[], within?: string) => {
    for (const { colorScheme, ...size } of variants) {
      await page.emulateMedia({ colorScheme })
      await page.setViewportSize(size)
      const name = `${what}, ${colorScheme}, ${size.width} pixels`
      t.strictSame(await axeViolations(page, within), [], name)
      t.strictSame(await tooLarge(page), [], `${name}: everything fits`)
    }
  }

  await visitEveryPage(t, site, (page, what, within) =>
    check(page, what, within === undefined ? allVariants : [lightAndWide, darkAndNarrow], within),
  )

  await visit(t, site, { user: { username: 'ann', password: 'password' }, at: '/closed' }, async (page) => {
    await page.getByText('This folder is protected by a password.').waitFor()
    await check(page, 'a folder with a password', allVariants)
    await button(page, 'Sign out').click()
    await button(page, 'Sign in').waitFor()
    await check(page, 'signing in', allVariants)
  })
})
