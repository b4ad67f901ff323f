/** The table of settings: defaults, stored values, values that are rejected, and the permanent token. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { driverTypes } from '../../drivers/index.js'
import { protocols } from '../../protocols/index.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import {
  inGroup,
  settingDefinitions,
  type ProtocolWithSettings,
  type SettingRows,
} from '../../src/settings/settings-table.js'
import { Settings } from '../../src/settings/settings.js'
import { openStore } from '../../src/database/store.js'

const definitions = settingDefinitions(protocols, driverTypes)
const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string }

void t.test('every default is valid, and no default is a public address', async (t) => {
  const store = await openStore(join(t.testdir(), 'tidegate.db'))
  const settings = await Settings.open(store, definitions)
  t.teardown(() => store.close())
  t.equal(new Set(definitions.map(({ key }) => key)).size, definitions.length, 'every key is unique')
  await settings.set(new Map(definitions.map((row) => [row.key, row.default])))
  for (const row of definitions) t.notMatch(row.default, /https?:\/\/(?!localhost|admin:adminadmin@localhost)/)
})

void t.test('every setting has a help text', (t) => {
  for (const { key, help } of definitions) t.match(help, /^[A-Z].*\.$/, key)
  t.end()
})

void t.test('a protocol adds settings to a group: at its end, or before another one', (t) => {
  const added = (rows: SettingRows, before?: string) => ({
    settings: () => inGroup('index', rows, before === undefined ? {} : { before }),
  })
  const first = added(
    { first: ['bool', 'true', 'public', 'One.'], second: ['bool', 'true', 'public', 'Two.'] },
    'ignore_paths',
  )
  const last = added({ third: ['bool', 'true', 'public', 'Three.'] }, 'second')
  const end = added({ fourth: ['bool', 'true', 'public', 'Four.'] })
  const keys = (protocols: readonly ProtocolWithSettings[]) => settingDefinitions(protocols, []).map(({ key }) => key)
  const own = ['search_index', 'auto_update_index', 'ignore_paths', 'max_index_depth']
  const ofIndex = (all: readonly string[]) => all.slice(all.indexOf('search_index'), all.indexOf('sso_login_enabled'))
  t.same(ofIndex(keys([])), own)
  t.same(ofIndex(keys([end, first, last])), [
    ...['search_index', 'auto_update_index', 'first', 'third', 'second', 'ignore_paths', 'max_index_depth', 'fourth'],
  ])
  t.end()
})

void t.test('the folders of download tools are those that the drivers declare', (t) => {
  const keys = (drivers: readonly AnyDriverType[]) => settingDefinitions(protocols, drivers).map(({ key }) => key)
  t.same(
    keys(driverTypes).filter((key) => !keys([]).includes(key)),
    ['115_temp_dir', '115_open_temp_dir'],
  )
  t.end()
})

void t.test('stored values override the defaults, except for the version', async (t) => {
  const store = await openStore(join(t.testdir(), 'tidegate.db'))
  t.teardown(() => store.close())
  await store.settings.set(
    new Map([
      ['version', 'v9.9.9'],
      ['site_title', 'Harbour'],
    ]),
  )
  const settings = await Settings.open(store, definitions)
  t.equal(settings.get('version'), `v${version}`)
  t.equal(settings.get('site_title'), 'Harbour')
  t.equal(settings.bool('sign_all'), true)
  t.equal(settings.number('default_page_size'), 30)
  await settings.set(
    new Map([
      ['sign_all', '0'],
      ['allow_indexed', '1'],
      ['default_page_size', ''],
      ['version', 'x'],
    ]),
  )
  t.equal(settings.bool('sign_all'), false)
  t.equal(settings.bool('allow_indexed'), true)
  t.equal(settings.number('default_page_size'), 30, 'an empty number means the default')
  t.equal(settings.get('version'), `v${version}`)
  t.throws(() => settings.get('nonsense'), { code: 'internal' })

  const again = await Settings.open(store, definitions)
  t.equal(again.get('allow_indexed'), '1')
})

void t.test('the token is generated once, is never empty, and is not public', async (t) => {
  const store = await openStore(join(t.testdir(), 'tidegate.db'))
  t.teardown(() => store.close())
  const settings = await Settings.open(store, definitions)
  const token = settings.get('token')
  t.match(token, /^tidegate-[0-9a-f-]{36}[A-Za-z0-9]{64}$/)
  t.equal((await Settings.open(store, definitions)).get('token'), token)
  t.notOk('token' in settings.public())
  await settings.set(new Map([['token', '']]))
  t.match(settings.get('token'), /^tidegate-/)
  t.not(settings.get('token'), token)
  const reset = await settings.resetToken()
  t.equal(settings.get('token'), reset)
  await store.settings.set(new Map([['token', '']]))
  t.match((await Settings.open(store, definitions)).get('token'), /^tidegate-/)
})

void t.test('a guessable permanent token is rejected, and a stored one is logged as a warning', async (t) => {
  const store = await openStore(join(t.testdir(), 'tidegate.db'))
  t.teardown(() => store.close())
  const first = await Settings.open(store, definitions)
  const token = first.get('token')
  const strong = 'x'.repeat(32)
  const refused = { code: 'invalid', reason: /^setting \[token\] must be at least 32 visible ASCII characters/ }
  const weak = [
    'x',
    ' ',
    '\t',
    'x'.repeat(31),
    ' '.repeat(40),
    `${strong} `,
    `${strong}\n`,
    `${strong}\0`,
    `${strong}\u007f`,
  ]
  for (const value of [...weak, `${strong}\u00a0`, `${strong}é`]) {
    await t.rejects(first.set(new Map([['token', value]])), refused, JSON.stringify(value))
  }
  t.equal(first.get('token'), token)
  await first.set(new Map([['token', strong]]))
  t.equal(first.get('token'), strong)
  first.close()

  const warnings: unknown[] = []
  const log = { warn: (...words: unknown[]) => void warnings.push(words.at(-1)) }
  const open = () => Settings.open(store, definitions, log)
  await open()
  t.same(warnings, [])
  await store.settings.set(new Map([['token', 'short']]))
  const settings = await open()
  t.equal(settings.get('token'), 'short')
  t.match(warnings, [/^the permanent token is not at least 32 .* "tidegate admin token --reset"$/])
  t.notMatch(String(warnings), /short/)
  await settings.set(
    new Map([
      ['token', 'short'],
      ['site_title', 'mine'],
    ]),
  )
  await t.rejects(settings.set(new Map([['token', 'other']])), refused)
  await settings.resetToken()
  t.match(settings.get('token'), /^tidegate-/)
})

void t.test('an invalid value is rejected, and no value of the call is stored', async (t) => {
  const store = await openStore(join(t.testdir(), 'tidegate.db'))
  t.teardown(() => store.close())
  const settings = await Settings.open(store, definitions)
  for (const [key, value] of [
    ['default_page_size', 'many'],
    ['default_page_size', '1e3'],
    ['sign_all', 'yes'],
    ['pagination_type', 'scroll'],
  ] as const) {
    await t.rejects(
      settings.set(
        new Map([
          ['site_title', 'changed'],
          [key, value],
        ]),
      ),
      { code: 'invalid', message: new RegExp(key) },
    )
  }
  t.equal(settings.get('site_title'), 'Tidegate')
  await settings.set(
    new Map([
      ['max_client_download_speed', '-1'],
      ['link_expiration', '0.5'],
      ['sso_login_platform', ''],
    ]),
  )
  t.equal(settings.number('link_expiration'), 0.5)
})

void t.test(
  'rows are ordered by group and position; unknown stored keys are deprecated and can be deleted',
  async (t) => {
    const store = await openStore(join(t.testdir(), 'tidegate.db'))
    t.teardown(() => store.close())
    const settings = await Settings.open(store, definitions)
    await settings.set(new Map([['old_thing', 'x']]))
    const rows = settings.rows()
    t.match(rows[0], { key: 'version', group: 'site', flag: 'readonly', type: 'string' })
    t.match(
      rows.find(({ key }) => key === 'pagination_type'),
      { options: ['all', 'pagination', 'load_more', 'auto_load_more'], value: 'all', flag: 'public' },
    )
    t.same(
      rows.filter(({ group }) => ['single', 'index'].includes(group)).map(({ key }) => key),
      [
        'token',
        'index_progress',
        'first_run_done',
        'search_index',
        'auto_update_index',
        'ignore_paths',
        'max_index_depth',
        'old_thing',
      ],
    )
    t.match(
      rows.find(({ key }) => key === 'old_thing'),
      { flag: 'deprecated', value: 'x' },
    )
    t.notOk('old_thing' in settings.public())
    await t.rejects(settings.delete('token'), { code: 'invalid', detail: 'setting_in_use', subject: 'token' })
    await settings.delete('old_thing')
    await t.rejects(settings.delete('old_thing'), { code: 'not_found' })
    t.match(
      settings.defaults().find(({ key }) => key === 'logo'),
      { value: '' },
    )
  },
)

void t.test('a value stored by another process takes effect', async (t) => {
  const file = join(t.testdir(), 'tidegate.db')
  const store = await openStore(file)
  const other = await openStore(file)
  t.teardown(() => Promise.all([store.close(), other.close()]))
  const settings = await Settings.open(store, definitions)
  const changed = new Promise<void>((resolve) => settings.onChange(resolve))
  const ours = await Settings.open(other, definitions)
  await ours.set(new Map([['site_title', 'Elsewhere']]))
  const waiting = setTimeout(() => undefined, 5000)
  await changed
  clearTimeout(waiting)
  t.equal(settings.get('site_title'), 'Elsewhere')
  settings.close()
})
