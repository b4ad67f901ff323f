/** The keys of the cache of responses. What is done to a key is done to those that it begins, too. */

export const keys = {
  /** Who is signed in. */
  me: ['me'],
  publicSettings: ['public settings'],

  // Files.
  entry: (path: string) => ['entry', path],
  /** The pages of a folder. `shown`: how, and the number of the page. */
  folder: (path: string, ...shown: readonly unknown[]) => ['folder', path, ...shown],
  /** The folders in a folder. */
  folders: (path: string) => ['dirs', path],
  /** The names of all entries of a folder. */
  names: (path: string) => ['names', path],
  /** The paths of the files of a folder that a viewer shows. */
  shownBy: (folder: string, ...viewer: readonly unknown[]) => ['shown by', folder, ...viewer],
  pictureDetails: (path: string) => ['picture details', path],
  subtitles: (path: string) => ['subtitles', path],
  playlist: (path: string) => ['playlist', path],
  text: (path: string) => ['text', path],
  readme: (path: string, ...version: readonly unknown[]) => ['readme', path, ...version],
  rights: (folder: string) => ['rights', folder],
  mayWrite: (folder: string) => ['may write', folder],
  history: (path: string) => ['history', path],
  link: (path: string, validity: string) => ['link', path, validity],
  /** What is on the server in the place of an upload. */
  existing: (path: string) => ['existing', path],
  search: (words: string) => ['search', words],
  /** The first results of a search. */
  found: (words: string) => ['found', words],
  shares: ['shares'],
  tasks: (...list: readonly unknown[]) => ['tasks', ...list],
  manual: (page: string) => ['manual', page],

  // The profile.
  access: ['access'],
  appPasswords: ['app passwords'],
  identities: ['identities'],
  passkeys: ['passkeys'],
  recoveryCodes: ['recovery codes'],
  sessions: ['sessions'],
  sshKeys: ['keys'],

  // The administration.
  about: ['about'],
  allSettings: ['all settings'],
  audit: (query: unknown) => ['audit', query],
  connections: ['connections'],
  deliveries: (webhook: number, ...state: readonly string[]) => ['deliveries', webhook, ...state],
  downloadTools: ['tools'],
  drivers: ['drivers'],
  failedSignIns: ['failed sign-ins'],
  firstRun: ['first run'],
  groups: ['groups'],
  index: ['index'],
  lastEvents: ['last events'],
  linkExpiration: ['link expiration'],
  lockedSignIns: ['locked sign-ins'],
  locks: ['locks'],
  log: (level: string) => ['log', level],
  overview: ['overview'],
  rules: ['rules'],
  settings: (group: number | string) => ['settings', Number(group)],
  signedInBrowsers: ['signed-in browsers'],
  storages: ['storages'],
  storageCheck: (id: number, ...state: readonly string[]) => ['storage check', id, ...state],
  users: ['users'],
  webhooks: ['webhooks'],
} as const

export type Key = readonly unknown[]
