/**
 * Opens the driver `115 Open`: a folder of an account of 115, by its official API. The tokens that the server issues
 * are in the driver's state, not in the options.
 */
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import { toGatewayError } from '../../src/base/errors.js'
import { ApiClient } from '../lib/json-api/api-client.js'
import { RateGate } from '../lib/json-api/rate-gate.js'
import { Renewal } from '../lib/json-api/renewal.js'
import { defaultUserAgent, HttpClient } from '../lib/http/http-client.js'
import { AccountDriver, type Tuning115 } from './account-driver.js'
import { serverName } from './errors.js'
import { Open115Api, refreshTokens, type TokenPair115 } from './open-api.js'
import { meaningOf } from './open-errors.js'
import { Open115Downloads } from './offline.js'
import type { Open115Options } from './index.js'
import { Open115Uploads } from './open-uploads.js'

/** Domains of 115, of its download servers, and of the object store. */
const domains = ['115.com', '115cdn.com', '115cdn.net', 'aliyuncs.com']
const maxPageSize = 1150

export async function openOpen115(options: Open115Options, env: DriverEnv, tuning: Tuning115 = {}): Promise<Driver> {
  const client = await connect(options, env)
  try {
    const api = new Open115Api(client, {
      orderBy: options.order_by,
      isAscending: options.order_direction !== 'desc',
      pageSize: Math.min(maxPageSize, Math.max(1, Math.floor(options.page_size))),
    })
    return await AccountDriver.open({
      api,
      uploads: new Open115Uploads(api),
      offline: new Open115Downloads(api),
      http: client.http,
      userAgent: defaultUserAgent,
      rootId: options.root_folder_id,
      listsInOrder: options.order_by !== '',
      env,
      tuning,
      close: () => client.close(),
    })
  } catch (error) {
    await client.close()
    throw toGatewayError(error)
  }
}

async function connect(options: Open115Options, env: DriverEnv): Promise<ApiClient<TokenPair115>> {
  const { access_token: access, refresh_token: refresh, limit_rate } = options
  const typed = { access, refresh }
  const { state, egress } = env
  const address = new URL('https://proapi.115.com')
  const http = new HttpClient({ server: serverName, address, domains, verifiesCertificate: true, egress })
  // A new access token with the old refresh token is of no use: that one is void if there is a stored one.
  const scope = `115 Open ${typed.refresh}`
  const gate = await RateGate.open({ server: serverName, perSecond: limit_rate, scope, state })
  const renewal = await Renewal.open<TokenPair115>({
    state,
    key: 'tokens',
    typed: scope,
    first: typed,
    request: async (current) => refreshTokens(client, (current ?? typed).refresh),
  })
  const client: ApiClient<TokenPair115> = new ApiClient<TokenPair115>({
    server: serverName,
    http,
    gate,
    credentials: { renewal, headers: ({ access }) => ({ authorization: `Bearer ${access}` }) },
    meaningOf: (answer, call) => meaningOf(answer, call.isAnonymous !== true),
  })
  return client
}
