/** Pages of docs/ that must say what the source says. */
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t from 'tap'
import { settingsPage, settingsPagePath } from './settings-page.js'

void t.test('docs/settings.md is what `npm run docs` writes', async (t) => {
  t.equal(await readFile(settingsPagePath, 'utf8'), await settingsPage())
})

void t.test('every link from one page to another leads to a file', async (t) => {
  const pages = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md']
  for (const name of await readdir('docs', { recursive: true }))
    if (name.endsWith('.md')) pages.push(join('docs', name))
  for (const page of pages) {
    const text = await readFile(page, 'utf8')
    for (const [, link = ''] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(link) || link.startsWith('#')) continue
      const target = join(dirname(page), link.replace(/#.*$/, ''))
      t.ok(existsSync(target), `${page} links to ${link}`)
    }
  }
})

void t.test('docs/decisions/README.md names every page beside it', async (t) => {
  const index = await readFile('docs/decisions/README.md', 'utf8')
  for (const name of await readdir('docs/decisions')) {
    if (name !== 'README.md') t.match(index, `(${name})`)
  }
})
