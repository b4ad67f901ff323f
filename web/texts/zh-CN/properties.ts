/** The properties of entries. */
import { number } from '../format.ts'
import type { Translation } from '../texts.ts'

export default {
  properties: {
    kind: '类型',
    kinds: {
      folder: '文件夹',
      image: '图片',
      video: '视频',
      audio: '音频',
      text: '文本',
      unknown: '文件',
    },
    created: '创建时间',
    storage: '存储',
    space: '空间',
    free: (free, total) => `可用 ${free}，共 ${total}`,
    folder: '所在文件夹',
    selected: '已选',
    files: '文件',
    folders: '文件夹',
    bytes: (count) => `${number(count)} 字节`,
    rights: '您的权限',
    read: '读取',
    mayDo: {
      write: '上传和新建',
      rename: '重命名',
      move: '移动',
      copy: '复制',
      remove: '删除',
      share: '分享',
    },
    count: '统计',
    stop: '停止',
    notCounted: '尚未统计文件夹中的内容。',
    countedFiles: (count) => `${number(count)} 个文件`,
    countedFolders: (count) => `${number(count)} 个文件夹`,
    incomplete: (unread) =>
      unread === 0 ? '统计提前结束，实际数量更多。' : `有 ${number(unread)} 个文件夹无法读取，实际数量可能更多。`,
  },
} satisfies Translation<'properties'>
