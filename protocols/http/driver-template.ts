/** The form for a storage in the admin's client: common fields, fields of the driver, and traits of the driver. */
import { z } from 'zod'
import { fieldTypes, type AnyDriverType, type DriverConfig, type Field } from '../../src/contract/driver.js'

const fieldData = z
  .object({
    name: z.string(),
    type: z.enum(fieldTypes),
    default: z.string(),
    options: z.string().describe('Comma-separated choices of a `select`.'),
    required: z.boolean(),
    help: z.string(),
  })
  .meta({ id: 'DriverField' })

export const templateData = z
  .object({
    common: z.array(fieldData).describe('Fields that are not specific to the driver.'),
    additional: z.array(fieldData).describe('Fields of the driver, stored in the field `addition` of a storage.'),
    config: z
      .object({
        name: z.string(),
        local_sort: z.boolean(),
        only_local: z.boolean(),
        only_proxy: z.boolean(),
        no_cache: z.boolean(),
        no_upload: z.boolean(),
        need_ms: z.boolean(),
        default_root: z.string(),
        alert: z.string(),
        only_indices: z.boolean(),
        prefer_proxy: z.boolean(),
      })
      .describe('Traits of the driver.'),
  })
  .meta({ id: 'DriverTemplate' })

export type DriverTemplate = z.infer<typeof templateData>

export function driverTemplate({ name, fields, config = {} }: AnyDriverType): DriverTemplate {
  return {
    common: commonFields(config).map(([field, details]) => templateField(field, details)),
    additional: Object.entries(fields).map(([field, details]) =>
      templateField(field, withRootDefault(field, details, config)),
    ),
    config: {
      name,
      local_sort: config.local_sort ?? false,
      only_local: false,
      only_proxy: config.only_proxy ?? false,
      no_cache: config.no_cache ?? false,
      no_upload: config.no_upload ?? false,
      need_ms: config.need_ms ?? false,
      default_root: config.default_root ?? '',
      alert: config.alert ?? '',
      only_indices: config.only_indices ?? false,
      prefer_proxy: config.prefer_proxy ?? false,
    },
  }
}

type NamedField = readonly [name: string, field: Field]

/** The fields of a storage that are not specific to its driver, in display order. */
export function commonFields(config: DriverConfig): readonly NamedField[] {
  const proxies = ['use_proxy_url', 'native_proxy']
  const proxied = config.only_proxy === true || config.prefer_proxy === true
  const when = (condition: boolean | undefined, ...fields: NamedField[]): NamedField[] =>
    condition === true ? fields : []
  return [
    ['mount_path', { type: 'string', required: true, help: 'The path of the storage in the tree. Must be unique.' }],
    ['order', { type: 'number', help: 'Storages are started and listed in ascending order.' }],
    ['remark', { type: 'text' }],
    ...when(
      config.no_cache !== true,
      [
        'cache_expiration',
        { type: 'number', default: 30, required: true, help: 'Minutes for which listings are cached. 0: no caching.' },
      ],
      [
        'custom_cache_policies',
        { type: 'text', help: 'Lines of pattern:minutes for single folders. ** matches any depth.' },
      ],
    ),
    ...when(config.only_proxy !== true, [
      'web_proxy',
      config.prefer_proxy === true ? { type: 'bool', default: true } : { type: 'bool' },
    ]),
    [
      'webdav_policy',
      {
        type: 'select',
        default: proxied ? 'native_proxy' : '302_redirect',
        options: config.only_proxy === true ? proxies : ['302_redirect', ...proxies],
        required: true,
      },
    ],
    ...when(config.proxy_range === true && config.only_proxy !== true, [
      'proxy_range',
      { type: 'bool', help: 'Range requests go through this server, even if the backend could serve them directly.' },
    ]),
    ['down_proxy_url', { type: 'text' }],
    ['disable_proxy_sign', { type: 'bool', default: false, help: 'Links to the address above are not signed.' }],
    ...when(
      config.local_sort,
      ['order_by', { type: 'select', options: ['name', 'size', 'modified'] }],
      ['order_direction', { type: 'select', options: ['asc', 'desc'] }],
    ),
    ['extract_folder', { type: 'select', options: ['front', 'back'] }],
    ['disable_index', { type: 'bool', default: false, required: true }],
    ['enable_sign', { type: 'bool', default: false, required: true }],
  ]
}

/** Applies the driver's `default_root` to its root field: it becomes the default, and the field is required. */
function withRootDefault(name: string, field: Field, { default_root: root = '' }: DriverConfig): Field {
  if (name !== 'root_folder_path' && name !== 'root_folder_id') return field
  return { ...field, default: field.default ?? root, required: root !== '' }
}

function templateField(name: string, { type, default: value = '', options = [], required, help = '' }: Field) {
  return { name, type, default: String(value), options: options.join(','), required: required ?? false, help }
}
