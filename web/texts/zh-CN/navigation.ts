/** The dialog that finds files, pages and commands. */
import { number } from '../format.ts'
import type { Translation } from '../texts.ts'

export default {
  navigation: {
    placeholder: '搜索文件、页面、设置、命令',
    results: '搜索结果',
    searchAll: (words) => `在全部文件中搜索“${words}”`,
    count: (total) => (total === 0 ? '没有找到相关内容。' : `共 ${number(total)} 个结果`),
    groups: {
      folders: '最近访问的文件夹',
      pages: '页面',
      settings: '设置项',
      commands: '命令',
      files: '文件',
    },
  },
} satisfies Translation<'navigation'>
