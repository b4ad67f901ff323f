/**
 * Bundles the console into dist/web: index.html, and the files that it loads in static/, each with a digest of its
 * content in its name and with compressed variants. `node web/build.mjs --watch` builds again after each change.
 */
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
  const names = (await readdir(files)).filter((name) => /\.(?:js|mjs|css|svg)$/.test(name))
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
const options = {
  absWorkingDir: fileURLToPath(new URL('..', import.meta.url)),
  entryPoints: ['web/main.tsx'],
  outdir: files,
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  assetNames: '[name]-[hash]',
  bundle: true,
  splitting: true,
  format: 'esm',
  target: ['es2022'],
  minify: true,
  metafile: true,
  jsx: 'automatic',
  jsxImportSource: 'preact',
  // The documentation.
  loader: { '.md': 'text' },
  banner: { css: `@layer ${layers.join(', ')};` },
  logLevel: 'warning',
  plugins: [page, copiedFiles],
}

if (process.argv.includes('--watch')) await (await context(options)).watch()
else await build(options)
