/** The catalogues in 简体中文. */
import type { Catalogues } from '../texts.ts'

export const catalogues: Catalogues = {
  common: () => import('./common.ts'),
  errors: () => import('./errors.ts'),
  session: () => import('./session.ts'),
  navigation: () => import('./navigation.ts'),
  files: () => import('./files.ts'),
  changes: () => import('./changes.ts'),
  properties: () => import('./properties.ts'),
  viewers: () => import('./viewers.ts'),
  pictures: () => import('./pictures.ts'),
  media: () => import('./media.ts'),
  uploads: () => import('./uploads.ts'),
  shares: () => import('./shares.ts'),
  events: () => import('./events.ts'),
  audit: () => import('./audit.ts'),
  webhooks: () => import('./webhooks.ts'),
  search: () => import('./search.ts'),
  tasks: () => import('./tasks.ts'),
  profile: () => import('./profile.ts'),
  mount: () => import('./mount.ts'),
  accounts: () => import('./accounts.ts'),
  admin: () => import('./admin.ts'),
  settings: () => import('./settings.ts'),
  import: () => import('./import.ts'),
}
