/** Where uploads begin. The queue is loaded with the first one. */
import { signal } from '@preact/signals'
import { ApiError } from '../api/client.ts'
import { reporting } from '../components/notices.tsx'
import { withTexts } from '../texts/texts.ts'
import type { Chosen } from './chosen-files.ts'

/** Whether there have been uploads since the page was loaded. */
export const hasUploads = signal(false)

export interface DropFolder {
  readonly path: string
  readonly name: string
  readonly takesFolders: boolean
}

/** The folder that is shown and that the user may write to. Files that are dropped are uploaded to it. */
export const dropFolder = signal<DropFolder>()

/** Uploads what was chosen for the folder. Reports a failure to begin. */
export async function startUploads(folder: string, chosen: AsyncIterable<Chosen>): Promise<void> {
  await reporting(
    (async () => {
      const { addUploads } = await withTexts(import('./upload-queue.ts')).catch((error: unknown) => {
        throw new ApiError(String(error), 'unreachable')
      })
      hasUploads.value = true
      await addUploads(folder, chosen)
    })(),
  )
}
