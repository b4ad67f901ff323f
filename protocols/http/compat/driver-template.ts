/** The form for a storage in the admin's client: common fields, fields of the driver, and flags of the driver. */
import { z } from 'zod'
import { fieldTypes, type DriverDescription, type DriverFacts, type Field } from '../../../src/contract/driver-type.js'

const fieldData = z
  .object({
    name: z.string(),
    type: z.enum(fieldTypes),
    default: z.string(),
    options: z.string().describe('Comma-separated choices of a `select`.'),
    required: z.boolean(),
    help: z.string(),
    basic: z.boolean().describe('A form shows it at once, and the others on request.'),
    secret: z.boolean().describe('A password, key or token.'),
    tree_path: z.boolean().describe('A path of the tree; of type `text`: one on each line, as path or name:path.'),
    single_use: z.boolean().describe('The backend accepts the value once, so `/api/admin/storage/try` refuses it.'),
  })
  .meta({ id: 'DriverField' })

export const templateData = z
  .object({
    common: z.array(fieldData).describe('Fields that are not specific to the driver.'),
    additional: z.array(fieldData).describe('Fields of the driver, stored in the field `addition` of a storage.'),
    qr_sign_in: z
      .string()
      .describe(
        'The field beside which a form offers to sign in by a QR code (`/api/admin/storage/qr_code`), or empty.',
      ),
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
      .meta({ id: 'DriverFlags' })
      .describe('Flags of the driver.'),
  })
  .meta({ id: 'DriverTemplate' })

type DriverTemplate = z.infer<typeof templateData>

export function driverTemplate({ name, fields, facts = {}, qrSignIn }: DriverDescription): DriverTemplate {
  const { directUrls, uncached = false, readOnly = false, interactive = false, warning } = facts
  const rootField = fields.root_folder_path ?? fields.root_folder_id
  return {
    common: commonFields(facts).map(([field, details]) => templateField(field, details)),
    additional: Object.entries(fields).map(([field, details]) => templateField(field, details)),
    qr_sign_in: qrSignIn?.field ?? '',
    config: {
      name,
      // The gateway sorts the listings of every driver.
      local_sort: true,
      only_local: false,
      only_proxy: directUrls === undefined,
      no_cache: uncached,
      no_upload: readOnly,
      need_ms: interactive,
      default_root: String(rootField ? (rootField.default ?? '') : '/'),
      alert: warning === undefined ? '' : `warning|${warning}`,
      only_indices: false,
      prefer_proxy: directUrls === 'possible',
    },
  }
}

type NamedField = readonly [name: string, field: Field]

/** The fields of a storage that are not specific to its driver, in display order. */
export function commonFields({ directUrls, uncached = false, composite = false }: DriverFacts): readonly NamedField[] {
  const proxies = ['use_proxy_url', 'native_proxy']
  const redirects = directUrls !== undefined
  const when = (condition: boolean, ...fields: NamedField[]): NamedField[] => (condition ? fields : [])
  return [
    [
      'mount_path',
      { type: 'string', required: true, basic: true, help: 'The path of the storage in the tree. Must be unique.' },
    ],
    ['order', { type: 'number', help: 'Storages are started and listed in ascending order.' }],
    ['remark', { type: 'text' }],
    ...when(
      !uncached,
      [
        'cache_expiration',
        { type: 'number', default: 30, required: true, help: 'Minutes for which listings are cached. 0: no caching.' },
      ],
      [
        'custom_cache_policies',
        { type: 'text', help: 'Lines of pattern:minutes for single folders. ** matches any depth.' },
      ],
    ),
    ...when(redirects, ['web_proxy', directUrls === 'possible' ? { type: 'bool', default: true } : { type: 'bool' }]),
    [
      'webdav_policy',
      {
        type: 'select',
        default: directUrls === 'preferred' ? '302_redirect' : 'native_proxy',
        options: redirects ? ['302_redirect', ...proxies] : proxies,
        required: true,
      },
    ],
    ...when(redirects && composite, [
      'proxy_range',
      { type: 'bool', help: 'Has no effect: this server always requests the ranges of what it proxies itself.' },
    ]),
    ['down_proxy_url', { type: 'text' }],
    ['disable_proxy_sign', { type: 'bool', default: false, help: 'URLs of the address above are not signed.' }],
    ['order_by', { type: 'select', options: ['name', 'size', 'modified'] }],
    ['order_direction', { type: 'select', options: ['asc', 'desc'] }],
    ['extract_folder', { type: 'select', options: ['front', 'back'] }],
    ['disable_index', { type: 'bool', default: false, required: true }],
    ['enable_sign', { type: 'bool', default: false, required: true }],
  ]
}

function templateField(name: string, field: Field) {
  const { type, default: value = '', options = [], required = false, help = '' } = field
  return {
    name,
    type,
    default: String(value),
    options: options.join(','),
    required,
    help,
    basic: field.basic ?? false,
    secret: field.secret ?? false,
    tree_path: field.treePath ?? false,
    single_use: field.singleUse ?? false,
  }
}
