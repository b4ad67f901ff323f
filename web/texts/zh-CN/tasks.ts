/** Tasks. */
import { TaskState } from '../../api/schema.ts'
import { percent } from '../format.ts'
import type { Translation } from '../texts.ts'

export default {
  tasks: {
    downloadsHint: '服务器会把链接指向的文件下载到所选文件夹，关闭页面也不会中断。',
    running: '进行中',
    ended: '已结束',
    noneRunning: '没有正在进行的任务。',
    noneEnded: '最近没有结束的任务。',
    clear: '清除已结束的任务',
    remove: '从列表中移除',
    showFailures: '查看失败项',
    copy: (name, to) => `复制 ${name} 到 ${to}`,
    move: (name, to) => `移动 ${name} 到 ${to}`,
    upload: (name, to) => `上传 ${name} 到 ${to}`,
    download: (url, to) => `下载 ${url} 到 ${to}`,
    progress: (done, size) => `${percent(done)}，共 ${size}`,
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
