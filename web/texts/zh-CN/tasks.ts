/** Tasks. */
import { TaskState } from '../../api/schema.ts'
import { percent } from '../format.ts'
import type { Translation } from '../texts.ts'

export default {
  tasks: {
    downloadsHint: '服务器会把链接指向的文件下载到所选文件夹，关闭页面也不会中断。',
    hint: '在存储之间复制、移动文件，以及离线下载，都会在这里继续进行，您可以同时做其他事情。',
    running: '进行中',
    ended: '已结束',
    noneRunning: '没有正在进行的任务。',
    noneEnded: '最近没有结束的任务。',
    clear: '清除已结束的任务',
    remove: '从列表中移除',
    showFailures: '查看失败项',
    progress: (done, size) => `${percent(done)}，共 ${size}`,
    /** What tasks are about, by their verbs. */
    names: {
      copy: (from, to) => `将“${from}”复制到“${to}”`,
      move: (from, to) => `将“${from}”移动到“${to}”`,
      merge: (from, to) => `将“${from}”合并到“${to}”`,
      upload: (from, to) => `将“${from}”上传到“${to}”`,
      download: (from, to) => `将“${from}”下载到“${to}”`,
      transfer: (from, to) => `将“${from}”转存到“${to}”`,
    },
    states: {
      [TaskState.pending]: '排队中',
      [TaskState.running]: '进行中',
      [TaskState.succeeded]: '已完成',
      [TaskState.canceling]: '正在取消',
      [TaskState.canceled]: '已取消',
      [TaskState.failed]: '失败',
      [TaskState.waiting]: '等待重试',
    },
  },
} satisfies Translation<'tasks'>
