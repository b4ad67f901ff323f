/** Which pictures have a preview that is shown before them, and which are needed all the same. */
import { smallImage, thumbnailUrl } from '../../entries/thumbnail.tsx'
import type { ShownFile } from '../file-page.tsx'
import { previewSide } from './zoom.ts'

/** Pictures that browsers show. Of others, only the preview can be seen. */
const shownByBrowsers = /\.(?:apng|avif|bmp|gif|ico|jpe?g|png|svg|webp)$/i

/** Pictures that may move. Their previews do not. */
const moving = /\.(?:apng|avif|gif|webp)$/i

type PictureFile = Pick<ShownFile, 'name' | 'thumb' | 'modified' | 'size' | 'unreadable'>

/** The URL of the preview of a picture; undefined if there is none, or if the picture is hardly larger. */
export function previewOf(file: PictureFile): string | undefined {
  return file.size > smallImage || !shownByBrowsers.test(file.name) ? thumbnailUrl(file, previewSide) : undefined
}

export function mayMove({ name }: Pick<ShownFile, 'name'>): boolean {
  return moving.test(name)
}

/** Whether the user wants few bytes to be loaded (Network Information API). */
export function savesData(): boolean {
  const { connection } = navigator as { readonly connection?: { readonly saveData?: boolean } }
  return connection?.saveData === true
}
