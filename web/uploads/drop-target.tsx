/** The page, and folders that it shows, as targets of dropped files and folders. */
import { useEffect, useState } from 'preact/hooks'
import { textsOf } from '../texts/texts.ts'
import { dropFolder, startDroppedUploads, type DropFolder } from './start-uploads.ts'
import './drop-target.css'

const texts = textsOf('uploads')

export function DropTarget() {
  const [name, setName] = useState<string>()
  useEffect(() => {
    const listening = new AbortController()
    const { signal } = listening
    addEventListener(
      'dragover',
      (event) => {
        if (!hasFiles(event)) return
        event.preventDefault()
        const folder = folderAt(event)
        event.dataTransfer.dropEffect = folder === undefined ? 'none' : 'copy'
        setName(folder?.name)
      },
      { signal },
    )
    addEventListener(
      'dragleave',
      ({ relatedTarget }) => {
        // The pointer has left the window, not just an element.
        if (relatedTarget === null) setName(undefined)
      },
      { signal },
    )
    addEventListener(
      'drop',
      (event) => {
        if (!hasFiles(event)) return
        // Without this, the browser would show the file instead of the page.
        event.preventDefault()
        setName(undefined)
        const folder = folderAt(event)
        if (folder !== undefined) startDroppedUploads(folder, event.dataTransfer.items)
      },
      { signal },
    )
    return () => listening.abort()
  }, [])
  if (name === undefined) return null
  return <div class="drop-target">{texts.uploads.drop(name)}</div>
}

interface FileDragEvent extends DragEvent {
  readonly dataTransfer: DataTransfer
}

function hasFiles(event: DragEvent): event is FileDragEvent {
  return event.dataTransfer?.types.includes('Files') === true
}

/** The folder that takes what is dropped there: one that has `data-folder`, else the one that is shown. */
function folderAt({ target }: DragEvent): DropFolder | undefined {
  const shown = dropFolder.peek()
  // Everything behind a dialog is inert.
  if (shown === undefined || document.querySelector('dialog[open]') !== null) return undefined
  const element = target instanceof Element ? target.closest<HTMLElement>('[data-folder]') : null
  const path = element?.dataset.folder
  if (element === null || path === undefined || !shown.takesFolders) return shown
  return { ...shown, path, name: (element.querySelector('.name') ?? element).textContent }
}
