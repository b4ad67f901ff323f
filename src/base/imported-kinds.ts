/** What an import takes of other programs, by the names that its report has for it. */

export const importedKinds = [
  'configuration',
  'grant',
  'group',
  'hidden names',
  'passkey',
  'passkeys',
  'folder rule',
  'setting',
  'settings',
  'SFTP host key',
  'share',
  'sign-in',
  'SSH key',
  'sso_id',
  'storage',
  'tokens',
  'user',
] as const
export type ImportedKind = (typeof importedKinds)[number]
