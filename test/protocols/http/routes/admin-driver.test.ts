/** The descriptions of drivers, from which clients build the form of a new storage: fields and flags. */
import t from 'tap'
import { driverTypes } from '../../../../drivers/index.js'
import { driverTemplate } from '../../../../protocols/http/compat/driver-template.js'
import type { AnyDriverType } from '../../../../src/contract/driver-type.js'
import { serve } from '../served.js'

const type = (details: Partial<AnyDriverType>): AnyDriverType => ({
  name: 'Some',
  fields: {},
  open: () => Promise.reject(new Error('is never opened')),
  ...details,
})
const commonNames = (details: Partial<AnyDriverType>) => driverTemplate(type(details)).common.map(({ name }) => name)

void t.test('the common fields depend on the capabilities of the driver', async (t) => {
  t.strictSame(commonNames({ facts: { directUrls: 'preferred' } }), [
    'mount_path',
    'order',
    'remark',
    'cache_expiration',
    'custom_cache_policies',
    'web_proxy',
    'webdav_policy',
    'down_proxy_url',
    'disable_proxy_sign',
    'order_by',
    'order_direction',
    'extract_folder',
    'disable_index',
    'enable_sign',
  ])
  t.strictSame(commonNames({ facts: { uncached: true, composite: true } }), [
    'mount_path',
    'order',
    'remark',
    'webdav_policy',
    'down_proxy_url',
    'disable_proxy_sign',
    'order_by',
    'order_direction',
    'extract_folder',
    'disable_index',
    'enable_sign',
  ])
  t.ok(commonNames({ facts: { directUrls: 'preferred', composite: true } }).includes('proxy_range'))

  const field = (name: string, directUrls?: 'preferred' | 'possible') =>
    driverTemplate(type(directUrls ? { facts: { directUrls } } : {})).common.find((each) => each.name === name)
  t.match(field('webdav_policy', 'preferred'), {
    type: 'select',
    default: '302_redirect',
    options: '302_redirect,use_proxy_url,native_proxy',
    required: true,
  })
  t.match(field('webdav_policy', 'possible'), {
    default: 'native_proxy',
    options: '302_redirect,use_proxy_url,native_proxy',
  })
  t.match(field('webdav_policy'), {
    default: 'native_proxy',
    options: 'use_proxy_url,native_proxy',
  })
  t.match(field('web_proxy', 'possible'), { type: 'bool', default: 'true' })
  t.match(field('web_proxy', 'preferred'), { type: 'bool', default: '' })
  t.match(field('cache_expiration'), { type: 'number', default: '30', required: true })
})

void t.test("a driver's own fields are those of its options; default_root is that of root_folder_path", async (t) => {
  const fields: AnyDriverType['fields'] = {
    root_folder_path: { type: 'string', default: '/', required: true, basic: true, treePath: true },
    version: { type: 'select', options: ['v1', 'v2'], default: 'v1', help: 'which one' },
    secret_key: { type: 'string', required: true, secret: true, singleUse: true },
    hours: { type: 'number', default: 4 },
    verbose: { type: 'bool' },
  }
  const plain = { options: '', required: false, help: '', basic: false, secret: false, tree_path: false }
  const field = (name: string, fieldType: string, value: string, others: object = {}) => ({
    ...{ ...plain, name, type: fieldType, default: value, single_use: false },
    ...others,
  })
  t.strictSame(driverTemplate(type({ fields })), {
    common: driverTemplate(type({})).common,
    additional: [
      field('root_folder_path', 'string', '/', { required: true, basic: true, tree_path: true }),
      field('version', 'select', 'v1', { options: 'v1,v2', help: 'which one' }),
      field('secret_key', 'string', '', { required: true, secret: true, single_use: true }),
      field('hours', 'number', '4'),
      field('verbose', 'bool', ''),
    ],
    qr_sign_in: '',
    config: {
      name: 'Some',
      local_sort: true,
      only_local: false,
      only_proxy: true,
      no_cache: false,
      no_upload: false,
      need_ms: false,
      default_root: '/',
      alert: '',
      only_indices: false,
      prefer_proxy: false,
    },
  })
  const { additional, config } = driverTemplate(type({ fields: { root_folder_path: { type: 'string' } } }))
  t.match(additional, [{ default: '', required: false }])
  t.equal(config.default_root, '')
})

void t.test(
  'each driver has the flags that existing clients expect, and those that follow from its facts',
  async (t) => {
    const common = { only_local: false, no_upload: false, only_indices: false, local_sort: true }
    const flags = { ...common, only_proxy: false, no_cache: false, need_ms: false, alert: '', prefer_proxy: false }
    // What clients of this API have seen so far. A new driver needs no row.
    const expected: Readonly<Record<string, object>> = {
      Alias: { no_cache: true },
      Crypt: { only_proxy: true, no_cache: true },
      FTP: { only_proxy: true },
      Local: { only_proxy: true, no_cache: true },
      Memory: { only_proxy: true, no_cache: true, alert: 'warning|All files are lost when the storage stops.' },
      S3: {},
      SFTP: { only_proxy: true },
      SMB: { only_proxy: true, no_cache: true, default_root: '.' },
      Virtual: { only_proxy: true, no_upload: true, need_ms: true, default_root: '' },
      WebDav: { prefer_proxy: true },
    }
    const names = new Set(driverTypes.map(({ name }) => name))
    for (const name of Object.keys(expected)) t.ok(names.has(name), name)
    for (const driverType of driverTypes) {
      const { name, facts = {} } = driverType
      const { config, common: fields } = driverTemplate(driverType)
      const { default_root: defaultRoot, ...others } = config
      const { directUrls, uncached, readOnly, interactive, warning } = facts
      t.strictSame(
        others,
        {
          name,
          ...flags,
          ...(directUrls === undefined && { only_proxy: true }),
          ...(directUrls === 'possible' && { prefer_proxy: true }),
          ...(uncached === true && { no_cache: true }),
          ...(readOnly === true && { no_upload: true }),
          ...(interactive === true && { need_ms: true }),
          ...(warning !== undefined && { alert: `warning|${warning}` }),
        },
        name,
      )
      const known = expected[name]
      if (known) t.strictSame(config, { name, ...flags, default_root: '/', ...known }, name)
      t.type(defaultRoot, 'string')
      const isComposite = facts.composite === true && directUrls !== undefined
      t.equal(
        fields.some((field) => field.name === 'proxy_range'),
        isComposite,
        name,
      )
      t.equal(isComposite, name === 'Alias' || (!known && isComposite), name)
    }
  },
)

void t.test('a form shows at most five fields at first, and all that have to be filled in', (t) => {
  for (const driverType of driverTypes) {
    const { common, additional } = driverTemplate(driverType)
    const basic = [...common, ...additional].filter((field) => field.basic)
    t.ok(basic.length <= 5, driverType.name)
    t.equal(basic[0]?.name, 'mount_path', driverType.name)
    for (const { name, required, default: value, basic: isBasic } of [...common, ...additional]) {
      if (required && value === '') t.ok(isBasic, `${driverType.name}: ${name}`)
    }
    for (const [name, { treePath, type }] of Object.entries(driverType.fields)) {
      if (treePath === true) t.match(type, /^(?:string|text)$/, `${driverType.name}: ${name}`)
    }
  }
  t.end()
})

void t.test('drivers are listed by name, and shown one by one or all together', async (t) => {
  const admin = await serve(t)
  t.strictSame((await admin.get('/api/admin/driver/names')).data, ['Broken', 'Local'])
  const { data } = await admin.get('/api/admin/driver/list')
  t.match(data, { Local: { common: [{ name: 'mount_path' }], additional: [{ name: 'root_folder_path' }] } })
  t.strictSame((await admin.get('/api/admin/driver/info?driver=Local')).data, (data as Record<string, unknown>).Local)
  t.strictSame(await admin.get('/api/admin/driver/info?driver=local'), {
    code: 404,
    message: 'driver [local] not found',
    data: null,
  })
  t.match(await admin.get('/api/admin/driver/info'), { code: 400, message: 'driver: is missing' })
})
