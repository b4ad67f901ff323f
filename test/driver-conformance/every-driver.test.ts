/**
 * Every driver of `drivers/index.ts` runs the suite, which is read from the test files: each names the type of its
 * candidate.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { driverTypes } from '../../drivers/index.js'

const drivers = 'test/drivers'

/** The driver types that test files pass to the suite, each by the module and the name of its import. */
function candidates(): readonly (readonly [module: string, name: string])[] {
  const files = readdirSync(drivers, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.test.ts'))
  return files.flatMap((file) => {
    const text = readFileSync(join(drivers, file), 'utf8')
    const names = [...text.matchAll(/\bconformance\(t, \{\s*type: (\w+),/g)].map((found) => found[1] ?? '')
    return [...new Set(names)].flatMap((name) => {
      const module = new RegExp(`import \\{[^}]*\\b${name}\\b[^}]*\\} from '(?:\\.\\./)+(drivers/[^']*)'`).exec(text)
      return module?.[1] === undefined ? [] : [[module[1], name] as const]
    })
  })
}

await t.test('every driver runs the conformance suite', async (t) => {
  const run = new Set<unknown>()
  for (const [module, name] of candidates()) {
    const exports = (await import(`../../${module}`)) as Readonly<Record<string, unknown>>
    run.add(exports[name])
  }
  for (const type of driverTypes) t.ok(run.has(type), type.name)
})
