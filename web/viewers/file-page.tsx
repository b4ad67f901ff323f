/** The page of a file: its content if the console can show it, and its facts. */
import { Download, Link2 } from 'lucide-preact'
import { lazy } from 'preact/compat'
import { useState } from 'preact/hooks'
import type { Data } from '../api/client.ts'
import { EntryIcon } from '../entries/entry-icon.tsx'
import { formatSize, formatTime } from '../components/format.ts'
import { Loaded } from '../components/loaded.tsx'
import { parentOf } from '../components/places.ts'
import { texts } from '../texts.ts'
import { MediaView } from './media-view.tsx'
import { downloadUrl, previewUrl } from '../entries/preview-url.ts'
import { viewerOf } from './viewer.ts'
import '../styles/viewers.css'

const LinkDialog = lazy(async () => ({ default: (await import('./link-dialog.tsx')).LinkDialog }))
const PictureView = lazy(() => import('./picture-view.tsx'))
const TextView = lazy(() => import('./text-view.tsx'))
const PdfView = lazy(() => import('./pdf-view.tsx'))

export type ShownFile = Data<'/api/fs/get'>

interface FilePageProps {
  readonly path: string
  /** The path in the whole tree. */
  readonly treePath: string
  readonly file: ShownFile
}

export function FilePage({ path, treePath, file }: FilePageProps) {
  const [isLinking, setLinking] = useState(false)
  return (
    <section class="file">
      <header class="toolbar">
        <EntryIcon entry={file} />
        <h1>{file.name}</h1>
        <span class="muted">{[formatSize(file.size), formatTime(file.modified)].filter(Boolean).join(', ')}</span>
        <span class="space" />
        {file.unreadable !== true && (
          <>
            <button type="button" onClick={() => setLinking(true)}>
              <Link2 aria-hidden size={16} /> {texts.files.link}
            </button>
            <a class="button" href={downloadUrl(treePath, file.sign)} download={file.name}>
              <Download aria-hidden size={16} /> {texts.files.download}
            </a>
          </>
        )}
      </header>
      <Loaded>
        <Content key={path} path={path} treePath={treePath} file={file} />
        {isLinking && <LinkDialog path={parentOf(path)} name={file.name} onClose={() => setLinking(false)} />}
      </Loaded>
    </section>
  )
}

interface ContentProps {
  readonly path: string
  readonly treePath: string
  readonly file: ShownFile
}

function Content({ path, treePath, file }: ContentProps) {
  const source = previewUrl(treePath, file.sign)
  const viewer = viewerOf(file)
  switch (viewer) {
    case 'image':
      return <PictureView path={path} source={source} name={file.name} />
    case 'video':
    case 'audio':
      return <MediaView kind={viewer} source={source} file={file} folder={parentOf(treePath)} />
    case 'pdf':
      return <PdfView source={source} name={file.name} />
    case 'text':
    case 'markdown':
      return <TextView path={path} source={source} name={file.name} isMarkdown={viewer === 'markdown'} />
    case 'none':
    case 'unreadable':
      return <p class="loading">{texts.look[viewer]}</p>
  }
}
