/** Files of others that try to run scripts, to load something from elsewhere, or to read what they must not. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { withoutBrowser } from './browser.js'
import { button, dialog, files, rowOf, startSite, visit } from './site.js'

const elsewhere = 'https://remote.invalid'

/** A script that leaves a mark where `marks` looks, and reports to another host. */
const attack = `try{document.documentElement.dataset.ran=localStorage.ran='yes'}catch{};fetch('${elsewhere}/ran')`

const svg = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:x="http://www.w3.org/1999/xlink" width="40" height="40" onload="${attack}">
<script>${attack}</script><rect width="40" height="40" fill="green"/><image x:href="${elsewhere}/a.png"/>
<style>@import "${elsewhere}/b.css";</style><foreignObject><iframe xmlns="http://www.w3.org/1999/xhtml" src="${elsewhere}/c"/></foreignObject></svg>`

const html = `<!doctype html><script>${attack}</script><img src="${elsewhere}/d.png" onerror="${attack}">
<meta http-equiv="refresh" content="0;url=${elsewhere}/e"><form action="/api/fs/remove" method="post"></form>`

const markdown = `# Tide tables

<script>${attack}</script> <img src=x onerror="${attack}"> ![remote](${elsewhere}/f.png) <style>*{display:none}</style>

![reference][picture] <svg onload="${attack}"><use href="${elsewhere}/g.svg#x"/></svg> <base href="${elsewhere}/">

[run](javascript:${encodeURIComponent(attack)}) [data](data:text/html,${encodeURIComponent(html)})

<a href="java&#10;script:${attack}" onclick="${attack}" style="position:fixed;inset:0">over everything</a>

![script](javascript:${encodeURIComponent(attack)}) ![other](//remote.invalid/i.png) ![climb](../../../picture.svg)
![drawing](data:image/svg+xml,${encodeURIComponent(svg)}) ![back](\\\\remote.invalid/j.png) ![tab](java&#9;script:alert)
[![badge](${elsewhere}/k.png)](${elsewhere}/l) ![quote](picture.svg"onload="x)

[logout](/api/auth/logout) [escaped](a%2f..%2f..%2fapi%2fauth%2flogout) [bucket](s3://bucket/key) [broken](a1://h:99999)
[dots](%2e%2e/x)

[picture]: ${elsewhere}/h.png

The end.
`

/** Names that are HTML, in the order of the listing. */
const names = [
  `"><svg onload=localStorage.ran='yes'>.txt`,
  `<img src=x onerror=localStorage.ran='yes'>.txt`,
  `{{7*7}}.txt`,
]

/** What a script of a file has left behind. */
function marks(page: Page): Promise<unknown> {
  return page.evaluate('[document.documentElement.dataset.ran, localStorage.ran].filter(Boolean)')
}

/** Reports of the policy of the page: `complaints` has only those that the browser also logs. */
async function watchPolicy(page: Page): Promise<readonly string[]> {
  const violations: string[] = []
  await page.exposeFunction('noteViolation', (text: string) => violations.push(text))
  await page.addInitScript(`addEventListener('securitypolicyviolation', (event) =>
    noteViolation(event.violatedDirective + ' ' + event.blockedURI), true)`)
  await page.reload()
  return violations
}

void t.test('hostile content', { skip: withoutBrowser }, async (t) => {
  const site = await startSite(t)
  const { call, folder, url } = site
  const contents = { 'picture.svg': svg, 'page.html': html, 'tables.md': markdown, 'program.js': attack }
  for (const [name, content] of Object.entries(contents)) await writeFile(join(folder, name), content)
  for (const name of names) await writeFile(join(folder, name), html)
  await call('/api/admin/meta/create', { path: '/', header: markdown, readme: html })

  /** Opens the root, where nothing may run, in `story` neither. */
  const harmless = (t: Test, story: (page: Page) => Promise<unknown>) =>
    visit(t, site, {}, async (page) => {
      const violations = await watchPolicy(page)
      await files(page).waitFor()
      await story(page)
      t.strictSame(await marks(page), [], 'no script of a file runs')
      t.strictSame(violations, [], 'nothing is left to the policy')
    })

  const open = async (page: Page, name: string) => {
    await rowOf(page, name).click()
    await page.getByRole('heading', { name, exact: true }).waitFor()
  }

  await t.test('names that are HTML are text wherever they are shown', (t) =>
    harmless(t, async (page) => {
      for (const name of names) {
        await open(page, name)
        // The title is set after the page has been painted.
        await page.waitForFunction((title) => document.title === title, `/${name} – Tidegate`)
        await button(page, 'Link').click()
        await dialog(page, 'Link').getByText(`Whoever has this link can read “${name}”`).waitFor()
        await page.keyboard.press('Escape')
        await page.goBack()
        await rowOf(page, name).click({ button: 'right' })
        await page.getByRole('menuitem', { name: 'Delete' }).click()
        await dialog(page, 'Delete').getByText(`“${name}” will be deleted`).waitFor()
        await page.keyboard.press('Escape')
        await dialog(page, 'Delete').waitFor({ state: 'detached' })
      }
      await button(page, '1 selected').click()
      await button(page, 'Show as tiles').click()
      await rowOf(page, 'picture.svg').waitFor()
    }),
  )

  await t.test('a picture with scripts is only a picture', (t) =>
    harmless(t, async (page) => {
      await open(page, 'picture.svg')
      await page.waitForFunction(() => document.querySelector<HTMLImageElement>('img.shown')?.naturalWidth === 40)
    }),
  )

  await t.test('pages and programs are shown as their source', (t) =>
    harmless(t, async (page) => {
      for (const name of ['page.html', 'program.js']) {
        await open(page, name)
        await page.getByRole('textbox', { name }).getByText('localStorage.ran').waitFor()
        await page.goBack()
      }
    }),
  )

  await t.test('Markdown and notes keep only their text', (t) =>
    harmless(t, async (page) => {
      const notes = page.locator('.notes').first()
      await notes.getByText('The end.').waitFor()
      await open(page, 'tables.md')
      const text = page.locator('.page .markdown')
      await text.getByText('The end.').waitFor()
      t.match(await text.textContent(), /remote.*reference.*script.*other/s, 'pictures are their descriptions')
      const climb = text.getByRole('img', { name: 'climb' })
      t.match(await climb.getAttribute('src'), /^\/p\/picture\.svg\?sign=/, 'no path leads above the root')
      await page.waitForFunction(
        () => document.querySelector<HTMLImageElement>('.page .markdown img')?.naturalWidth === 40,
      )
      t.equal(await text.locator('img').count(), 1, 'only pictures of the tree are shown')
      t.equal(await text.getByRole('link', { name: 'reference' }).getAttribute('href'), `${elsewhere}/h.png`)
      for (const name of ['script', 'other', 'drawing', 'back', 'tab']) {
        t.equal(await text.getByRole('link', { name, exact: true }).count(), 0, name)
      }
      t.match(await text.getByRole('link', { name: 'logout' }).getAttribute('href'), /\/@\/api\/auth\/logout$/)
      for (const name of ['run', 'data', 'over everything', 'escaped', 'bucket', 'broken', 'dots']) {
        const found = text.getByText(name, { exact: true })
        t.equal(await found.getAttribute('href'), null, name)
        t.equal(await found.getAttribute('style'), null, name)
      }
    }),
  )

  await t.test('files are saved, not shown, where their address is opened', (t) =>
    harmless(t, async (page) => {
      for (const name of Object.keys(contents)) {
        const { raw_url: address } = (await call('/api/fs/get', { path: `/${name}` })) as { raw_url: string }
        for (const each of [address, address.replace('/d/', '/p/')]) {
          const [download] = await Promise.all([page.waitForEvent('download'), page.goto(each).catch(() => undefined)])
          t.equal(download.suggestedFilename(), name)
        }
      }
    }),
  )

  await t.test('a link opens its file only', async (t) => {
    await visit(t, site, {}, async (page) => {
      await open(page, 'tables.md')
      await button(page, 'Link').click()
      const address = dialog(page, 'Link').getByRole('textbox', { name: 'Address' })
      await page.waitForFunction(
        () => document.querySelector<HTMLInputElement>('dialog input[readonly]')?.value.includes('sign=') === true,
      )
      const link = await address.inputValue()
      t.equal(await (await fetch(link)).text(), markdown)
      const others = ['/d/page.html', '/p/page.html', '/d/', '/d/tables.md/..', '/d/tables.md/x']
      for (const other of others) {
        const response = await fetch(url + other + new URL(link).search, { redirect: 'manual' })
        t.not(response.status, 200, other)
        t.notMatch(await response.text(), 'localStorage', other)
      }
      const sign = new URL(link).searchParams.get('sign') ?? ''
      for (const path of ['/', '/tables.md']) {
        const response = await fetch(`${url}/api/fs/list?sign=${sign}`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', authorization: sign },
          body: JSON.stringify({ path }),
        })
        t.match(await response.json(), { code: 401 }, `the API refuses it for ${path}`)
      }
    })
  })
})
