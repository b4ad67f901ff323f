/** Loads the pictures that may be shown next: the two beside it, if they are not large. */
import { useEffect } from 'preact/hooks'
import { queryClient } from '../../api/queries.ts'
import { entryQuery } from '../../entries/folder.ts'
import { useSource } from '../../entries/source.ts'
import { loadEntry } from '../siblings.ts'

/** The largest file that is loaded before somebody asks for it, in bytes. */
const largest = 12 * 2 ** 20

/** `path`: undefined: none. `isReady`: whether the picture before it is loaded, which goes first. */
export function usePreload(path: string | undefined, isReady: boolean): void {
  const { previewUrl } = useSource()
  useEffect(() => {
    if (path === undefined || !isReady || savesData()) return
    const image = new Image()
    let isNeeded = true
    void loadEntry(path).then(() => {
      const file = queryClient.getQueryData<{ size: number; sign: string; unreadable?: true }>(
        entryQuery(path).queryKey,
      )
      if (!isNeeded || !file || file.size > largest || file.unreadable === true) return
      image.src = previewUrl(path, file.sign)
    })
    return () => {
      isNeeded = false
      image.src = ''
    }
  }, [path, isReady, previewUrl])
}

/** Whether the user wants few bytes to be loaded (Network Information API). */
function savesData(): boolean {
  const { connection } = navigator as { readonly connection?: { readonly saveData?: boolean } }
  return connection?.saveData === true
}
