/** What transfers recover when a storage starts: interrupted intents, then uploads that no task will resume. */
import type { StorageRecovery } from '../storage/mount-supervisor.js'
import type { Intents } from './intents.js'
import type { TaskUploads } from './task-uploads.js'

export function storageRecovery(
  intents: Pick<Intents, 'recover' | 'close'>,
  uploads: Pick<TaskUploads, 'discardUnused' | 'discardOn' | 'tokens'>,
): StorageRecovery {
  return {
    recover: (storage) => intents.recover(storage),
    discardUnused: (storage) => uploads.discardUnused(storage),
    discardAll: (storage, tokens) => uploads.discardOn(storage, tokens),
    tokens: () => uploads.tokens(),
    close: () => intents.close(),
  }
}
