/** The console in other languages than English. */
import { readdirSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { axeViolations, openPage, signIn, withoutBrowser } from './browser.js'
import { textsIn } from './console-modules.js'
import { fullSite, tooLarge, visitEveryPage, type Say } from './every-page.js'
import { pseudo, usePseudoLocale } from './pseudo-locale.js'
import { button, dialog, rowOf, startSite, visit, type Site } from './site.js'

const widths = [1280, 360]

/** What the site has, and the name of the browser. */
const data = 'Those who sell|ebb tide|^Mozilla'

/** The texts that the page shows, or gives to screen readers, and that are not of a catalogue. */
function hardCoded(page: Page): Promise<readonly string[]> {
  return page.evaluate<readonly string[]>(String.raw`(() => {
    const isText = (text) => !/${data}/.test(text ?? '') && /[a-z]{2,} [a-z]{2,}/i.test((text ?? '').replace(/⟦[^⟧]*⟧/g, ''))
    return [...document.querySelectorAll('body *:not(script, style, noscript)')]
      .filter((each) => each.closest('body [lang=en], .markdown, .cm-content, code') === null && each.checkVisibility())
      .flatMap((each) => {
        const texts = [...each.childNodes].filter(({ nodeType }) => nodeType === Node.TEXT_NODE)
        const own = texts.map(({ textContent }) => textContent).join('')
        return [own, each.ariaLabel, each.title, each.getAttribute('placeholder')].filter(isText)
      })
  })()`)
}

/** The controls and titles whose text is cut off, and the controls that something covers. */
function cutOff(page: Page): Promise<readonly string[]> {
  return page.evaluate<readonly string[]>(`(() => {
    const describe = (element) => element.outerHTML.slice(0, 150)
    const isShown = (element) => element.checkVisibility({ visibilityProperty: true })
    const cut = [...document.querySelectorAll('button, .button, nav a, th, h1, h2, h3, label, legend')]
      .filter((each) => isShown(each) && !each.classList.contains('for-screen-readers'))
      .filter(({ scrollWidth, clientWidth }) => clientWidth > 0 && scrollWidth > clientWidth + 1)
      .map((each) => 'cut off: ' + describe(each))
    // The part of the element that the elements around it let show.
    const shownPart = (element) => {
      const shown = { ...element.getBoundingClientRect().toJSON() }
      for (let each = element.parentElement; each !== null; each = each.parentElement) {
        if (getComputedStyle(each).overflow === 'visible') continue
        const clip = each.getBoundingClientRect()
        for (const side of ['left', 'top']) shown[side] = Math.max(shown[side], clip[side])
        for (const side of ['right', 'bottom']) shown[side] = Math.min(shown[side], clip[side])
      }
      return shown
    }
    const within = document.querySelector('dialog[open]') ?? document
    const covered = [...within.querySelectorAll('button, a, input, select, textarea')].filter(isShown).flatMap((each) => {
      const { left, top, right, bottom } = shownPart(each)
      if (right - left < 2 || bottom - top < 2) return []
      const shown = document.elementFromPoint((left + right) / 2, (top + bottom) / 2)
      const isItself = shown === null || shown.contains(each) || each.contains(shown)
      return isItself ? [] : ['covered: ' + describe(each) + ' by ' + describe(shown)]
    })
    return [...cut, ...covered]
  })()`)
}

void t.test(
  'a language that is 40 % longer fits on every page, and nothing is left in English',
  { skip: withoutBrowser },
  async (t) => {
    const site = await fullSite(t)
    const check = async (page: Page, what: string) => {
      for (const width of widths) {
        await page.setViewportSize({ width, height: 800 })
        const name = `${what}, ${width} pixels`
        t.strictSame(await hardCoded(page), [], `${name}: nothing is in English`)
        t.strictSame(await tooLarge(page), [], `${name}: everything fits`)
        t.strictSame(await cutOff(page), [], `${name}: nothing is cut off or covered`)
      }
    }
    await visitEveryPage(t, site, check, { say: pseudo, prepare: usePseudoLocale })
    await visit(t, site, { prepare: usePseudoLocale }, async (page) => {
      await rowOf(page, 'notes.md', pseudo).waitFor()
      await page.evaluate(`(() => {
      const main = document.querySelector('main')
      main.innerHTML = '<p>Written here</p><button>A long text</button><button>x</button><button>y</button>'
      const [long, ...others] = main.querySelectorAll('button')
      Object.assign(long.style, { width: '2rem', overflow: 'hidden', whiteSpace: 'nowrap' })
      for (const other of others) Object.assign(other.style, { position: 'fixed', top: '50%' })
    })()`)
      t.match(await hardCoded(page), ['Written here', 'A long text'], 'what is in English is found')
      t.match(await cutOff(page), [/cut off: .*A long text/, /covered: .*>x</], 'what is cut off or covered is found')
    })
  },
)

void t.test('every page is accessible in every language, and says which it is', { skip: withoutBrowser }, async (t) => {
  const site = await fullSite(t)
  for (const language of readdirSync('web/texts').filter((name) => !name.includes('.') && name !== 'en')) {
    const check = async (page: Page, what: string) => {
      for (const width of widths) {
        await page.setViewportSize({ width, height: 800 })
        t.strictSame(await axeViolations(page), [], `${what}, ${language}, ${width} pixels`)
        t.strictSame(await tooLarge(page), [], `${what}, ${language}, ${width} pixels: everything fits`)
      }
      t.equal(await page.locator('html').getAttribute('lang'), language)
    }
    await visitEveryPage(t, site, check, { say: await sayIn(language), skipsDialogs: true, locale: language })
  }
  await t.test('the choice of the user is kept, and is the language of everything', (t) => choice(t, site))
  await t.test('what does not end and what was not used have texts of their own', (t) =>
    visit(t, site, { at: '/@profile', locale: 'zh-CN' }, async (page) => {
      const row = page.getByRole('row').filter({ hasText: 'program' })
      await row.getByRole('cell', { name: '永久有效', exact: true }).waitFor()
      await row.getByRole('cell', { name: '从未使用', exact: true }).waitFor()
    }),
  )
})

void t.test('texts that could not be loaded are loaded with the next part', { skip: withoutBrowser }, async (t) => {
  const site = await startSite(t)
  await writeFile(join(site.folder, 'notes.bin'), Buffer.alloc(1))
  const { page } = await openPage(site.browser, site.url)
  t.teardown(() => page.context().close())
  await signIn(page, 'admin', site.adminPassword)
  await page.goto('/notes.bin')
  const texts = /\/static\/changes-\w+\.js$/
  await page.route(texts, (route) => route.abort())
  await button(page, 'Link').click()
  await page.getByRole('alert').getByText('This part of the page could not be loaded.').waitFor()
  await page.unroute(texts)
  await page.evaluate(`history.pushState(null, '', '/@tasks')`)
  await page.getByText('Nothing is in progress.').waitFor()
})

async function sayIn(language: string): Promise<Say> {
  const [english, texts] = await Promise.all([textsIn('en'), textsIn(language)])
  const words = new Map([...english].reverse().map(([place, text]) => [text, texts.get(place)]))
  return (text) => words.get(text) ?? text
}

async function choice(t: Test, site: Site): Promise<void> {
  const language = (page: Page) => page.locator('html').getAttribute('lang')
  await visit(t, site, { user: null }, async (page) => {
    await button(page, 'Sign in').waitFor()
    await page.getByRole('combobox', { name: 'Language' }).selectOption('简体中文')
    await page.getByRole('textbox', { name: '用户名' }).fill('ann')
    await page.getByRole('textbox', { name: '密码' }).fill('wrong')
    await button(page, '登录').click()
    await page.getByRole('alert').getByText('用户名或密码错误。').waitFor()
    await page.getByRole('textbox', { name: '密码' }).fill('password')
    await button(page, '登录').click()
    await rowOf(page, 'notes.md', () => '文件').waitFor()
    await page.reload()
    await rowOf(page, 'notes.md', () => '文件').waitFor()
    t.equal(await language(page), 'zh-CN')
    await button(page, '新建文件夹').click()
    await dialog(page, '新建文件夹').getByRole('textbox').fill('folder')
    await page.keyboard.press('Enter')
    await dialog(page, '新建文件夹').getByRole('alert').getByText('“folder”已存在。').waitFor()
    await page.goto('/@profile')
    await page.getByRole('combobox', { name: '语言' }).selectOption('English')
    await page.getByRole('heading', { name: 'Profile' }).waitFor()
    t.equal(await language(page), 'en')
    await page.getByRole('combobox', { name: 'Language' }).selectOption('As the browser')
    await page.waitForFunction(`localStorage.getItem('language') === null`)
  })
  await visit(t, site, { user: null, at: '/@s/aBc?pwd=tide', locale: 'zh-CN' }, async (page) => {
    await page.getByText('此文件夹为空。').waitFor()
    await page.getByRole('combobox', { name: '语言' }).selectOption('English')
    await page.getByText('This folder is empty.').waitFor()
  })
}
