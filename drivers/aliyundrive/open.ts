/** Opens a storage of Aliyundrive: signs in, finds the drive, and checks that the root folder exists. */
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import { GatewayError, isGatewayError, toGatewayError, undefinedIfMissing } from '../../src/base/errors.js'
import { ApiClient } from '../lib/json-api/api-client.js'
import { findPlace, IdReplacements, type ReplacingCalls } from '../lib/cloud/id-replacements.js'
import { IdTree } from '../lib/cloud/id-tree.js'
import { RateGate, type CallRates } from '../lib/json-api/rate-gate.js'
import { HttpClient } from '../lib/http/http-client.js'
import { KeyedMutex } from '../lib/keyed-mutex.js'
import { partLengthOf } from '../lib/cloud/part-length.js'
import { AliyundriveDriver } from './aliyundrive.js'
import { AliyundriveDownloads } from './downloads.js'
import { accountLimits, apiAddress, DriveApi, findDrive } from './drive-api.js'
import { meaningOf, serverName } from './errors.js'
import type { AliyundriveOptions } from './index.js'
import type { AliyundriveItem } from './items.js'
import { openTokens, renewalServer, subjectOf, type TokenPair, type TokenSource } from './tokens.js'
import { AliyundriveUploads, internalAddress } from './uploads.js'

/** Domains of the vendor, and of its object store. */
const domains = ['alipan.com', 'aliyundrive.com', 'aliyundrive.net']

/** Milliseconds for which a name that was not listed counts as absent: the server limits listings most. */
const absenceTime = 5000

/** Options that tests set to other values. */
export interface Tuning {
  readonly limits: CallRates
  readonly partLength: (size: number) => number
}

export async function openAliyundrive(
  options: AliyundriveOptions,
  env: DriverEnv,
  { limits = accountLimits, partLength = partLengthOf }: Partial<Tuning> = {},
): Promise<Driver> {
  const account = subjectOf(options.refresh_token)
  if (account === undefined) {
    throw new GatewayError('invalid', { reason: 'refresh_token is not a token of the open API of Aliyundrive' })
  }
  const server = renewalServer(options, apiAddress)
  const gate = await RateGate.open({ server: serverName, scope: account, perSecond: limits, state: env.state })
  const tokens = await openTokens(options, env, server, gate)
  const client = connect(tokens, env, gate)
  const closeAll = async () => {
    // Waits for a running renewal, which needs the other one.
    await client.close()
    await tokens.client.close()
  }
  try {
    const driveId = await findDrive(client, options.drive_type, env.signal)
    const api = new DriveApi({
      client,
      driveId,
      orderBy: options.order_by,
      orderDirection: options.order_direction,
      hasRecycleBin: options.remove_way === 'trash',
    })
    await assertRoot(api, options.root_folder_id, env.signal)
    return await driverOf({ options, env, client, api, tokens, partLength, closeAll })
  } catch (error) {
    await closeAll()
    throw toGatewayError(error)
  }
}

function connect(tokens: TokenSource, env: DriverEnv, gate: RateGate): ApiClient<TokenPair> {
  const http = new HttpClient({
    server: serverName,
    address: apiAddress,
    domains,
    verifiesCertificate: true,
    egress: env.egress,
  })
  return new ApiClient<TokenPair>({
    server: serverName,
    http,
    gate,
    credentials: { renewal: tokens.renewal, headers: ({ access }) => ({ authorization: `Bearer ${access}` }) },
    meaningOf,
  })
}

/** Rejects with `invalid` if the root is not a folder. */
async function assertRoot(api: DriveApi, rootId: string, signal: AbortSignal): Promise<void> {
  try {
    await api.assertFolder(rootId, signal)
  } catch (error) {
    if (!isGatewayError(error, 'not_found', 'invalid')) throw error
    throw new GatewayError('invalid', { reason: 'root_folder_id is not the id of a folder', cause: error })
  }
}

interface Opened {
  readonly options: AliyundriveOptions
  readonly env: DriverEnv
  readonly client: ApiClient<TokenPair>
  readonly api: DriveApi
  readonly tokens: TokenSource
  readonly partLength: Tuning['partLength']
  readonly closeAll: () => Promise<void>
}

async function driverOf({ options, env, client, api, tokens, partLength, closeAll }: Opened): Promise<Driver> {
  const tree = new IdTree<AliyundriveItem>({
    rootId: options.root_folder_id,
    absence: absenceTime,
    list: (folder, { signal }) => api.list(folder, signal),
    env,
  })
  const address = new URL(internalAddress)
  const internalHttp = options.internal_upload
    ? new HttpClient({ server: serverName, address, verifiesCertificate: true, egress: env.egress })
    : undefined
  const { renewal } = tokens
  const { rapid_upload: isRapid } = options
  const uploads = new AliyundriveUploads({ api, http: client.http, internalHttp, renewal, isRapid, partLength })
  const replacements = new IdReplacements({ calls: replacingCalls(api), env, keys: ['publications', 'replacements'] })
  await replacements.load()
  await replacements.settle()
  const downloads = new AliyundriveDownloads(api, client.http, options.livp_download_format)
  return new AliyundriveDriver({
    options,
    api,
    tree,
    uploads,
    replacements,
    downloads,
    mutex: new KeyedMutex(),
    close: async () => {
      downloads.close()
      const settled = replacements.close()
      internalHttp?.close()
      await closeAll()
      await settled
    },
  })
}

function replacingCalls(api: DriveApi): ReplacingCalls {
  return {
    rename: ({ id }, name) => api.rename(id, name),
    move: ({ id }, folder) => api.move(id, folder),
    remove: ({ id }, signal) => undefinedIfMissing(api.remove(id, signal)),
    placeOf: (id, folders) =>
      findPlace(folders, (folder) => api.find(folder, (item) => (item.id === id ? item.name : undefined))),
  }
}
