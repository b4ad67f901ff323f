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

void t.test(
  'texts can be read on every surface, and fields and symbols seen (WCAG 2.2, 1.4.3 and 1.4.11)',
  async (t) => {
    const tokens = sheets.find(({ name }) => name === 'styles/tokens.css')?.text ?? ''
    const colors = new Map(
      Array.from(
        tokens.matchAll(/--([\w-]+): light-dark\(#(\w{6}), #(\w{6})\)/g),
        ([, name = '', light = '', dark = '']) => [name, { light, dark }],
      ),
    )
    t.ok(colors.size > 10, 'the colors were found')
    const kinds = [...colors.keys()].filter((name) => name.startsWith('kind-'))
    const needed = {
      text: 4.5,
      muted: 4.5,
      accent: 4.5,
      danger: 4.5,
      edge: 3,
      ...Object.fromEntries(kinds.map((name) => [name, 3])),
    }
    for (const scheme of ['light', 'dark'] as const) {
      const luminanceOf = (name: string) => luminance(colors.get(name)?.[scheme] ?? '')
      for (const [name, least] of Object.entries(needed)) {
        for (const surface of ['ground', 'raised', 'floating']) {
          const [dark = 0, light = 0] = [luminanceOf(name), luminanceOf(surface)].sort((one, other) => one - other)
          const contrast = (light + 0.05) / (dark + 0.05)
          t.ok(contrast >= least, `${name} on ${surface}, ${scheme}: ${contrast}`)
        }
      }
    }
  },
)

/** The relative luminance of a color of six hexadecimal digits (WCAG 2.2). */
function luminance(color: string): number {
  const [red = 0, green = 0, blue = 0] = Array.from(color.matchAll(/../g), ([digits]) => {
    const share = parseInt(digits, 16) / 255
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}
