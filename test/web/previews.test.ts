/** Previews of documents, tables and books: what is shown, and that hostile ones run nothing and ask nobody. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FrameLocator, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { eventually, withoutBrowser } from './browser.js'
import { consoleModule } from './console-modules.js'
import { picture } from './documents.js'
import { docxOf, drawing, epubOf, paragraph, run, xlsxOf } from './office-files.js'
import { button, dialog, startSite, visit, type Site } from './site.js'

const buttonIn = (shown: FrameLocator, name: string) => shown.getByRole('button', { name, exact: true })

/** The frame that shows the file. */
function previewOf(page: Page, name: string): FrameLocator {
  return page.frameLocator(`iframe[title="Content of ${name}"]`)
}

async function open(
  t: Test,
  site: Site,
  name: string,
  content: Buffer | string,
  story: (page: Page) => Promise<unknown>,
) {
  await writeFile(join(site.folder, name), content)
  await visit(t, site, { at: `/${name}` }, story)
}

void t.test('the console believes only reports that are as they must be', async (t) => {
  const { reportOf } = (await consoleModule(`export { reportOf } from './preview/messages.ts'`, {
    languages: ['en'],
  })) as { readonly reportOf: (sent: unknown) => unknown }
  const refused = [
    ...[undefined, null, 'link', 1, {}, { kind: 'open' }, { kind: 'link' }, { kind: 'link', address: 1 }],
    ...['javascript:alert(1)', 'data:text/html,x', 'file:///etc/passwd', '/api/auth/logout', ''].map(linkTo),
    linkTo(`https://example.org/${'x'.repeat(5000)}`),
    ...[{ chapter: 1 }, { chapter: -1, share: 0 }, { chapter: 1e9, share: 0 }, { chapter: 0, share: NaN }].map(placeAt),
    ...[{ chapter: 0.5, share: 0 }, { chapter: 0, share: 2 }, { chapter: '0', share: 0 }, null].map(placeAt),
  ]
  for (const sent of refused) t.equal(reportOf(sent), undefined, JSON.stringify(sent))
  t.match(reportOf({ kind: 'failed', reason: '<img src=x>' }), { kind: 'failed', reason: 'damaged' })
  t.match(reportOf({ kind: 'shown', isCut: 'x', more: 1 }), { kind: 'shown', isCut: false })
  t.match(reportOf(linkTo('https://example.org/a b')), { address: 'https://example.org/a%20b' })
  t.match(reportOf(placeAt({ chapter: 3, share: 0.5 })), { place: { chapter: 3, share: 0.5 } })
})

const linkTo = (address: string) => ({ kind: 'link', address })
const placeAt = (place: unknown) => ({ kind: 'place', place })

void t.test('previews', { skip: withoutBrowser }, async (t) => {
  const site = await startSite(t)

  await t.test('a document of Word is shown with its headings, tables and pictures', async (t) => {
    const cells = ['Harbour', 'High'].map((text) => `<w:tc>${paragraph(run(text))}</w:tc>`)
    const body =
      paragraph(run('Tide tables'), 'Titel1') +
      paragraph(run('What the harbour master keeps.')) +
      `<w:tbl><w:tr>${cells.join('')}</w:tr></w:tbl>` +
      paragraph(drawing('p')) +
      paragraph(`<w:hyperlink r:id="l">${run('the source')}</w:hyperlink>`)
    const relations = [
      { id: 'p', type: 'image', target: 'media/picture.png' },
      { id: 'l', type: 'hyperlink', target: 'https://example.org/tides', isExternal: true },
    ]
    const file = docxOf(body, relations, { 'word/media/picture.png': picture })
    await open(t, site, 'tides.docx', file, async (page) => {
      const shown = previewOf(page, 'tides.docx')
      await shown.getByRole('heading', { name: 'Tide tables', level: 1 }).waitFor()
      await shown.getByRole('cell', { name: 'Harbour' }).waitFor()
      await eventually(t, () => shown.locator('img').evaluate((image: HTMLImageElement) => image.naturalWidth), 4)
      await shown.getByRole('link', { name: 'the source' }).click()
      const link = dialog(page, 'Open this link?').getByRole('link', { name: 'https://example.org/tides' })
      t.equal(await link.getAttribute('rel'), 'noopener noreferrer')
      t.equal(await link.getAttribute('target'), '_blank')
    })
  })

  await t.test('the values of a workbook are shown, by the formats of their numbers', async (t) => {
    const texts = ['<t>Harbour</t>', '<r><t>Cux</t></r><r><t>haven</t></r><rPh><t>read so</t></rPh>', '<t>Date</t>']
    const formats = ['General', 'yyyy\\-mm\\-dd', '0.0%', '&quot;about &quot;#,##0.00', '[h]:mm:ss', 'hh:mm']
    const first = `<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>2</v></c></row>
<row r="3"><c r="A3" t="s"><v>1</v></c><c r="B3" s="1"><v>46082</v></c><c s="2"><v>0.125</v></c><c s="3"><v>1234.5</v></c>
<c s="4"><v>1.5</v></c><c s="5"><v>0.75</v></c><c t="b"><v>1</v></c><c t="str"><f>A1&amp;"x"</f><v>of a formula</v></c>
<c t="inlineStr"><is><t>inside</t></is></c><c><v>0.30000000000000004</v></c><c t="e"><v>#DIV/0!</v></c></row>`
    const second = '<row r="1"><c r="A1"><v>7</v></c></row>'
    const file = xlsxOf({ sheets: { Heights: first, Low: second, Bare: '' }, texts, formats })
    await open(t, site, 'tides.xlsx', file, async (page) => {
      const shown = previewOf(page, 'tides.xlsx')
      await shown.getByRole('gridcell', { name: 'Cuxhaven' }).waitFor()
      const row = shown.getByRole('row', { name: /^3 / })
      const values = ['Cuxhaven', '03/01/2026', '12.5%', 'about 1,234.50', '36:00:00', '06:00 PM', 'TRUE']
      t.strictSame(await row.getByRole('gridcell').allTextContents(), [
        ...values,
        ...['of a formula', 'inside', '0.3', '#DIV/0!'],
      ])
      await shown.getByRole('tab', { name: 'Low' }).click()
      await shown.getByRole('gridcell', { name: '7', exact: true }).waitFor()
      await page.keyboard.press('ArrowRight')
      await shown.getByText('This sheet is empty.').waitFor()
    })
  })

  await t.test('values separated by commas are a table that is shown as it scrolls', async (t) => {
    const lines = Array.from({ length: 50_000 }, (_, index) => `${index};"a ""b"";\nc ${index}";=1+1`)
    await open(t, site, 'long.csv', `number;text;sum\n${lines.join('\n')}\n`, async (page) => {
      const shown = previewOf(page, 'long.csv')
      const grid = shown.getByRole('grid', { name: 'long.csv' })
      await shown.getByRole('columnheader', { name: 'text' }).waitFor()
      t.equal(await grid.getAttribute('aria-rowcount'), '50001')
      t.ok((await shown.getByRole('row').count()) < 100, 'only rows in view exist')
      await grid.focus()
      await page.keyboard.press('Control+End')
      await shown.getByRole('gridcell', { name: '49999', exact: true }).waitFor()
      await shown.getByRole('gridcell', { name: '=1+1' }).last().waitFor()
      await page.keyboard.press('ArrowLeft')
      const content = shown.getByLabel('Content of the cell')
      await eventually(t, () => content.locator('bdi').textContent(), 'a "b";\nc 49999', 'the whole value')
      await button(page, 'Show the source').click()
      await page.getByRole('textbox', { name: 'long.csv' }).getByText('number;text;sum').waitFor()
      await button(page, 'Show as a table').click()
      await shown.getByRole('columnheader', { name: 'text' }).waitFor()
    })
  })

  await t.test('a book is read chapter by chapter, from where the reader was', async (t) => {
    const chapters = {
      First: '<h1>The first</h1><p>See <a href="c2.xhtml#there">the third</a>.</p><img src="sea.png" alt="the sea"/>',
      Second: `<h1>The second</h1>${'<p>line</p>'.repeat(200)}<p id="end">The end.</p>`,
      Third: `${'<p>line</p>'.repeat(100)}<h2 id="there">There &amp; back</h2>`,
    }
    const file = epubOf({ chapters, members: { 'OEBPS/sea.png': picture } })
    await open(t, site, 'book.epub', file, async (page) => {
      const shown = previewOf(page, 'book.epub')
      const heading = (name: string) => shown.getByRole('heading', { name })
      await heading('The first').waitFor()
      await eventually(t, () => shown.locator('img').evaluate((image: HTMLImageElement) => image.naturalWidth), 4)
      await shown.getByRole('link', { name: 'the third' }).click()
      await heading('There & back').waitFor()
      const isInView = async () => ((await heading('There & back').boundingBox())?.y ?? Infinity) < 800
      await eventually(t, isInView, true, 'a link leads to its place')
      await page.keyboard.press('ArrowLeft')
      await heading('The second').waitFor()
      await buttonIn(shown, 'Contents').click()
      await buttonIn(shown, 'First').click()
      await heading('The first').waitFor()
      await buttonIn(shown, 'Next chapter').click()
      await heading('The second').waitFor()
      const top = () => shown.locator('main').evaluate((view) => view.scrollTop)
      await shown.locator('main').evaluate((view) => (view.scrollTop = 2000))
      const isKept = async () =>
        /"chapter":1,"share":0\.[1-9]/.test(String(await page.evaluate("localStorage['reading places']")))
      await eventually(t, isKept, true, 'the place is kept')
      await page.reload()
      await heading('The second').waitFor()
      await eventually(t, async () => Math.abs((await top()) - 2000) < 5, true, 'and shown again')
    })
  })

  await t.test('what cannot be shown says why', async (t) => {
    const cases = {
      'damaged.docx': [Buffer.from('PK\u0003\u0004 no archive'), /^This file is damaged/],
      'other.xlsx': [epubOf({ chapters: { A: '<p>a</p>' } }), /^This file is damaged/],
      'locked.docx': [Buffer.from('d0cf11e0a1b11ae1', 'hex'), /^This file is protected by a password/],
      'bomb.xlsx': [xlsxOf({ sheets: { A: ' '.repeat(70 * 2 ** 20) } }), /^This file is too large/],
      'deep.docx': [docxOf(`${'<w:p>'.repeat(5000)}${'</w:p>'.repeat(5000)}`), /^This file is damaged/],
      'type.xlsx': [xlsxOf({ sheets: { A: '' }, texts: ['<t>&lol;</t>'] }), /^This file is damaged/],
      'license.epub': [
        epubOf({
          chapters: { A: '<p>a</p>' },
          members: {
            'META-INF/encryption.xml':
              '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><x:CipherReference xmlns:x="http://www.w3.org/2001/04/xmlenc#" URI="OEBPS/c0.xhtml"/></encryption>',
          },
        }),
        /^This file is protected by a password or a license/,
      ],
    } as const
    for (const [name, [content, reason]] of Object.entries(cases)) {
      await open(t, site, name, content, async (page) => {
        await page.getByText(reason).waitFor()
        t.equal(await page.locator('iframe').count(), 0, name)
      })
    }
  })

  await t.test('a frame that shows another document is removed', (t) =>
    visit(t, site, { at: '/book.epub' }, async (page) => {
      const heading = previewOf(page, 'book.epub').getByRole('heading', { name: 'The first' })
      await heading.waitFor()
      const frame = page.frames().find((each) => each !== page.mainFrame())
      void frame?.evaluate("location.href = '?another'").catch(() => undefined)
      await page.getByText('Showing this file took too long').waitFor()
      t.equal(await page.locator('iframe').count(), 0)
    }),
  )

  await t.test('a document stays when the server signs its link anew', async (t) => {
    await site.call('/api/admin/setting/save', [{ key: 'link_expiration', value: '1' }])
    await visit(t, site, { at: '/' }, async (page) => {
      const read: string[] = []
      const signs = new Set<string>()
      page.on('request', (request) => {
        if (request.url().includes('/book.epub?')) read.push(request.url())
      })
      page.on('response', (response) => {
        if (!response.url().endsWith('/api/fs/get')) return
        void response.json().then(({ data }: { data: { sign: string } }) => signs.add(data.sign))
      })
      await page.goto('/book.epub')
      await previewOf(page, 'book.epub').getByRole('heading', { name: 'The first' }).waitFor()
      const count = read.length
      const isSignedAnew = async () => {
        // The page asks again when it is shown again.
        await page.evaluate(`document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))`)
        // The page has shown the answer before it asks once more.
        return signs.size > 2
      }
      await eventually(t, isSignedAnew, true)
      t.ok(count > 0)
      t.equal(read.length, count, 'the file is not read again')
    })
    await site.call('/api/admin/setting/save', [{ key: 'link_expiration', value: '0' }])
  })

  await t.test('a document that does not answer is removed', (t) =>
    visit(t, site, { at: '/book.epub', prepare: (page) => page.clock.install() }, async (page) => {
      await previewOf(page, 'book.epub').getByRole('heading', { name: 'The first' }).waitFor()
      const frame = page.frames().find((each) => each !== page.mainFrame())
      void frame?.evaluate('for (;;);').catch(() => undefined)
      for (let count = 0; count < 6; count++) await page.clock.runFor(5000)
      await page.getByText('Showing this file took too long').waitFor()
      t.equal(await page.locator('iframe').count(), 0)
    }),
  )
})
