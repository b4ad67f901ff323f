/** Opens the drivers `Quark` and `UC`: checks the cookie and the root folder, and builds the parts of the driver. */
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import { GatewayError, isGatewayError, toGatewayError, undefinedIfMissing } from '../../src/base/errors.js'
import { ApiClient } from '../lib/json-api/api-client.js'
import { openCookieSession } from '../lib/cloud/cookie-session.js'
import { findPlace, IdReplacements, type ReplacingCalls } from '../lib/cloud/id-replacements.js'
import { RateGate } from '../lib/json-api/rate-gate.js'
import { HttpClient } from '../lib/http/http-client.js'
import { meaningOf, QuarkApi } from './api.js'
import { Downloads } from './downloads.js'
import { hasOrder, type QuarkOptions } from './index.js'
import { QuarkDriver } from './quark.js'
import { UploadRecords } from './upload-records.js'
import { Uploads } from './uploads.js'
import type { QuarkVendor } from './vendor.js'

export async function openQuark(vendor: QuarkVendor, options: QuarkOptions, env: DriverEnv): Promise<Driver> {
  const { server, api: address, domain } = vendor
  const { state, egress, signal } = env
  const credentials = await openCookieSession({
    state,
    typed: options.cookie,
    replaceable: options.use_transcoding_address === true ? ['__puus', '__pus'] : ['__puus'],
    refusal: `the ${server} does not accept the cookie any more: sign in with a browser and copy a new one`,
  })
  const gate = await RateGate.open({ server, scope: `${vendor.name} ${options.cookie}`, state })
  const http = new HttpClient({ server, address, domains: [domain], verifiesCertificate: true, egress })
  const client = new ApiClient({ server, http, gate, credentials, meaningOf: (answer) => meaningOf(answer, server) })
  const api = new QuarkApi(
    client,
    vendor,
    hasOrder(options) ? { by: options.order_by, direction: options.order_direction } : undefined,
  )
  try {
    await api.assertSignedIn(signal)
    await api.assertFolder(options.root_folder_id, signal)
    const replacements = new IdReplacements({
      calls: replacingCalls(api),
      env,
      keys: ['replacing'],
      unique: { members: (folder, listing) => api.members(folder, listing), lag: vendor.listingLag },
    })
    await replacements.load()
    void replacements.settle()
    const downloads = new Downloads({ api, http, vendor, credentials })
    const uploads = new Uploads({ api, http, vendor, records: new UploadRecords(state) })
    return new QuarkDriver({ vendor, options, env, client, api, replacements, downloads, uploads })
  } catch (error) {
    await client.close()
    throw isGatewayError(error, 'not_found')
      ? new GatewayError('invalid', { reason: 'root_folder_id does not exist', cause: error })
      : toGatewayError(error)
  }
}

function replacingCalls(api: QuarkApi): ReplacingCalls {
  return {
    rename: ({ id }, name) => api.rename(id, name),
    move: ({ id }, folder) => api.move(id, folder),
    remove: ({ id }, signal) => undefinedIfMissing(api.remove(id, signal)),
    placeOf: (id, folders) =>
      findPlace(folders, async (folder) => (await api.members(folder, undefined)).find((each) => each.id === id)?.name),
  }
}
