/** The page as a target of dropped files and folders. */
import { useEffect, useState } from 'preact/hooks'
import { reportFailure } from '../components/notices.tsx'
import { textsOf } from '../texts/texts.ts'
import { droppedFiles } from './chosen-files.ts'
import { dropFolder, startUploads, type DropFolder } from './start-uploads.ts'
import './drop-target.css'

const texts = textsOf('uploads')

export function DropTarget() {
  const [isOver, setOver] = useState(false)
  useEffect(() => {
    const listening = new AbortController()
    const { signal } = listening
    addEventListener(
      'dragover',
      (event) => {
        if (!hasFiles(event)) return
        event.preventDefault()
        const folder = openFolder()
        event.dataTransfer.dropEffect = folder === undefined ? 'none' : 'copy'
        setOver(folder !== undefined)
      },
      { signal },
    )
    addEventListener(
      'dragleave',
      ({ relatedTarget }) => {
        // The pointer has left the window, not just an element.
        if (relatedTarget === null) setOver(false)
      },
      { signal },
    )
    addEventListener(
      'drop',
      (event) => {
        if (!hasFiles(event)) return
        // Without this, the browser would show the file instead of the page.
        event.preventDefault()
        setOver(false)
        const folder = openFolder()
        if (folder !== undefined) upload(folder, event.dataTransfer)
      },
      { signal },
    )
    return () => listening.abort()
  }, [])
  if (!isOver) return null
  return <div class="drop-target">{texts.uploads.drop(dropFolder.value?.name ?? '')}</div>
}

interface FileDragEvent extends DragEvent {
  readonly dataTransfer: DataTransfer
}

function hasFiles(event: DragEvent): event is FileDragEvent {
  return event.dataTransfer?.types.includes('Files') === true
}

/** The folder that takes what is dropped. Everything behind a dialog is inert. */
function openFolder(): DropFolder | undefined {
  return document.querySelector('dialog[open]') === null ? dropFolder.peek() : undefined
}

/** The entries can be taken during the event only. */
function upload({ path, takesFolders }: DropFolder, { items }: DataTransfer): void {
  const entries = [...items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null)
  const taken = entries.filter(({ isFile }) => isFile || takesFolders)
  if (taken.length < entries.length) reportFailure(new Error(texts.uploads.noFolders))
  const onFailure = (unread: string): void => reportFailure(new Error(texts.uploads.notRead(unread)))
  void startUploads(path, droppedFiles(taken, onFailure))
}
