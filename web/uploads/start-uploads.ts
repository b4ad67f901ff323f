/** Where uploads begin. The queue is loaded with the first one. */
import { signal } from '@preact/signals'
import { ApiError } from '../api/client.ts'
import { reportFailure, reporting } from '../components/notices.tsx'
import { textsOf, withTexts } from '../texts/texts.ts'
import { chosenFiles, droppedFiles, type Chosen } from './chosen-files.ts'

const texts = textsOf('uploads')

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

/**
 * Uploads the files and folders of a drop or of the clipboard. Call during its event: they can be taken only then.
 * Reports folders that are not taken, and what cannot be read.
 */
export function startDroppedUploads(
  { path, takesFolders }: Pick<DropFolder, 'path' | 'takesFolders'>,
  items: DataTransferItemList,
): void {
  const entries: FileSystemEntry[] = []
  // A picture that was copied in another program is a file without an entry.
  const files: File[] = []
  for (const item of items) {
    const entry = item.webkitGetAsEntry()
    const file = entry === null ? item.getAsFile() : null
    if (entry) entries.push(entry)
    else if (file) files.push(file)
  }
  const taken = entries.filter(({ isFile }) => isFile || takesFolders)
  if (taken.length < entries.length) reportFailure(new Error(texts.uploads.noFolders))
  const onFailure = (unread: string): void => reportFailure(new Error(texts.uploads.notRead(unread)))
  if (files.length > 0) void startUploads(path, chosenFiles(files))
  if (taken.length > 0) void startUploads(path, droppedFiles(taken, onFailure))
}
