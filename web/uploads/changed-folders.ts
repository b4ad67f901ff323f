/** Shows what was uploaded, in whichever folder is open: at most twice a second, and not before it is shown. */
import { showChanges } from '../entries/folder.ts'
import { parentOf } from '../components/places.ts'
import type { Upload } from './upload.ts'

/** Milliseconds between two refreshes. */
const interval = 500

const folders = new Set<string>()
let isRefreshing = false

/** The folder of the upload has a new entry, and so may have those above it, up to the one that it was chosen for. */
export function folderChanged({ path, batch }: Upload): void {
  for (let folder = parentOf(path); folder.length > batch.folder.length; folder = parentOf(folder)) folders.add(folder)
  folders.add(batch.folder)
  if (!isRefreshing) void refresh()
}

async function refresh(): Promise<void> {
  isRefreshing = true
  while (folders.size > 0) {
    await new Promise((resolve) => setTimeout(resolve, interval))
    const changed = [...folders]
    folders.clear()
    // A folder that cannot be listed says so on its page.
    await showChanges(...changed).catch(() => undefined)
  }
  isRefreshing = false
}
