/** A text file: as its source in an editor, or as the document that its Markdown describes. */
import { useQuery } from '@tanstack/preact-query'
import { useState } from 'preact/hooks'
import { post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { Right } from '../api/schema.ts'
import { useSource } from '../entries/source.ts'
import { folderPasswords } from '../session/folder-passwords.ts'
import { Failure } from '../components/failure.tsx'
import { part } from '../components/loaded.tsx'
import { parentOf } from '../components/places.ts'
import { decodedText } from '../preview/encoding.ts'
import { textsOf } from '../texts/texts.ts'
import { TextEditor, type LoadedText } from './text-editor.tsx'

const texts = textsOf('common', 'viewers')

const Markdown = part(() => import('./markdown.tsx'))

interface TextViewProps {
  readonly path: string
  /** The URL of the content. */
  readonly source: string
  readonly name: string
  readonly isMarkdown: boolean
}

export default function TextView({ path, source, name, isMarkdown }: TextViewProps) {
  const { top } = useSource()
  const [showsSource, setShowsSource] = useState(!isMarkdown)
  // A file that is shared alone is in no folder, and only read.
  const isAlone = path === top
  const folder = isAlone ? path : parentOf(path)
  // Loaded once, so that nothing takes the place of what the user has edited.
  const once = { staleTime: 'static', gcTime: 0 } as const
  const { data: loaded, error } = useQuery({
    queryKey: keys.text(path),
    queryFn: ({ signal }) => loadText(source, signal),
    ...once,
  })
  const { data: mayWrite, isPending } = useQuery({
    queryKey: keys.mayWrite(folder),
    queryFn: () => !isAlone && mayWriteIn(folder),
    ...once,
  })
  if (error && !loaded) return <Failure error={error} />
  if (loaded === undefined || isPending) return <p class="loading skeleton">{texts.loading}</p>
  // No text holds a NUL character.
  if (loaded.text.includes('\0')) return <p class="loading">{texts.look.none}</p>
  if (showsSource) {
    return <TextEditor path={path} name={name} loaded={loaded} readOnly={mayWrite !== true || !loaded.isUtf8} />
  }
  return (
    <>
      <div class="toolbar">
        <button type="button" onClick={() => setShowsSource(true)}>
          {mayWrite === true ? texts.look.edit : texts.look.source}
        </button>
      </div>
      <div class="page">
        <Markdown text={loaded.text} path={folder} />
      </div>
    </>
  )
}

async function loadText(url: string, signal: AbortSignal): Promise<LoadedText> {
  const response = await fetch(url, { signal, cache: 'no-cache' })
  if (!response.ok) throw new Error(texts.look.notRead)
  const etag = response.headers.get('ETag') ?? ''
  return { ...decodedText(new Uint8Array(await response.arrayBuffer())), etag }
}

async function mayWriteIn(folder: string): Promise<boolean> {
  const fields = { path: folder, password: folderPasswords.of(folder), page: 1, per_page: 1 }
  return (await post('/api/fs/list', fields)).rights.includes(Right.write)
}
