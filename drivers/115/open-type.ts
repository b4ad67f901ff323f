/** Driver type `115 Open`: a folder of an account of 115, by its official API. */
import type { DriverType, Fields, OptionsOf } from '../../src/contract/driver-type.js'

export const open115Fields = {
  root_folder_id: {
    type: 'string',
    default: '0',
    required: true,
    trimmed: true,
    help: 'Id of the folder that is shown: the number after cid= in its web address. 0: the whole drive.',
  },
  order_by: {
    type: 'select',
    options: ['file_name', 'file_size', 'user_utime', 'file_type'],
    help: 'Order in which 115 lists a folder. It counts if the storage has no order of its own.',
  },
  order_direction: { type: 'select', options: ['asc', 'desc'] },
  limit_rate: { type: 'float', default: 1, help: 'Calls per second at most. 0: no limit, which 115 does not like.' },
  page_size: { type: 'number', default: 200, help: 'Entries of a folder that one call lists; 1150 at most.' },
  access_token: { type: 'string', required: true, secret: true, trimmed: true },
  refresh_token: {
    type: 'string',
    required: true,
    secret: true,
    trimmed: true,
    help: 'Valid once: the storage keeps the tokens that replace it. No other program may use it.',
  },
} as const satisfies Fields

export type Open115Options = OptionsOf<typeof open115Fields>

export const open115Type: DriverType<typeof open115Fields> = {
  name: '115 Open',
  fields: open115Fields,
  facts: {
    directUrls: 'preferred',
    downloadTool: { name: '115 Open', folderSetting: '115_open_temp_dir' },
  },
  traits: {
    writeNeeds: 'reread',
    writeHashes: ['sha1'],
    timeStep: Number.POSITIVE_INFINITY,
    urlsBoundTo: ['userAgent'],
    // Each upload holds a part of 20 MiB in memory.
    parallel: 8,
    remote: true,
    metered: true,
  },
  async open(options, env) {
    const { openOpen115 } = await import('./open-driver.js')
    return openOpen115(options, env)
  },
}
