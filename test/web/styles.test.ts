/** The style sheets of the console: each in a layer and beside its component, and no rule without a user. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

const filesOf = (ending: string) =>
  readdirSync('web', { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending))
    .map((name) => ({ name, text: readFileSync(join('web', name), 'utf8') }))
const sheets = filesOf('.css').map(({ name, text }) => ({ name, text: text.replaceAll(/\/\*.*?\*\//gs, '') }))
const sources = filesOf('.tsx')

/** The classes of the selectors of a style sheet. */
function styledIn(sheet: string): string[] {
  const preludes = Array.from(sheet.matchAll(/[^{};]+(?=\{)/g), ([prelude]) => prelude)
  return preludes
    .filter((prelude) => !prelude.trim().startsWith('@'))
    .flatMap((selector) => Array.from(selector.matchAll(/\.([a-z][\w-]*)/g), ([, name = '']) => name))
}

/** The classes that a source gives to elements, or has in its table `classes` or `cells`. */
function usedIn(source: string): string[] {
  const values = Array.from(
    source.matchAll(/\bclass=("[^"]*"|\{(?:[^{}]|\{[^{}]*\})*\})|^const (?:cells|classes)\b.*?\{(.*?)\}/gms),
    ([, value = '', table = '']) => (value.startsWith('"') ? [value.slice(1, -1)] : textsIn(value + table)),
  )
  return values.flat().flatMap((value) => value.split(/\s+/).filter((name) => name !== ''))
}

/** The texts in an expression, without those that it compares with and what template literals insert. */
function textsIn(expression: string): string[] {
  const plain = Array.from(expression.replaceAll(/[!=]== '[^']*'/g, '').matchAll(/'([^']*)'/g), ([, text = '']) => text)
  const templates = Array.from(expression.matchAll(/`([^`]*)`/g), ([, text = '']) =>
    text.replaceAll(/\$\{[^}]*\}/g, ''),
  )
  return [...plain, ...templates]
}

void t.test('every class has a rule, and every rule a user', async (t) => {
  const styled = new Set(sheets.flatMap(({ text }) => styledIn(text)))
  const used = new Set(sources.flatMap(({ text }) => usedIn(text)))
  t.ok(used.size > 100, 'the classes were found')
  t.strictSame(
    [...used].filter((name) => !styled.has(name)),
    [],
    'without a rule',
  )
  t.strictSame(
    [...styled].filter((name) => !used.has(name)),
    [],
    'without a user',
  )
})

void t.test('every style sheet is one layer, and is imported by the component of its name', async (t) => {
  const [, order = ''] = /const layers = \[(.*)\]/.exec(readFileSync('web/build.mjs', 'utf8')) ?? []
  const layers = Array.from(order.matchAll(/'(\w+)'/g), ([, layer]) => layer)
  t.ok(layers.length > 2, 'the layers were found')
  for (const { name, text } of sheets) {
    const [, layer = '', content = ''] = /^\s*@layer (\w+) \{\n(.*)\n\}\s*$/s.exec(text) ?? []
    t.ok(layers.includes(layer), `${name} has one of the layers`)
    t.notMatch(content, /^\S/m, `${name} has nothing outside of it`)
    const source = join('web', name.replace(/css$/, 'tsx'))
    const importer = existsSync(source) ? source : 'web/main.tsx'
    const [, file = ''] = /([^/]+)$/.exec(name) ?? []
    const path = importer === source ? file : name
    t.ok(readFileSync(importer, 'utf8').includes(`import './${path}'`), `${importer} imports ${name}`)
  }
})
