/** The buttons that choose files, or a folder with its content, for upload to the folder that is shown. */
import { FolderUp, Upload } from 'lucide-preact'
import { useEffect } from 'preact/hooks'
import { useCommand } from '../components/commands.ts'
import { textsOf } from '../texts/texts.ts'
import { chooseUploads } from './choose-uploads.ts'
import { dropFolder } from './start-uploads.ts'

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
  const command = takesFolders ? texts.files.upload : texts.uploads.chooseFiles
  useCommand(command, Upload, () => chooseUploads(path, false), !disabled)
  return (
    <>
      <button type="button" class="primary" disabled={disabled} onClick={() => chooseUploads(path, false)}>
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
          onClick={() => chooseUploads(path, true)}
        >
          <FolderUp aria-hidden size={16} />
        </button>
      )}
    </>
  )
}
