/** Looking at files, and editing them. */
import type { Translation } from '../texts.ts'

export default {
  look: {
    none: '不支持预览此类文件，请下载后打开。',
    unreadable: '您可以看到此文件，但无权读取。',
    edit: '编辑',
    source: '查看源码',
    saved: '文件已保存。',
    unsaved: '尚未保存',
    conflict: '文件已被其他人修改。请先复制您的内容，重新打开文件后再合并修改。',
    readOnly: '您可以查看此文件，但不能在此修改。',
    leaveEditor: '按 Tab 键缩进。要离开编辑器，请先按 Esc，再按 Tab。',
    leaveUnsaved: '文件尚未保存，确定要离开吗？',
    previous: '上一张图片',
    next: '下一张图片',
    notRead: '无法读取文件。',
    pdfPage: (number) => `第 ${number} 页`,
  },

  preview: {
    title: (name) => `${name} 的内容`,
    cut: '文件较大，仅显示开头部分。如需查看全部内容，请下载文件。',
    damaged: '文件已损坏，或实际格式与扩展名不符。请下载后用其他程序打开。',
    protected: '文件已加密、受版权保护或格式过旧，无法预览。请下载后用相应的程序打开。',
    tooLarge: '文件过大，无法在线预览，请下载后打开。',
    silent: '预览耗时过长，已停止。请下载后打开。',
    asTable: '以表格显示',
    openLink: '打开此链接？',
    linkOf: '文档中的链接指向其他网站，请确认可信后再打开：',
    cell: '单元格内容',
    chapters: '目录',
    empty: '此工作表为空。',
    nextChapter: '下一章',
    previousChapter: '上一章',
    sheets: '工作表',
  },

  longText: {
    position: '文件位置',
    at: (place, size, share) => `${place} / ${size}（${share}）`,
    start: '跳到开头',
    end: '跳到末尾',
    find: '在文件中查找',
    findNext: '查找下一个',
    searching: (share) => `正在查找… ${share}`,
    stop: '停止查找',
    notFound: '从当前位置到文件末尾未找到。',
    readOnly: '文件较大，内容将分段加载，不能在此修改。',
  },
} satisfies Translation<'viewers'>
