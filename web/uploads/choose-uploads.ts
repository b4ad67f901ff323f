/** Asks for files, or for a folder with its content, and uploads what is chosen. */
import { chosenFiles } from './chosen-files.ts'
import { startUploads } from './start-uploads.ts'

/** Call during an event of the user: browsers refuse it otherwise. `ofFolder`: a folder is chosen, not files. */
export function chooseUploads(path: string, ofFolder: boolean): void {
  const input = document.createElement('input')
  input.type = 'file'
  input.multiple = true
  input.webkitdirectory = ofFolder
  input.hidden = true
  input.addEventListener('change', () => {
    void startUploads(path, chosenFiles([...(input.files ?? [])]))
    input.remove()
  })
  input.addEventListener('cancel', () => input.remove())
  // Some browsers need it in the document.
  document.body.append(input)
  input.click()
}
