/** What the console says of settings, and of the choices of settings and of fields of storages. */
import { readdirSync } from 'node:fs'
import t from 'tap'
import { driverTypes } from '../../drivers/index.js'
import { commonFields } from '../../protocols/http/compat/driver-template.js'
import { protocols } from '../../protocols/index.js'
import type { Field } from '../../src/contract/driver-type.js'
import { settingDefinitions } from '../../src/settings/settings-table.js'
import { textsIn } from './console-modules.js'

const languages = readdirSync('web/texts', { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

/** The settings that the console shows as fields. */
const settings = settingDefinitions(protocols, driverTypes).filter(
  ({ inForce, flag, group }) => inForce && flag !== 'readonly' && group !== 'single',
)

/** Choices that are names of products, protocols, formats and kinds of devices. */
const names =
  /^(?:search_index\.(?:bleve|meilisearch)|sso_login_platform\.\w+|vendor\.sharepoint|list_object_version\.v[12]|filename_encoding\.base\d+|qrcode_source\.(?:android|ios|qandroid|linux|mac|windows))$/

void t.test('each setting has its name and its help, and nothing else has', async (t) => {
  t.ok(settings.length > 100, 'the settings were found')
  const keys = settings.map(({ key }) => key).sort()
  for (const language of languages) {
    const texts = await textsIn(language)
    for (const group of ['settings.labels', 'settingHelp']) {
      const start = `.${group}.`
      const found = [...texts.keys()].filter((place) => place.startsWith(start))
      t.strictSame(found.map((place) => place.slice(start.length)).sort(), keys, `${language} ${group}`)
    }
    for (const key of keys) t.match(texts.get(`.settingHelp.${key}`), /[.。]$/, `${language}: the help is a sentence`)
  }
})

void t.test('each choice has a text, unless it is a name, and nothing else has', async (t) => {
  const fields: readonly (readonly [name: string, field: Pick<Field, 'options'>])[] = [
    ...driverTypes.flatMap(({ fields, facts = {} }) => [...Object.entries<Field>(fields), ...commonFields(facts)]),
    ...settings.map((setting) => [setting.key, setting] as const),
  ]
  const all = new Set(fields.flatMap(([name, { options = [] }]) => options.map((choice) => `${name}.${choice}`)))
  t.ok(all.size > 70, 'the choices were found')
  for (const language of languages) {
    const places = [...(await textsIn(language)).keys()]
    const found = places.flatMap((place) => /^\.choices\.(.*)$/.exec(place)?.[1] ?? [])
    t.strictSame(found.sort(), [...all].filter((choice) => !names.test(choice)).sort(), language)
  }
})
