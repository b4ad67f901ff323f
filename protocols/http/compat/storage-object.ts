/** API representation of storages in requests and responses. */
import { z } from 'zod'
import type { Usage } from '../../../src/contract/capabilities.js'
import type { DriverDescription, DriverFacts } from '../../../src/contract/driver-type.js'
import { GatewayError } from '../../../src/base/errors.js'
import type { StorageConfiguration, StorageRow } from '../../../src/mounts/storage-admin.js'
import { commonFields } from './driver-template.js'
import { escapeMarkup } from '../api/escape.js'
import { choice, flag, flagValue, optionalField, integer, integerValue, requiredText, text } from '../api/fields.js'
import { mountDetails, mountDetailsData, wireTime } from './object.js'
import { timestamp } from '../api/schemas.js'

export const storageFields = z.object({
  mount_path: requiredText.meta({ example: '/docs' }).describe('The path of the storage in the tree.'),
  order: integer(0).describe('Storages are started and listed in ascending order.'),
  driver: requiredText.meta({ example: 'Local' }).describe('The name of the driver. It cannot be changed later.'),
  cache_expiration: optionalField(integerValue).describe('Minutes for which listings are cached.'),
  custom_cache_policies: text
    .meta({ example: '/news/**:1' })
    .describe('Lines of pattern:minutes for single folders. `**` matches any depth.'),
  addition: text
    .meta({ example: '{"root_folder_path":"/srv/docs"}' })
    .describe('The fields of the driver, as the text of a JSON object.'),
  remark: text,
  disabled: flag,
  disable_index: flag,
  enable_sign: flag,
  order_by: choice('name', 'size', 'modified'),
  order_direction: choice('asc', 'desc'),
  extract_folder: choice('front', 'back'),
  web_proxy: optionalField(flagValue),
  webdav_policy: choice('302_redirect', 'use_proxy_url', 'native_proxy'),
  proxy_range: flag,
  down_proxy_url: text,
  disable_proxy_sign: flag,
})

export function wrongPolicy(offered: string): string {
  return `webdav_policy must be one of ${offered}`
}

/**
 * The configuration of a storage. Absent fields have the default of the driver's template; fields that the template
 * does not offer are off. Throws code 500 if the driver does not offer the `webdav_policy`.
 */
export function configurationOf(fields: z.output<typeof storageFields>, facts: DriverFacts): StorageConfiguration {
  const offered = new Map(commonFields(facts))
  const policies = offered.get('webdav_policy')
  const policy = fields.webdav_policy || (policies?.default as StorageRow['webdavPolicy'])
  if (policies?.options?.includes(policy) !== true) {
    throw new GatewayError('invalid', {
      reason: wrongPolicy(policies?.options?.join(', ') ?? ''),
    })
  }
  return {
    mountPath: fields.mount_path,
    order: fields.order,
    driver: fields.driver,
    cacheExpiration: offered.has('cache_expiration')
      ? (fields.cache_expiration ?? Number(offered.get('cache_expiration')?.default))
      : 0,
    customCachePolicies: offered.has('custom_cache_policies') ? fields.custom_cache_policies : '',
    addition: fields.addition,
    remark: fields.remark,
    disabled: fields.disabled,
    disableIndex: fields.disable_index,
    enableSign: fields.enable_sign,
    orderBy: offered.has('order_by') ? fields.order_by : '',
    orderDirection: offered.has('order_direction') ? fields.order_direction : '',
    extractFolder: fields.extract_folder,
    webProxy: offered.has('web_proxy') && (fields.web_proxy ?? offered.get('web_proxy')?.default === true),
    webdavPolicy: policy,
    proxyRange: offered.has('proxy_range') && fields.proxy_range,
    downProxyUrl: fields.down_proxy_url,
    disableProxySign: fields.disable_proxy_sign,
  }
}

export const storageData = z
  .object({
    id: z.int(),
    mount_path: z.string(),
    order: z.int(),
    driver: z.string(),
    cache_expiration: z.int().describe('Minutes.'),
    custom_cache_policies: z.string(),
    status: z
      .string()
      .describe(
        '`work` if it is running, `work, but …` with warnings, `disabled`, empty while it starts, otherwise the error.',
      ),
    addition: z.string().describe('The fields of the driver, as the text of a JSON object.'),
    remark: z.string(),
    modified: timestamp.describe('The time of the last change of the configuration.'),
    disabled: z.boolean(),
    disable_index: z.boolean(),
    enable_sign: z.boolean(),
    order_by: z.enum(['', 'name', 'size', 'modified']),
    order_direction: z.enum(['', 'asc', 'desc']),
    extract_folder: z.enum(['', 'front', 'back']),
    web_proxy: z.boolean(),
    webdav_policy: z.enum(['302_redirect', 'use_proxy_url', 'native_proxy']),
    proxy_range: z.boolean(),
    down_proxy_url: z.string(),
    disable_proxy_sign: z.boolean(),
    mount_details: mountDetailsData
      .optional()
      .describe('In bytes. Only in the list, if the storage reports its usage and settings do not hide it.'),
  })
  .meta({ id: 'Storage' })

/** The API object of a storage. Includes `mount_details` if `usage` is given. */
export function storageObject(row: StorageRow, usage?: Usage): z.input<typeof storageData> {
  return {
    id: row.id,
    mount_path: row.mountPath,
    order: row.order,
    driver: row.driver,
    cache_expiration: row.cacheExpiration,
    custom_cache_policies: row.customCachePolicies,
    status: escapeMarkup(row.status),
    addition: row.addition,
    remark: row.remark,
    modified: wireTime(row.modified),
    disabled: row.disabled,
    disable_index: row.disableIndex,
    enable_sign: row.enableSign,
    order_by: row.orderBy,
    order_direction: row.orderDirection,
    extract_folder: row.extractFolder,
    web_proxy: row.webProxy,
    webdav_policy: row.webdavPolicy,
    proxy_range: row.proxyRange,
    down_proxy_url: row.downProxyUrl,
    disable_proxy_sign: row.disableProxySign,
    ...(usage && { mount_details: mountDetails(usage) }),
  }
}

/**
 * The facts of the driver. For an unknown driver, which the core rejects, facts with which every option is accepted.
 */
export function driverFacts(types: readonly DriverDescription[], name: string): DriverFacts {
  const type = types.find((each) => each.name === name)
  return type ? (type.facts ?? {}) : { directUrls: 'preferred' }
}
