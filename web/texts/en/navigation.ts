/** The dialog that finds files, pages and commands. */
import { plural } from '../format.ts'

export default {
  navigation: {
    placeholder: 'Files, pages, settings, commands',
    results: 'Results',
    searchAll: (words: string) => `Search all files for “${words}”`,
    count: (total: number) =>
      total === 0 ? 'Nothing is found.' : plural(total, { one: '# result', other: '# results' }),
    groups: {
      folders: 'Visited folders',
      pages: 'Pages',
      settings: 'Settings',
      commands: 'Commands',
      files: 'Files',
    },
  },
}
