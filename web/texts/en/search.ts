/** The search. */
import { plural } from '../format.ts'

export default {
  search: {
    title: (words: string) => `Search: ${words}`,
    off: 'Search is off. An administrator can turn it on.',
    turnOn: 'Search is off. Turn it on.',
    count: (total: number) => plural(total, { one: '# result', other: '# results' }),
  },
}
