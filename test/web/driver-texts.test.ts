/** What the console says of drivers is about the drivers that there are, and about each of their fields. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { driverTypes } from '../../drivers/index.js'
import { commonFields } from '../../protocols/http/compat/driver-template.js'
import { consoleModule, textsIn } from './console-modules.js'

const languages = readdirSync('web/texts', { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

const ofFields = (place: string, names: Iterable<string>) =>
  [...names].flatMap((name) => [`${place}.${name}.label`, `${place}.${name}.help`])

void t.test('each driver has its sentence, and each field its label and its help, and nothing else has', async (t) => {
  const drivers = driverTypes.flatMap(({ name, fields }) => [
    `.${name}.about`,
    ...ofFields(`.${name}.fields`, Object.keys(fields)),
  ])
  const common = new Set(driverTypes.flatMap(({ facts = {} }) => commonFields(facts).map(([name]) => name)))
  t.ok(languages.length > 1 && drivers.length > 200, 'languages and drivers were found')
  for (const language of languages) {
    const texts = await textsIn(language)
    const places = [...texts.keys()]
    const found = places.flatMap((place) => /^\.(?:drivers|clouds)(\..*)$/.exec(place)?.[1] ?? [])
    t.strictSame(found.sort(), [...drivers].sort(), language)
    const shared = places.filter((place) => place.startsWith('.storageFields.'))
    t.strictSame(shared.sort(), ofFields('.storageFields', common).sort(), language)
    for (const place of [...found, ...shared]) {
      const text = texts.get(place) ?? texts.get(`.drivers${place}`) ?? texts.get(`.clouds${place}`)
      if (!place.endsWith('.label')) t.match(text, /[.。]$/, `${language} ${place} is a sentence`)
      t.notMatch(text, /^[a-z]+_\w+$/, `${language} ${place} is in words`)
    }
  }
})

void t.test('each driver has its page of the documentation, the one to which docs/drivers.md links', async (t) => {
  const { driverPages: pages } = (await consoleModule(`export { driverPages } from './admin/driver-texts.ts'`, {
    languages: ['en'],
  })) as { readonly driverPages: Readonly<Record<string, string>> }
  t.strictSame(Object.keys(pages).sort(), driverTypes.map(({ name }) => name).sort())
  const table = readFileSync('docs/drivers.md', 'utf8')
  for (const [name, page] of Object.entries(pages)) {
    t.ok(existsSync(`docs/${page}.md`), name)
    t.match(table, page === 'drivers' ? `\n| \`${name}\` |` : `[\`${name}\`](${page}.md)`, name)
  }
})
