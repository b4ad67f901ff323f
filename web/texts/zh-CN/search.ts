/** The search. */
import { number } from '../format.ts'
import type { Translation } from '../texts.ts'

export default {
  search: {
    title: (words) => `搜索：${words}`,
    off: '搜索功能未开启，请联系管理员开启。',
    turnOn: '搜索功能未开启，前往开启。',
    count: (total) => `共 ${number(total)} 个结果`,
  },
} satisfies Translation<'search'>
