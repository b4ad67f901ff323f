/** The buttons that choose files, or a folder with its content, for upload to the folder that is shown. */
import { FolderUp, Upload } from 'lucide-preact'
import { useEffect, useRef } from 'preact/hooks'
import { textsOf } from '../texts/texts.ts'
import { chosenFiles } from './chosen-files.ts'
import { dropFolder, startUploads } from './start-uploads.ts'

const texts = textsOf('files', 'uploads')

interface UploadButtonsProps {
  readonly path: string
  /** The name of the folder. */
  readonly name: string
  readonly disabled?: boolean
  /** Whether folders can be uploaded too. */
  readonly takesFolders?: boolean
}

export function UploadButtons({ path, name, disabled = false, takesFolders = true }: UploadButtonsProps) {
  useEffect(() => {
    if (disabled) return
    dropFolder.value = { path, name, takesFolders }
    return () => (dropFolder.value = undefined)
  }, [path, name, disabled, takesFolders])
  const input = useRef<HTMLInputElement>(null)
  function choose(folders: boolean) {
    if (!input.current) return
    input.current.webkitdirectory = folders
    input.current.click()
  }
  function onChange({ currentTarget }: { readonly currentTarget: HTMLInputElement }) {
    const chosen = [...(currentTarget.files ?? [])]
    // The same files can be chosen again.
    currentTarget.value = ''
    void startUploads(path, chosenFiles(chosen))
  }
  return (
    <>
      <input ref={input} type="file" multiple hidden onChange={onChange} />
      <button type="button" class="primary" disabled={disabled} onClick={() => choose(false)}>
        <Upload aria-hidden size={16} />
        <span class={takesFolders ? 'text' : undefined}>
          {takesFolders ? texts.files.upload : texts.uploads.chooseFiles}
        </span>
      </button>
      {takesFolders && (
        <button
          type="button"
          class="quiet icon"
          disabled={disabled}
          aria-label={texts.uploads.chooseFolder}
          title={texts.uploads.chooseFolder}
          onClick={() => choose(true)}
        >
          <FolderUp aria-hidden size={16} />
        </button>
      )}
    </>
  )
}
