import t from 'tap'
import { driverTemplate } from '../../../protocols/http/driver-template.js'
import type { AnyDriverType } from '../../../src/contract/driver.js'
import { serve } from './served.js'

const type = (details: Partial<AnyDriverType>): AnyDriverType => ({
  name: 'Some',
  fields: {},
  open: () => Promise.reject(new Error('is never opened')),
  ...details,
})
const commonNames = (details: Partial<AnyDriverType>) => driverTemplate(type(details)).common.map(({ name }) => name)

void t.test('the common fields depend on what the driver can', async (t) => {
  t.strictSame(commonNames({}), [
    'mount_path',
    'order',
    'remark',
    'cache_expiration',
    'custom_cache_policies',
    'web_proxy',
    'webdav_policy',
    'down_proxy_url',
    'disable_proxy_sign',
    'extract_folder',
    'disable_index',
    'enable_sign',
  ])
  t.strictSame(commonNames({ config: { no_cache: true, only_proxy: true, local_sort: true, proxy_range: true } }), [
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
  t.ok(commonNames({ config: { proxy_range: true } }).includes('proxy_range'))

  const field = (name: string, config: AnyDriverType['config']) =>
    driverTemplate(type(config ? { config } : {})).common.find((each) => each.name === name)
  t.match(field('webdav_policy', {}), {
    type: 'select',
    default: '302_redirect',
    options: '302_redirect,use_proxy_url,native_proxy',
    required: true,
  })
  t.match(field('webdav_policy', { prefer_proxy: true }), {
    default: 'native_proxy',
    options: '302_redirect,use_proxy_url,native_proxy',
  })
  t.match(field('webdav_policy', { only_proxy: true }), {
    default: 'native_proxy',
    options: 'use_proxy_url,native_proxy',
  })
  t.match(field('web_proxy', { prefer_proxy: true }), { type: 'bool', default: 'true' })
  t.match(field('web_proxy', {}), { type: 'bool', default: '' })
  t.match(field('cache_expiration', {}), { type: 'number', default: '30', required: true })
})

void t.test("a driver's own fields come from its table; its root has the default root", async (t) => {
  const fields: AnyDriverType['fields'] = {
    root_folder_path: { type: 'string' },
    version: { type: 'select', options: ['v1', 'v2'], default: 'v1', help: 'which one' },
    secret_key: { type: 'string', required: true, secret: true },
    hours: { type: 'number', default: 4 },
    verbose: { type: 'bool' },
  }
  t.strictSame(driverTemplate(type({ fields, config: { default_root: '/', only_proxy: true } })), {
    common: driverTemplate(type({ config: { only_proxy: true } })).common,
    additional: [
      { name: 'root_folder_path', type: 'string', default: '/', options: '', required: true, help: '' },
      { name: 'version', type: 'select', default: 'v1', options: 'v1,v2', required: false, help: 'which one' },
      { name: 'secret_key', type: 'string', default: '', options: '', required: true, help: '' },
      { name: 'hours', type: 'number', default: '4', options: '', required: false, help: '' },
      { name: 'verbose', type: 'bool', default: '', options: '', required: false, help: '' },
    ],
    config: {
      name: 'Some',
      local_sort: false,
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
  const [rootField] = driverTemplate(type({ fields })).additional
  t.match(rootField, { default: '', required: false })
})

void t.test('drivers are told by name, alone or all at once', async (t) => {
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
  t.match(await admin.get('/api/admin/driver/info'), { code: 404 })
})
