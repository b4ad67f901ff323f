/** A text file, and an editor that saves it only if nobody else has changed it meanwhile. */
import { useQuery } from '@tanstack/preact-query'
import { lazy } from 'preact/compat'
import { useEffect, useState } from 'preact/hooks'
import { ApiError, apiUrl, post, unwrapped } from '../api/client.ts'
import { queryClient } from '../api/queries.ts'
import { folderPasswords } from '../files/folder-passwords.ts'
import { Failure } from '../parts/failure.tsx'
import { report, reportFailure } from '../parts/notices.tsx'
import { parentOf } from '../parts/places.ts'
import { texts } from '../texts.ts'
import { CodeEditor } from './code-editor.tsx'
import type { ShownFile } from './file-page.tsx'

const Markdown = lazy(() => import('../parts/markdown.tsx'))

/** The code of a write whose precondition does not hold. */
const changedMeanwhile = 412

interface TextViewProps {
  readonly path: string
  /** The URL of the content. */
  readonly source: string
  readonly file: ShownFile
  readonly isMarkdown: boolean
}

export default function TextView({ path, source, file, isMarkdown }: TextViewProps) {
  const [editing, setEditing] = useState(!isMarkdown)
  const { data, error } = useQuery({
    queryKey: ['text', path, file.etag],
    queryFn: ({ signal }) => loadText(source, signal),
    staleTime: Infinity,
    gcTime: 0,
  })
  const { data: mayWrite } = useQuery({
    queryKey: ['may write', parentOf(path)],
    queryFn: () => mayWriteIn(parentOf(path)),
  })
  if (error) return <Failure error={error} />
  if (data === undefined) return <p class="loading">{texts.loading}</p>
  // No text holds a NUL character.
  if (data.text.includes('\0')) return <p class="loading">{texts.look.none}</p>
  if (!editing) {
    return (
      <>
        <div class="toolbar">
          <button type="button" onClick={() => setEditing(true)}>
            {mayWrite === true ? texts.look.edit : texts.look.source}
          </button>
        </div>
        <div class="page">
          <Markdown text={data.text} path={parentOf(path)} />
        </div>
      </>
    )
  }
  const readOnly = mayWrite !== true || !data.isUtf8
  return <Editor key={file.etag} path={path} file={file} text={data.text} readOnly={readOnly} />
}

interface LoadedText {
  readonly text: string
  /** Whether the bytes are UTF-8. Others are shown as Latin-1 and not saved, because that would change them. */
  readonly isUtf8: boolean
}

async function loadText(url: string, signal: AbortSignal): Promise<LoadedText> {
  const response = await fetch(url, { signal })
  if (!response.ok) throw new ApiError(response.status, texts.look.notRead)
  const bytes = await response.arrayBuffer()
  try {
    return { text: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes), isUtf8: true }
  } catch {
    return { text: new TextDecoder('latin1').decode(bytes), isUtf8: false }
  }
}

async function mayWriteIn(folder: string): Promise<boolean> {
  const { write } = await post('/api/fs/list', {
    path: folder,
    password: folderPasswords.of(folder),
    page: 1,
    per_page: 1,
  })
  return write
}

interface EditorProps {
  readonly path: string
  readonly file: ShownFile
  readonly text: string
  readonly readOnly: boolean
}

function Editor({ path, file, text, readOnly }: EditorProps) {
  const [edited, setEdited] = useState(text)
  const [saved, setSaved] = useState({ text, etag: file.etag })
  const [busy, setBusy] = useState(false)
  const isChanged = edited !== saved.text
  useWarningBeforeLeaving(isChanged)

  async function save(): Promise<void> {
    setBusy(true)
    try {
      const etag = await store(path, edited, saved.etag)
      setSaved({ text: edited, etag })
      report(texts.look.saved)
      await queryClient.invalidateQueries({ queryKey: ['folder', parentOf(path)] })
    } catch (error) {
      const isConflict = error instanceof ApiError && error.code === changedMeanwhile
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
          {isChanged && <span class="muted">{texts.look.unsaved}</span>}
        </div>
      )}
      <CodeEditor name={file.name} text={text} readOnly={readOnly} onText={setEdited} onSave={() => void save()} />
    </>
  )
}

/** Stores the text if the file still has this entity tag. Resolves to the new one. */
async function store(path: string, text: string, etag: string): Promise<string> {
  const response = await fetch(apiUrl('/api/fs/put'), {
    method: 'PUT',
    headers: {
      'File-Path': encodeURIComponent(path),
      'If-Match': etag,
      Password: folderPasswords.headerOf(parentOf(path)),
      'Content-Type': 'application/octet-stream',
    },
    body: text,
  })
  unwrapped((await response.json()) as Parameters<typeof unwrapped>[0])
  return (await post('/api/fs/get', { path, password: folderPasswords.of(parentOf(path)) })).etag
}

function useWarningBeforeLeaving(isNeeded: boolean): void {
  useEffect(() => {
    if (!isNeeded) return
    const warn = (event: BeforeUnloadEvent) => event.preventDefault()
    addEventListener('beforeunload', warn)
    return () => removeEventListener('beforeunload', warn)
  }, [isNeeded])
}
