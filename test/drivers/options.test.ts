/** The options of all drivers: each is used by a driver. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { driverTypes } from '../../drivers/index.js'

await t.test('no driver has an option that nothing reads', async (t) => {
  const files = (await readdir('drivers', { recursive: true })).filter((name) => name.endsWith('.ts'))
  const sources = await Promise.all(files.map((name) => readFile(join('drivers', name), 'utf8')))
  // Without comments, and without the declarations of options and their help.
  const code = sources.join('\n').replace(/\/\*[^]*?\*\/|\/\/.*$|^ {2}\w+: \{.*$|help: .*$/gm, '')
  for (const { name, fields } of driverTypes) {
    for (const option of Object.keys(fields)) t.match(code, new RegExp(`\\b${option}\\b`), `${name}: ${option}`)
  }
})
