/** Tasks. */
import { TaskState } from '../../api/schema.ts'
import { percent } from '../format.ts'

export default {
  tasks: {
    downloadsHint: 'The server downloads files from URLs into a folder, also while you are away.',
    running: 'In progress',
    ended: 'Finished',
    noneRunning: 'Nothing is in progress.',
    noneEnded: 'Nothing has finished lately.',
    clear: 'Remove all finished',
    remove: 'Remove from the list',
    showFailures: 'Show what failed',
    copy: (name: string, to: string) => `Copy ${name} to ${to}`,
    move: (name: string, to: string) => `Move ${name} to ${to}`,
    upload: (name: string, to: string) => `Upload ${name} to ${to}`,
    download: (url: string, to: string) => `Download ${url} to ${to}`,
    progress: (done: number, size: string) => `${percent(done)} of ${size}`,
    states: {
      [TaskState.pending]: 'waiting for its turn',
      [TaskState.running]: 'running',
      [TaskState.succeeded]: 'succeeded',
      [TaskState.canceling]: 'being canceled',
      [TaskState.canceled]: 'canceled',
      [TaskState.failed]: 'failed',
      [TaskState.waiting]: 'waiting to try again',
    },
  },
}
