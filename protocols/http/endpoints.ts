/** All endpoints of the HTTP protocol. */
import type { EndpointDescription, Endpoint } from './api/endpoint.js'
import { downloadDescriptions } from './files/download.js'
import { accessEndpoints } from './routes/access.js'
import { adminAuditEndpoints } from './routes/admin-audit.js'
import { adminConnectionEndpoints } from './routes/admin-connection.js'
import { adminCredentialEndpoints } from './routes/admin-credentials.js'
import { adminDriverEndpoints } from './routes/admin-driver.js'
import { adminExplainEndpoints } from './routes/admin-explain.js'
import { adminGroupEndpoints } from './routes/admin-group.js'
import { adminImportEndpoints } from './routes/admin-import.js'
import { adminIndexEndpoints } from './routes/admin-index.js'
import { adminLockEndpoints } from './routes/admin-lock.js'
import { adminMetaEndpoints } from './routes/admin-meta.js'
import { adminNodeEndpoints } from './routes/admin-nodes.js'
import { adminOverviewEndpoints } from './routes/admin-overview.js'
import { adminProcessEndpoints } from './routes/admin-process.js'
import { adminSettingEndpoints } from './routes/admin-setting.js'
import { adminSignInEndpoints } from './routes/admin-sign-ins.js'
import { adminStorageEndpoints } from './routes/admin-storage.js'
import { adminUserEndpoints } from './routes/admin-user.js'
import { adminWebhookEndpoints } from './routes/admin-webhook.js'
import { appPasswordEndpoints } from './routes/app-passwords.js'
import { authEndpoints } from './routes/auth.js'
import { browseEndpoints } from './routes/browse.js'
import { bulkChangeEndpoints } from './routes/bulk-change.js'
import { changeEndpoints } from './routes/change.js'
import { consoleSessionEndpoints } from './routes/console-sessions.js'
import { documentationEndpoints } from './routes/documentation.js'
import { healthEndpoints } from './routes/health.js'
import { historyEndpoints } from './routes/history.js'
import { ldapEndpoints } from './routes/ldap.js'
import { linkEndpoints } from './routes/link.js'
import { meEndpoints } from './routes/me.js'
import { metricsEndpoints } from './routes/metrics.js'
import { multipartEndpoints } from './routes/multipart.js'
import { offlineDownloadEndpoints } from './routes/offline-download.js'
import { passkeyEndpoints } from './routes/passkeys.js'
import { publicEndpoints } from './routes/public.js'
import { searchEndpoints } from './routes/search.js'
import { shareEndpoints } from './routes/share.js'
import { siteEndpoints } from './routes/site.js'
import { identityEndpoints } from './routes/identities.js'
import { ssoEndpoints } from './routes/sso.js'
import { taskEndpoints } from './routes/task.js'
import { twoStepEndpoints } from './routes/two-step.js'
import { uploadEndpoints } from './routes/upload.js'
import { zipEndpoints } from './routes/zip.js'

export const endpoints: readonly Endpoint[] = [
  ...publicEndpoints,
  ...authEndpoints,
  ...ldapEndpoints,
  ...ssoEndpoints,
  ...identityEndpoints,
  ...twoStepEndpoints,
  ...passkeyEndpoints,
  ...meEndpoints,
  ...appPasswordEndpoints,
  ...consoleSessionEndpoints,
  ...adminConnectionEndpoints,
  ...accessEndpoints,
  ...browseEndpoints,
  ...historyEndpoints,
  ...searchEndpoints,
  ...linkEndpoints,
  ...zipEndpoints,
  ...changeEndpoints,
  ...bulkChangeEndpoints,
  ...uploadEndpoints,
  ...multipartEndpoints,
  ...offlineDownloadEndpoints,
  ...shareEndpoints,
  ...taskEndpoints,
  ...adminUserEndpoints,
  ...adminCredentialEndpoints,
  ...adminGroupEndpoints,
  ...adminExplainEndpoints,
  ...adminMetaEndpoints,
  ...adminLockEndpoints,
  ...adminDriverEndpoints,
  ...adminStorageEndpoints,
  ...adminSettingEndpoints,
  ...adminWebhookEndpoints,
  ...adminIndexEndpoints,
  ...adminImportEndpoints,
  ...adminProcessEndpoints,
  ...adminNodeEndpoints,
  ...adminAuditEndpoints,
  ...adminOverviewEndpoints,
  ...adminSignInEndpoints,
  ...documentationEndpoints(() => documentedEndpoints),
  ...siteEndpoints,
  ...healthEndpoints,
  ...metricsEndpoints,
]

/** All that the OpenAPI document describes: the endpoints, and the downloads, which bypass the router. */
export const documentedEndpoints: readonly EndpointDescription[] = [...endpoints, ...downloadDescriptions]
