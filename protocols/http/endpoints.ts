/** Every endpoint of this door. */
import type { Endpoint } from './endpoint.js'
import { appPasswordEndpoints } from './routes/app-passwords.js'
import { authEndpoints } from './routes/auth.js'
import { meEndpoints } from './routes/me.js'
import { publicEndpoints } from './routes/public.js'
import { siteEndpoints } from './routes/site.js'
import { twoStepEndpoints } from './routes/two-step.js'

export const endpoints: readonly Endpoint[] = [
  ...publicEndpoints,
  ...authEndpoints,
  ...twoStepEndpoints,
  ...meEndpoints,
  ...appPasswordEndpoints,
  ...siteEndpoints,
]
