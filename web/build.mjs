/**
 * Bundles the console into dist/web: index.html, and the files that it loads in static/, each with a digest of its
 * content in its name and with compressed variants. `node web/build.mjs --watch` builds again after each change.
 */
import { createHash } from 'node:crypto'
import { mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { context, build } from 'esbuild'

const source = fileURLToPath(new URL('.', import.meta.url))
const target = fileURLToPath(new URL('../dist/web/', import.meta.url))
const files = join(target, 'static')

/** From the weakest: a rule of a later layer wins over those of earlier ones, in whichever order files are imported. */
const layers = ['base', 'components', 'pages', 'utilities']

/** Files smaller than this are sent as they are. */
const smallestCompressed = 1024

/** @type {import('esbuild').Plugin} */
const page = {
  name: 'page',
  setup({ onStart, onEnd }) {
    onStart(() => rm(files, { recursive: true, force: true }))
    onEnd(async ({ metafile, errors }) => {
      if (errors.length > 0 || metafile === undefined) return
      await writePage(metafile)
      await compressFiles()
    })
  },
}

/** Imports that end in `?file` copy the file and are its URL. @type {import('esbuild').Plugin} */
const copiedFiles = {
  name: 'copied files',
  setup({ onResolve, onLoad, resolve }) {
    onResolve({ filter: /\?file$/ }, async ({ path, kind, resolveDir }) => {
      const resolved = await resolve(path.replace(/\?file$/, ''), { kind, resolveDir })
      return { path: resolved.path, namespace: 'copied files' }
    })
    onLoad({ filter: /.*/, namespace: 'copied files' }, async ({ path }) => ({
      contents: await readFile(path),
      loader: 'file',
    }))
  },
}

/**
 * Imports that end in `?document` bundle the script and its style sheets into a document of their own, and are its name.
 * The name ends in the digest of the script, which the server puts into the policy of the document, so that no other
 * script runs in it (`protocols/http/site/console.ts`). @type {import('esbuild').Plugin}
 */
const documents = {
  name: 'documents',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /\?document$/ }, ({ path, resolveDir }) => ({
      path: join(resolveDir, path.replace(/\?document$/, '')),
      namespace: 'documents',
    }))
    onLoad({ filter: /.*/, namespace: 'documents' }, async ({ path }) => {
      const { outputFiles, metafile } = await build({
        ...bundling,
        entryPoints: [path],
        outdir: files,
        write: false,
        format: 'iife',
        // The documents read archives within bounds.
        alias: { jszip: './web/preview/docx-zip.ts' },
      })
      const template = join(source, 'preview/document.html')
      const html = await documentOf(await readFile(template, 'utf8'), outputFiles)
      const name = `preview-${basename(path, '.tsx')}-${digest(html, 'hex').slice(0, 8)}-${digest(scriptIn(html), 'base64url')}.html`
      await mkdir(files, { recursive: true })
      await writeFile(join(files, name), html)
      const watched = Object.keys(metafile.inputs).map((input) => join(bundling.absWorkingDir, input))
      return { contents: `export default ${JSON.stringify(name)}`, watchFiles: [template, ...watched] }
    })
  },
}

const digest = (text, encoding) => createHash('sha256').update(text).digest(encoding)
const scriptIn = (html) => html.slice(html.indexOf('<script>') + '<script>'.length, html.lastIndexOf('</script>'))

/** The document with the script and the style sheet in it. */
function documentOf(template, outputFiles) {
  const textOf = (ending) => outputFiles.find(({ path }) => path.endsWith(ending)).text
  const [script, style] = [textOf('.js'), textOf('.css')]
  // What would end the element too early or too late (HTML Standard, restrictions for contents of script elements).
  if (/<\/script|<!--[^]*<script/i.test(script) || /<\/style/i.test(style)) throw new Error('not to be put into HTML')
  return template.replace('/* style */', () => style.trim()).replace('/* script */', () => script.trim())
}

/** Writes the index page with the names of the entry's script and style sheet. */
async function writePage(metafile) {
  const [script, entry] = Object.entries(metafile.outputs).find(([, { entryPoint }]) => entryPoint === 'web/main.tsx')
  const preloaded = entry.imports.filter(({ kind }) => kind === 'import-statement').map(({ path }) => basename(path))
  const template = await readFile(join(source, 'index.html'), 'utf8')
  const html = template
    .replace('{{script}}', basename(script))
    .replace('{{style}}', basename(entry.cssBundle))
    .replace('{{preloads}}', preloaded.map((name) => `<link rel="modulepreload" href="static/${name}">`).join('\n    '))
  // The style sheet of the entry has the rules of all parts, so that nothing moves when a part is loaded.
  const ofParts = Object.keys(metafile.outputs).filter((path) => path.endsWith('.css') && path !== entry.cssBundle)
  await Promise.all(ofParts.map((path) => rm(path)))
  await mkdir(target, { recursive: true })
  await writeFile(join(target, 'index.html'), html)
}

async function compressFiles() {
  const names = (await readdir(files)).filter((name) => /\.(?:js|mjs|css|svg|html)$/.test(name))
  await Promise.all(
    names.map(async (name) => {
      const content = await readFile(join(files, name))
      if (content.length < smallestCompressed) return
      const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }
      await writeFile(join(files, `${name}.br`), await promisify(brotliCompress)(content, quality))
      await writeFile(join(files, `${name}.gz`), await promisify(gzip)(content, { level: 9 }))
    }),
  )
}

/** @type {import('esbuild').BuildOptions} */
const bundling = {
  absWorkingDir: fileURLToPath(new URL('..', import.meta.url)),
  bundle: true,
  target: ['es2022'],
  minify: true,
  metafile: true,
  jsx: 'automatic',
  jsxImportSource: 'preact',
  banner: { css: `@layer ${layers.join(', ')};` },
  logLevel: 'warning',
}

/** @type {import('esbuild').BuildOptions} */
const options = {
  ...bundling,
  entryPoints: ['web/main.tsx'],
  outdir: files,
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  assetNames: '[name]-[hash]',
  splitting: true,
  format: 'esm',
  // The documentation.
  loader: { '.md': 'text' },
  plugins: [page, copiedFiles, documents],
}

if (process.argv.includes('--watch')) await (await context(options)).watch()
else await build(options)
