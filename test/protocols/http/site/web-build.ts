/** The build of a small web client: it has the placeholders of real ones, and a script that reports the values. */
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import type { Test } from 'tap'

/** The differences between pages of the two families: the global variable, the pictures, and the manifest. */
export const families = {
  newer: { global: 'OPENLIST_CONFIG', pictures: 'https://res.oplist.org/logo/logo', manifest: '/manifest.json' },
  older: {
    global: 'ALIST',
    pictures: 'https://cdn.jsdelivr.net/gh/alist-org/logo@main/logo',
    manifest: '/static/manifest.json',
  },
} as const
export type Family = keyof typeof families

export function indexPage(family: Family = 'newer'): string {
  const { global, pictures, manifest } = families[family]
  return `<!doctype html>
<html lang="en">
<head>
<!-- customize head -->
<meta charset="utf-8">
<link href="${manifest}" rel="manifest">
<link rel="apple-touch-icon" href="${pictures}.png">
<link rel="icon" type="image/ico" href="${pictures}.svg">
<title>Loading...</title>
<script>
window.${global} = {
  cdn: undefined,
  monaco_cdn: undefined,
  base_path: undefined,
  api: undefined,
  main_color: undefined,
}
window.settings = window.${global}
</script>
</head>
<body>
<div id="root">Loading...</div>
<script>
document.write('<script type="module" src="' + window.settings.cdn + '/assets/app-3f9c.js"><' + '/script>')
</script>
<!-- customize body -->
</body>
</html>
`
}

/**
 * After everything is loaded, frames included, it writes the values into the page, encoded so that a dump preserves
 * them exactly.
 */
export const appScript = `
await new Promise((resolve) => addEventListener('load', resolve))
const icon = document.querySelector('link[rel=icon]').getAttribute('href')
const touchIcon = document.querySelector('link[rel=apple-touch-icon]').getAttribute('href')
const manifest = document.querySelector('link[rel=manifest]').getAttribute('href')
const found = {
  settings: window.settings,
  title: document.title,
  icon, touchIcon, manifest,
  injected: window.injected ?? [],
  images: document.images.length,
  frames: document.querySelectorAll('iframe').length,
  stored: { ...localStorage },
}
document.querySelector('#root').textContent = 'found:' + encodeURIComponent(JSON.stringify(found)) + ':end'
`

type Files = Readonly<Record<string, string | Buffer>>

/** A folder with the build, removed at the end of the test. `files`, by their paths, are added or replaced. */
export function webBuild(test: Test, family: Family = 'newer', files: Files = {}): Promise<string> {
  return folderWith(test, {
    'index.html': indexPage(family),
    'assets/app-3f9c.js': appScript,
    'assets/large-77aa.js': '/* large */'.repeat(20_000),
    'assets/packed-01.css': 'body{color:red}',
    'assets/packed-01.css.br': brotliCompressSync('body{color:red}'),
    'assets/packed-01.css.gz': gzipSync('body{color:red}'),
    'images/logo.svg': '<svg xmlns="http://www.w3.org/2000/svg"/>',
    'streamer/mitm.html': '<!doctype html><title>streamer</title>',
    'static/a b+ü.txt': 'a text',
    'assets/.hidden': 'hidden',
    ...files,
  })
}

const program = 'document.title = 1'
/** A document that shows files of others. Its name has the digest of its script. */
export const previewDocument = {
  name: `preview-docx-0123abcd-${createHash('sha256').update(program).digest('base64url')}.html`,
  content: `<!doctype html><script>${program}</script>`,
  digest: createHash('sha256').update(program).digest('base64'),
}

/** A folder with the build of a small console, whose page has the placeholders of the real one. */
export function consoleBuildFolder(test: Test): Promise<string> {
  return folderWith(test, {
    'index.html': '<title>{{title}}</title><base href="{{base}}"><link rel="icon" href="{{icon}}"><div id="console">',
    'static/main-AB12.js': 'export {}',
    [`static/${previewDocument.name}`]: previewDocument.content,
    'static/packed-01.css': 'body{color:red}',
    'static/packed-01.css.br': brotliCompressSync('body{color:red}'),
    'static/packed-01.css.gz': gzipSync('body{color:red}'),
  })
}

async function folderWith(test: Test, files: Files): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-web-'))
  test.teardown(() => rm(folder, { recursive: true, force: true }))
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true })
    await writeFile(join(folder, name), content)
  }
  return folder
}
