/** Opens the driver `115 Cloud`: a folder of an account of 115, by the API of its web site. */
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import { toGatewayError } from '../../src/base/errors.js'
import { AccountDriver, type Tuning115 } from './account-driver.js'
import { FilesApi, maxPageSize } from './files-api.js'
import type { Cloud115Options } from './index.js'
import { OfflineDownloads115 } from './offline.js'
import { WebSession } from './web-session.js'
import { WebUploads } from './web-uploads.js'

export async function openCloud115(options: Cloud115Options, env: DriverEnv, tuning: Tuning115 = {}): Promise<Driver> {
  const account = options.qrcode_token || options.cookie
  const session = await WebSession.connect(options, env, JSON.stringify(['cloud', account]))
  try {
    await session.signIn(options)
    const api = new FilesApi(session, Math.min(Math.max(Math.round(options.page_size), 1), maxPageSize))
    const uploads = new WebUploads(session, api)
    return await AccountDriver.open({
      api,
      uploads,
      offline: new OfflineDownloads115(session, uploads),
      http: session.http,
      userAgent: session.userAgent,
      rootId: options.root_folder_id,
      env,
      tuning,
      close: () => session.close(),
    })
  } catch (error) {
    await session.close()
    throw toGatewayError(error)
  }
}
