/** Loads what is shown first of the pictures beside a picture: previews, or the pictures if they are not large. */
import { useEffect } from 'preact/hooks'
import { queryClient } from '../../api/queries.ts'
import { entryQuery } from '../../entries/folder.ts'
import { useSource } from '../../entries/source.ts'
import type { ShownFile } from '../file-page.tsx'
import { loadEntry } from '../siblings.ts'
import { previewOf, savesData } from './preview.ts'

/** The largest file that is loaded before somebody asks for it, in bytes. */
const largest = 12 * 2 ** 20

/** `path`: undefined: none. `isReady`: whether the picture before it is shown, which goes first. */
export function usePreload(path: string | undefined, isReady: boolean): void {
  const { previewUrl } = useSource()
  useEffect(() => {
    if (path === undefined || !isReady || savesData()) return
    const image = new Image()
    let isNeeded = true
    void loadEntry(path).then(() => {
      const file = queryClient.getQueryData<ShownFile>(entryQuery(path).queryKey)
      if (!isNeeded || !file || file.unreadable === true) return
      const preview = previewOf(file)
      if (preview !== undefined) image.src = preview
      else if (file.size <= largest) image.src = previewUrl(path, file.sign)
    })
    return () => {
      isNeeded = false
      image.src = ''
    }
  }, [path, isReady, previewUrl])
}
