/** An editor that saves a text file only if nobody else has changed it meanwhile. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, putFile } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { queryClient } from '../api/queries.ts'
import { folderPasswords } from '../session/folder-passwords.ts'
import { showChanges } from '../entries/folder.ts'
import { report, reportFailure } from '../components/notices.tsx'
import { parentOf } from '../components/places.ts'
import type { DecodedText } from '../preview/encoding.ts'
import { textsOf } from '../texts/texts.ts'
import { CodeEditor } from './code-editor.tsx'
import { useWarningBeforeLeaving } from './unsaved.ts'

const texts = textsOf('common', 'viewers')

/** What is not UTF-8 is not saved, because that would change it. */
export interface LoadedText extends DecodedText {
  /** The entity tag of the file from which the text was read. */
  readonly etag: string
}

interface TextEditorProps {
  readonly path: string
  readonly name: string
  readonly loaded: LoadedText
  readonly readOnly: boolean
}

export function TextEditor({ path, name, loaded, readOnly }: TextEditorProps) {
  const [edited, setEdited] = useState(loaded.text)
  const [saved, setSaved] = useState<{ readonly text: string; readonly etag: string }>(loaded)
  const [busy, setBusy] = useState(false)
  const isChanged = edited !== saved.text
  useWarningBeforeLeaving(isChanged)
  useSaveKey(() => void save())

  async function save(): Promise<void> {
    if (readOnly || busy || !isChanged) return
    setBusy(true)
    try {
      const etag = await store(path, edited, saved.etag)
      setSaved({ text: edited, etag })
      report(texts.look.saved)
      await Promise.all([showChanges(parentOf(path)), queryClient.invalidateQueries({ queryKey: keys.entry(path) })])
    } catch (error) {
      const isConflict = error instanceof ApiError && error.error === 'precondition_failed'
      reportFailure(isConflict ? new Error(texts.look.conflict) : error)
    } finally {
      setBusy(false)
    }
  }

  return (
    <>
      {readOnly ? (
        <p class="loading">{texts.look.readOnly}</p>
      ) : (
        <div class="toolbar">
          <button type="button" class="primary" disabled={!isChanged || busy} onClick={() => void save()}>
            {texts.save}
          </button>
          <span class="muted" role="status">
            {isChanged && texts.look.unsaved}
          </span>
        </div>
      )}
      <CodeEditor name={name} text={loaded.text} readOnly={readOnly} onText={setEdited} />
    </>
  )
}

/** Stores the text if the file still has this entity tag. Resolves to the new one. */
function store(path: string, text: string, etag: string): Promise<string> {
  const headers = {
    'File-Path': encodeURIComponent(path),
    'If-Match': etag,
    Password: folderPasswords.headerOf(parentOf(path)),
    'Content-Type': 'application/octet-stream',
  }
  return putFile(headers, text)
}

/** Ctrl+S, or Command+S, saves wherever the focus is. */
function useSaveKey(onSave: () => void): void {
  const handler = useRef(onSave)
  handler.current = onSave
  useEffect(() => {
    function onKeyDown(event: KeyboardEvent): void {
      if (event.key !== 's' || event.altKey || event.shiftKey || !(event.ctrlKey || event.metaKey)) return
      event.preventDefault()
      handler.current()
    }
    addEventListener('keydown', onKeyDown)
    return () => removeEventListener('keydown', onKeyDown)
  }, [])
}
