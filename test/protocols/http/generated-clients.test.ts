/** Clients that are generated from the served document, used as docs/api.md shows. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { createClient } from '@hey-api/openapi-ts'
import { build } from 'esbuild'
import openapiTs, { astToString } from 'openapi-typescript'
import t, { type Test } from 'tap'
import ts from 'typescript'
import { serve } from './served.js'

/** As a project that `tsc --init` makes is checked, with types of browsers for `fetch`. */
const options: ts.CompilerOptions = {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  lib: ['lib.es2022.d.ts', 'lib.dom.d.ts', 'lib.dom.iterable.d.ts'],
  types: ['node'],
}

/** The example of docs/api.md that contains the text. */
async function example(text: string): Promise<string> {
  const page = await readFile('docs/api.md', 'utf8')
  const blocks = [...page.matchAll(/^```ts\n(.*?)^```/gms)].map(([, block = '']) => block)
  return blocks.find((block) => block.includes(text)) ?? ''
}

/** Generates a client into the folder, and compares what the example prints with it. */
async function checkExample(
  t: Test,
  text: string,
  generate: (document: string, folder: string) => Promise<unknown>,
): Promise<void> {
  const served = await serve(t)
  await served.as('ann', ['write'])
  const folder = t.testdir()
  await generate(`${served.url}/api/openapi.json`, folder)
  const program = join(folder, 'program.ts')
  await writeFile(program, (await example(text)).replace('http://localhost:5244', served.url))

  const faults = ts.getPreEmitDiagnostics(ts.createProgram([program], options))
  t.same(
    faults.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n')),
    [],
    'the generated code and the example have no type errors',
  )

  const outfile = join(folder, 'program.mjs')
  const define = { 'process.env.PASSWORD': '"password"' }
  await build({ entryPoints: [program], outfile, define, bundle: true, format: 'esm', platform: 'node' })
  const printed = t.capture(console, 'log')
  await import(pathToFileURL(outfile).href)
  t.same(
    printed().map(({ args }): unknown => args),
    [['success'], [['café.txt']], ['not_found']],
  )
  t.equal(await served.content('/café.txt'), 'hello')
}

void t.test('a client of @hey-api/openapi-ts signs in, uploads, lists and reads the name of an error', (t) =>
  checkExample(t, 'client.gen', (input, folder) =>
    createClient({ input, output: join(folder, 'tidegate'), logs: { level: 'silent' } }),
  ),
)

void t.test('types of openapi-typescript describe the same to openapi-fetch', (t) =>
  checkExample(t, 'openapi-fetch', async (input, folder) => {
    // Else a field that has a default is required.
    const types = await openapiTs(new URL(input), { defaultNonNullable: false })
    await writeFile(join(folder, 'tidegate.ts'), astToString(types))
  }),
)
