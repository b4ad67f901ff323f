/** Tasks. */
import { TaskState } from '../../api/schema.ts'
import { percent } from '../format.ts'

export default {
  tasks: {
    downloadsHint: 'The server downloads files from URLs into a folder, also while you are away.',
    hint: 'Copies and moves between storages, and what the server downloads, go on here while you do something else.',
    running: 'In progress',
    ended: 'Finished',
    noneRunning: 'Nothing is in progress.',
    noneEnded: 'Nothing has finished lately.',
    clear: 'Remove all finished',
    remove: 'Remove from the list',
    showFailures: 'Show what failed',
    progress: (done: number, size: string) => `${percent(done)} of ${size}`,
    /** What tasks are about, by their verbs. */
    names: {
      copy: (from: string, to: string) => `Copy ${from} to ${to}`,
      move: (from: string, to: string) => `Move ${from} to ${to}`,
      merge: (from: string, to: string) => `Merge ${from} into ${to}`,
      upload: (from: string, to: string) => `Upload ${from} to ${to}`,
      download: (from: string, to: string) => `Download ${from} to ${to}`,
      transfer: (from: string, to: string) => `Transfer ${from} to ${to}`,
    },
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
