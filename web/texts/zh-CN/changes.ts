/** The dialogs that change files, and links to files. */
import { number } from '../format.ts'
import type { Translation } from '../texts.ts'

export default {
  changes: {
    selected: '选中的项目',
    exists: (name) => `“${name}”已存在。`,
    folderMade: (name) => `已创建文件夹“${name}”。`,
    fileMade: (name) => `已创建文件“${name}”。`,
    renamed: (from, to) => `“${from}”已重命名为“${to}”。`,
    renamedMany: (count) => `已重命名 ${number(count)} 项。`,
    removeWarning: (count) =>
      count === 1
        ? '将删除此项；如果是文件夹，其中的全部内容也会一并删除。此操作无法撤销。'
        : `将删除这 ${number(count)} 项，文件夹会连同其中的全部内容一并删除。此操作无法撤销。`,
    removed: (count) => `已删除 ${number(count)} 项。`,
    progress: (done, total) => `已完成 ${number(done)}/${number(total)}`,
    folders: '文件夹',
    choose: '选择…',
    newFolderIn: (folder) => `新文件夹的名称（位于 ${folder}）`,
    create: '新建',
    to: {
      move: (count, folder) => `将 ${number(count)} 项移动到 ${folder}`,
      copy: (count, folder) => `将 ${number(count)} 项复制到 ${folder}`,
    },
    transferred: {
      move: (count) => `已移动 ${number(count)} 项。`,
      copy: (count) => `已复制 ${number(count)} 项。`,
    },
    tasksStarted: (count) => `已创建 ${number(count)} 个后台任务。`,
    conflict: '目标位置有同名项目时',
    conflicts: {
      refuse: '中止操作',
      replace: '替换',
      skip: '跳过',
      merge: '合并文件夹，跳过文件',
    },
    scheme: '重命名方式',
    schemes: { replace: '查找和替换', number: '名称加编号' },
    find: '查找',
    replacement: '替换为',
    isRegex: '正则表达式',
    keepsExtension: '保留扩展名（最后一个点之后的部分）',
    pattern: '名称，用 # 表示编号',
    firstNumber: '起始编号',
    preview: '预览',
    unchanged: '保持不变',
    problems: {
      invalid: '不是有效的名称',
      taken: '已存在',
      repeated: '与其他新名称重复',
      exchanged: '与另一项的原名称互换',
    },
    notRegex: '这不是有效的正则表达式。',
    plan: (changed, total) => `共 ${number(total)} 个名称，其中 ${number(changed)} 个将更改。`,
    planFails: (problems) => `有 ${number(problems)} 个新名称不可用，不会重命名任何项目。`,
    linkHint: (name) => `获得此直链的人无需账号即可读取“${name}”。`,
    linkValidity: '有效期',
    validities: { hour: '一小时', day: '一天', week: '一周', month: '30 天', never: '永久' },
    linkAddress: '直链',
    linkForEver: '直链永久有效。',
    linkUntil: (time) => `直链在 ${time} 之前有效。`,
    copyLink: '复制直链',
    linkCopied: '直链已复制。',
  },

  fromUrls: {
    about: '服务器会把文件下载到此文件夹，进度显示在“任务”中。',
    urls: '下载链接，每行一个',
    folder: '目标文件夹',
    tool: '下载工具',
    start: '下载',
    started: '已创建离线下载任务。',
  },
} satisfies Translation<'changes'>
