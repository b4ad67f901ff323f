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
} satisfies Translation<'viewers'>
