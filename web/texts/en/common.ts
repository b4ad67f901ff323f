/** Texts that several pages have, the names of the pages, and what is shown before any page. */
import { list, number, type Items } from '../format.ts'

/** `ann, bob and 3 more`. */
const andMore = (names: readonly string[], more: number) =>
  more === 0 ? list(names) : `${list(names)} and ${number(more)} more`

export default {
  appName: 'Tidegate',
  cancel: 'Cancel',
  close: 'Close',
  retry: 'Retry',
  save: 'Save',
  add: 'Add',
  more: 'Show more',
  copyText: 'Copy',
  copied: 'Copied.',
  copyFailed: 'The browser does not allow copying. Select the text and copy it.',
  sideBar: 'Side bar',
  remove: 'Remove',
  andMore,
  /** Like `andMore`, for languages that count people otherwise than things. */
  andMorePeople: andMore,
  /** `1.5 kB, Jan 2, 2026`: facts of one thing, which are not of one kind. */
  facts: (facts: Items) => facts.filter(Boolean).join(', '),
  labelled: (label: string, text: string) => `${label}: ${text}`,
  withNote: (text: string, note: string) => `${text} (${note})`,
  filter: (what: string) => `Filter: ${what}`,
  endHint: 'At the end of this day. Empty: never.',
  chosen: (count: number) => `${number(count)} chosen.`,
  moreToFind: (count: number) => `${number(count)} more: type a part of the name to find them.`,
  loading: 'Loading …',
  notLoaded: 'This part of the page could not be loaded. Check the connection and try again.',
  announcement: 'Announcement',
  closeAnnouncement: 'Close the announcement',
  manual: 'Documentation',
  notFoundTitle: 'Not found',
  notFound: 'There is no such page, or you have no permission to see it.',
  signInToSee: 'Sign in with an account that may see it.',
  askAdmin: 'If you need it, ask an administrator for the permission.',
  toFiles: 'Go to the files',
  /** After a number of things. */
  inProgress: 'in progress',
  main: 'Main',
  skip: 'Skip to the content',
  language: 'Language',
  languageOfBrowser: 'As the browser',
  colors: 'Colors',
  schemes: { system: 'As the system', light: 'Light', dark: 'Dark' },
  rows: 'Rows of lists',
  rowHeights: { compact: 'Compact', comfortable: 'Comfortable' },
  readmes: 'README.md of folders',
  readmeChoices: { shown: 'Below the list', hidden: 'Hidden' },

  nav: {
    files: 'Files',
    shares: 'Shares',
    tasks: 'Tasks',
    downloads: 'Offline downloads',
    profile: 'Profile',
    search: 'Search',
  },

  /** The groups of the administration. */
  subjects: {
    people: 'People and rights',
    storage: 'Storage',
    events: 'What happened',
    system: 'System',
  },

  pages: {
    storages: 'Storages',
    users: 'Users',
    groups: 'Groups',
    rules: 'Rules',
    settings: 'Settings',
    locks: 'Locks',
    connections: 'Connections',
    downloads: 'Download programs',
    index: 'Search index',
    log: 'Log',
    about: 'About',
    start: 'Getting started',
    explain: 'Check rights',
    dashboard: 'Overview',
    audit: 'Audit',
    'sign-ins': 'Sign-ins',
    webhooks: 'Webhooks',
  },
}
