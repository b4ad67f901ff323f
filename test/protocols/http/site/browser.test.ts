/** The pages in a real browser: it reads the settings unchanged, and runs no injected scripts. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { findProgram, lacks } from '../../../programs.js'
import { serve, type Served } from '../served.js'
import { families, webBuild, type Family } from './web-build.js'

const run = promisify(execFile)
const skip = lacks('chromium')

/** The final document of the browser, as HTML. */
async function dump(t: Test, url: string): Promise<string> {
  const profile = await mkdtemp(join(tmpdir(), 'tidegate-chromium-'))
  t.teardown(() => rm(profile, { recursive: true, force: true, maxRetries: 5 }))
  const words = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run']
  const { stdout } = await run(
    findProgram('chromium') ?? 'chromium',
    [...words, '--disable-background-networking', `--user-data-dir=${profile}`, '--dump-dom', url],
    { timeout: 180_000, killSignal: 'SIGKILL', maxBuffer: 8 << 20 },
  )
  return stdout
}

interface Found {
  readonly settings: Readonly<Record<string, string>>
  readonly title: string
  readonly icon: string
  readonly touchIcon: string
  readonly manifest: string
  readonly injected: readonly string[]
  readonly images: number
  readonly frames: number
  readonly stored: Readonly<Record<string, string>>
}

/** What the script of the page reported. */
async function found(t: Test, url: string): Promise<Found> {
  const document = await dump(t, url)
  const text = /found:([^:]*):end/.exec(document)?.[1]
  if (text === undefined) throw new Error(`the script of the page did not run: ${document}`)
  return JSON.parse(decodeURIComponent(text)) as Found
}

const recordRun = `(window.injected=window.injected||[]).push(1)`
const hostile = [
  `'+${recordRun}+'`,
  `"+${recordRun}+"`,
  `\`+${recordRun}+\``,
  `\${${recordRun}}`,
  `</script><script>${recordRun}</script>`,
  `</title><script>${recordRun}</script>`,
  `--><script>${recordRun}</script><!--`,
  `"><img src=x onerror=${recordRun}>`,
  `' onload='${recordRun}' x='`,
  ` onerror=${recordRun} `,
  `\\`,
  `\\'+${recordRun}//`,
  `\n${recordRun}\n`,
  `\u2028${recordRun}\u2029`,
  `&quot;&#39;&lt;script&gt;`,
  `<!--<script>`,
  `$& $' $\` $1`,
  'Tides 世界 🌊',
].join(' ')

async function set(served: Served, values: Readonly<Record<string, string>>): Promise<void> {
  const rows = Object.entries(values).map(([key, value]) => ({ key, value }))
  const { code, message } = await served.post('/api/admin/setting/save', rows)
  if (code !== 200) throw new Error(message)
}

for (const [family, siteUrl] of [
  ['newer', ''],
  ['older', '/sub'],
] as const satisfies readonly (readonly [Family, string])[]) {
  void t.test(`the ${family} page reads the settings unchanged, at "${siteUrl}/"`, { skip }, async (t) => {
    const served = await serve(t, siteUrl, [], { dist_dir: await webBuild(t, family) })
    await set(served, { site_title: hostile, main_color: hostile, favicon: hostile, logo: hostile })
    const page = await found(t, `${served.url}/a/folder`)
    t.strictSame(page.settings, { cdn: siteUrl, base_path: siteUrl || '/', main_color: hostile })
    // Browsers trim and collapse white space in a title.
    t.equal(page.title, hostile.replaceAll(/[\t\n\f\r ]+/g, ' ').trim())
    t.equal(page.icon, hostile)
    t.equal(page.touchIcon, hostile.split('\n', 1)[0]?.trim())
    t.equal(page.manifest, siteUrl + families[family].manifest)
    t.strictSame(page.injected, [])
    t.equal(page.images, 0)
  })
}

void t.test("the admin's custom scripts run, except on the management pages", { skip }, async (t) => {
  const served = await serve(t, '', [], { dist_dir: await webBuild(t) })
  await set(served, {
    customize_head: `<script>${recordRun}</script>`,
    customize_body: `<img src="data:,"><script>${recordRun}</script>`,
  })
  const page = await found(t, `${served.url}/a`)
  t.strictSame([page.injected, page.images], [[1, 1], 1])
  const manage = await found(t, `${served.url}/@manage/settings`)
  t.strictSame([manage.injected, manage.images], [[], 0])
})

void t.test('uploaded files do not run as pages of the site, at any path', { skip }, async (t) => {
  const control = `<script>localStorage.setItem('control', 'ran')</script>`
  const served = await serve(t, '', [], { dist_dir: await webBuild(t, 'newer', { 'static/control.html': control }) })
  const attack = `localStorage.setItem('attack','ran');try{parent.injected=['frame']}catch{}`
  const files = {
    '/page.html': `<!doctype html><script>${attack}</script>`,
    '/README.md': `<script>${attack}</script>`,
    '/text.txt': `<!doctype html><script>${attack}</script>`,
    '/picture.svg': `<svg xmlns="http://www.w3.org/2000/svg"><script>${attack}</script></svg>`,
    '/sheet.xml': `<x xmlns:h="http://www.w3.org/1999/xhtml"><h:script>${attack}</h:script></x>`,
    '/noname': `<!doctype html><script>${attack}</script>`,
  }
  const frames = ['<iframe src="/static/control.html"></iframe>']
  for (const [path, content] of Object.entries(files)) {
    await served.put(path, content)
    const { data } = await served.post('/api/fs/get', { path })
    const link = (data as { raw_url: string }).raw_url
    for (const address of [link, link.replace('/d/', '/p/')]) {
      const { headers } = await fetch(address)
      t.equal(headers.get('x-content-type-options'), 'nosniff', address)
      t.match(headers.get('content-disposition'), /^attachment;/)
      t.match(headers.get('content-security-policy'), /(^|;) *sandbox *(;|$)/)
      frames.push(`<iframe src="${address}"></iframe><object data="${address}"></object>`)
    }
  }
  // A file runs as a script only with a script type, and this one is text.
  frames.push(`<script src="${frames.find((frame) => frame.includes('noname'))?.split('"')[1] ?? ''}"></script>`)
  await set(served, { customize_head: frames.join('') })
  const page = await found(t, served.url)
  t.equal(page.frames, Object.keys(files).length * 2 + 1)
  t.strictSame(page.injected, [])
  t.strictSame(page.stored, { control: 'ran' })
})
